"""Whether a machine waits for a run, awake: seen from outside the worker whose pool it is."""

from __future__ import annotations

import fcntl
from enum import StrEnum
from pathlib import Path

from sandbox.machines import find_records
from sandbox.pool import PROCESS_TIERS


class Warmth(StrEnum):
    """What a run that comes now would find, in words."""

    NONE = "no machine waits"
    WAKING = "a machine waits, and is still waking up"
    WARM = "a machine waits, warm"


def warmth_of(state_dir: Path) -> Warmth:
    """Look at the machines' records and at the lock that a pool holds while it wakes one up."""
    records = (each for tier in PROCESS_TIERS for each in find_records(state_dir, tier))
    if not any(record.info().waits for record in records):
        return Warmth.NONE
    with (state_dir / "waking.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Warmth.WAKING
    return Warmth.WARM
