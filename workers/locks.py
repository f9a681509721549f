"""Locks among the processes of this host: each is a file, and the kernel keeps who holds it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.1


@contextmanager
def locked(path: Path, patience_s: float = 0.0) -> Iterator[bool]:
    """Yield whether this holder alone has the lock at `path`, having waited `patience_s` for it.

    A process that ends lets go, however it ends; a holder may also remove the file as the last
    thing that it does. Errors: OSError where the file cannot be made.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = _wait_for(path, time.monotonic() + patience_s)
    try:
        yield held is not None
    finally:
        if held is not None:
            os.close(held)


def _wait_for(path: Path, deadline: float) -> int | None:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)
            continue
        if _is_at(handle, path):
            return handle
        os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    """A file that its last holder removed between the opening and the lock keeps nobody out."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
