"""What the bundles of the corpus are put together from."""

from __future__ import annotations

from pathlib import Path

from tests.workers.gate.conftest import Yard


def write(yard: Yard, data: bytes) -> Path:
    path = yard.root / "parcel"
    path.write_bytes(data)
    return path


def needed(yard: Yard, tip: str) -> list[str]:
    """The names of what the commits from the base to `tip` need."""
    line = f"{yard.base}..{tip}"
    return yard.guest.git("rev-list", "--objects", "--no-object-names", line).split()
