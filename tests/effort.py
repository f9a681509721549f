"""How much work something is, on any machine and beside any other work.

A clock tells how busy the host is as well. So the time of this thread's processor is held against
that of a fixed piece of work, done right before and after.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# What the yardstick takes on a processor of 2023 that has nothing else to do, in seconds.
_YARDSTICK_S = 0.02
_TRIES = 5


def effort(
    act: Callable[[], object], enough: float, fresh: Callable[[], object] = lambda: None
) -> float:
    """Return about how many seconds `act` would take on a quiet host.

    The least of a few tries; one that is below `enough` is the last. `fresh` comes before each: it
    empties what the last one may have filled.
    """
    least = float("inf")
    for _ in range(_TRIES):
        fresh()
        before = _yardstick()
        spent = _spent(act)
        least = min(least, spent * _YARDSTICK_S * 2 / (before + _yardstick()))
        if least < enough:
            break
    return least


def _yardstick() -> float:
    """Make and drop objects, as whatever reads text does: a busy host slows that the most."""
    return _spent(lambda: [{"number": number, "text": [str(number)]} for number in range(40_000)])


def _spent(act: Callable[[], object]) -> float:
    begun = time.thread_time()
    act()
    return time.thread_time() - begun
