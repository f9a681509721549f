"""Timestamps as GitHub writes them: UTC, whole seconds, `Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(seconds: float) -> str:
    """Return seconds since the epoch as `2026-01-31T12:00:00Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_or_none(seconds: float | None) -> str | None:
    return None if seconds is None else stamp(seconds)


def seconds_from(text: str) -> float:
    """Return the seconds since the epoch of an ISO 8601 timestamp. ValueError when it is none."""
    return datetime.fromisoformat(text).timestamp()
