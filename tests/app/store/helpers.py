"""Times, runs and new deliveries for the store's tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine

from app.store import NewDelivery, NewRun, Run, reading, runs, writing

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


def create(engine: Engine, issue: int = 1, seconds: float = 0, **changes: object) -> Run:
    with writing(engine) as session:
        made = runs.create(session, new_run(issue, **changes), at(seconds))
    assert isinstance(made, Run)
    return made


def get(engine: Engine, run_id: str) -> Run:
    with reading(engine) as session:
        found = runs.get(session, run_id)
    assert found is not None
    return found


_DELIVERY = NewDelivery(delivery_id="d-1", event="issues", body=b'{"a": 1}', received_at=T0)


def new_delivery(delivery_id: str = "d-1", seconds: float = 0, **changes: object) -> NewDelivery:
    given = {"delivery_id": delivery_id, "received_at": at(seconds), **changes}
    return replace(_DELIVERY, **given)  # type: ignore[arg-type]
