"""What GitHub was told of a run: its place while it waits, and its ending, so that none is silent.

The row of an ended run says when to try (`tell_at`) until it was told, or given up.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.states import RunState
from app.store.convert import to_run
from app.store.models import RunRow
from app.store.transitions import locked
from app.store.values import Run


def untold(session: Session, now: datetime, limit: int = 50) -> tuple[Run, ...]:
    """Return the ended runs whose ending is due to be told, the longest overdue first."""
    rows = session.scalars(
        select(RunRow).where(RunRow.tell_at <= now).order_by(RunRow.tell_at, RunRow.id).limit(limit)
    )
    return tuple(to_run(row) for row in rows)


def mark_place(session: Session, run_id: str, place: int) -> None:
    """Record which place in the queue is told of a run that waits. Nothing for any other run."""
    row = locked(session, run_id)
    if row is not None and row.state is RunState.QUEUED:
        row.told_place = place
        session.flush()


def mark_told(session: Session, run_id: str, now: datetime) -> None:
    """Record that the ending stands on GitHub. Nothing for a run that has not ended."""
    row = locked(session, run_id)
    if row is not None and row.ended_at is not None:
        row.told_at, row.tell_at = now, None
        session.flush()


def mark_untold(session: Session, run_id: str, again_at: datetime | None) -> None:
    """Record that telling failed once more, and when to try again; None gives up."""
    row = locked(session, run_id)
    if row is not None and row.ended_at is not None and row.told_at is None:
        row.tell_tries += 1
        row.tell_at = again_at
        session.flush()
