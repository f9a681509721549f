"""Run ids: ULIDs, so that ids sort by the time of their creation (https://github.com/ulid/spec)."""

from __future__ import annotations

import secrets
from datetime import datetime

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LENGTH = 26
_RANDOM_BITS = 80


def new_id(now: datetime) -> str:
    """Return a fresh id of 26 characters: 48 bits of milliseconds, then 80 random bits."""
    milliseconds = int(now.timestamp() * 1000)
    number = (milliseconds << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(5 * (_LENGTH - 1), -1, -5))
