"""A run's own folder on this host, and the names of what lies in it."""

from __future__ import annotations

from pathlib import Path

RUNS = "runs"
# What goes into the machine, what came out of it, and where that is judged and made again.
IN_BUNDLE = "in.bundle"
OUT_BUNDLE = "out.bundle"
QUARANTINE = "quarantine.git"


def run_folder(state_dir: Path, run_id: str) -> Path:
    """Return the run's own folder, which need not be there."""
    return state_dir / RUNS / run_id
