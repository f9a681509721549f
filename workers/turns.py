"""Whose turn it is: one process of this host at a time has the deliveries about one issue."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO


@contextmanager
def alone(state_dir: Path, subject: str) -> Iterator[bool]:
    """Yield whether no other process of this host has a delivery about this in its hands.

    Two at once would both find no answer yet, and both give one. A process that dies lets go.
    """
    name = hashlib.sha256(subject.encode()).hexdigest()
    folder = state_dir / "intake"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = _locked(folder / f"{name}.lock")
    if held is None:
        yield False
        return
    try:
        yield True
    finally:
        Path(held.name).unlink()
        held.close()


def _locked(path: Path) -> TextIO | None:
    """Return the file, locked; None when somebody else has it.

    A file that its last holder removed between the opening and the lock would keep nobody out.
    """
    while True:
        held = path.open("w")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held.fileno()), path.stat()):
                return held
        held.close()
