"""Waiting for what tells nobody that it has happened."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 10.0


def eventually(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    """Poll what only the kernel or another process knows."""
    give_up = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up, "it did not come true in time"
        time.sleep(0.01)
