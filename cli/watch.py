"""Watching a run in the store, phase by phase, from beside the worker that drives it."""

from __future__ import annotations

import time
from pathlib import Path

from app.messages import PHASE_WORDS
from app.states import ENDED, RunState
from app.store import Run, make_engine, reading, runs
from cli.errors import fail
from cli.phases import PhaseLines

RUN_PATIENCE_S = 900.0
POLL_S = 0.1


def follow(folder: Path, phases: PhaseLines, *, after: str = "", key: str = "") -> Run:
    """Print the phases of the newest run but `after`, as the store tells them; returns it, ended.

    `key` goes before the names under which the seconds are kept.
    """
    engine = make_engine(f"sqlite:///{folder / 'state' / 'drydock.sqlite3'}")
    deadline = time.monotonic() + RUN_PATIENCE_S
    seen: RunState | None = None
    while time.monotonic() < deadline:
        with reading(engine) as session:
            found = [run for run in runs.recent(session, 1) if run.id != after]
        if found and found[0].state is not seen:
            seen = found[0].state
            if seen in ENDED:
                phases.done()
                return found[0]
            phases.begin(f"{key}{seen.value}", PHASE_WORDS.get(seen, "Wait for a worker"))
        time.sleep(POLL_S)
    raise fail(f"the run did not end within {RUN_PATIENCE_S:.0f} s; see {folder}/drydock.log")
