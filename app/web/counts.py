"""Counts that all processes of the web application share and that survive their restarts.

A webhook that is refused leaves no row, so its count cannot come from the database. Each count is
eight bytes of one small file, changed under a lock; prometheus-client's own multi-process mode
would read the environment at import and leave a file behind for every process that ever was.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_COUNT = struct.Struct("<Q")


class SharedCounts:
    """Counts by name. The names, and their order, are fixed for one file."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        self._path = path
        self._names = names

    def add(self, name: str) -> None:
        """Add one. ValueError for a name that is not among them."""
        place = self._names.index(name) * _COUNT.size
        with self._locked() as file:
            (before,) = _COUNT.unpack(os.pread(file, _COUNT.size, place).ljust(_COUNT.size, b"\0"))
            os.pwrite(file, _COUNT.pack(before + 1), place)

    def read(self) -> Mapping[str, int]:
        """Return every count; 0 for one that was never added to."""
        size = len(self._names) * _COUNT.size
        with self._locked() as file:
            found = os.pread(file, size, 0).ljust(size, b"\0")
        return dict(zip(self._names, (n for (n,) in _COUNT.iter_unpack(found)), strict=True))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)
