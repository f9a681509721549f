"""Whose turn it is: one process of this host at a time has the deliveries about one issue."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.locks import locked


@contextmanager
def alone(state_dir: Path, subject: str) -> Iterator[bool]:
    """Yield whether no other process of this host has a delivery about this in its hands.

    Two at once would both find no answer yet, and both give one. A process that dies lets go.
    """
    name = hashlib.sha256(subject.encode()).hexdigest()
    path = state_dir / "intake" / f"{name}.lock"
    with locked(path) as is_ours:
        try:
            yield is_ours
        finally:
            # There are as many names as there are issues.
            if is_ours:
                path.unlink()
