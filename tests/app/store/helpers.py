"""Times and new runs for the store's tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from app.store import NewRun

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


_NEW = NewRun(
    repo_id=1,
    repo="octo/ship",
    installation_id=7,
    issue_number=1,
    issue_title="The pump leaks",
    asked_by="ada",
    asked_by_id=100,
)


def new_run(issue: int = 1, **changes: object) -> NewRun:
    return replace(_NEW, issue_number=issue, **changes)  # type: ignore[arg-type]
