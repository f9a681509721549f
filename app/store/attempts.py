"""Attempts: the machines of a run, so that every machine can be traced to what it was for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.store.convert import to_attempt
from app.store.models import AttemptRow
from app.store.values import Attempt


def start(
    session: Session,
    run_id: str,
    number: int,
    *,
    machine_id: str,
    provider: str,
    receipt: Mapping[str, Any],
    now: datetime,
) -> Attempt:
    """Record the machine of an attempt; `number` is the run's `attempt`.

    An attempt that has one already gets the new one, since the earlier never did any work.
    """
    row = session.merge(
        AttemptRow(
            run_id=run_id,
            number=number,
            machine_id=machine_id,
            provider=provider,
            receipt=dict(receipt),
            started_at=now,
            ended_at=None,
            outcome=None,
        )
    )
    session.flush()
    return to_attempt(row)


def end(session: Session, run_id: str, number: int, outcome: str, now: datetime) -> bool:
    """Record how an attempt ended. False when it had ended already, or never started."""
    ended = session.execute(
        update(AttemptRow)
        .where(
            AttemptRow.run_id == run_id, AttemptRow.number == number, AttemptRow.ended_at.is_(None)
        )
        .values(ended_at=now, outcome=outcome)
        .returning(AttemptRow.number)
    )
    return ended.first() is not None


def of_run(session: Session, run_id: str) -> tuple[Attempt, ...]:
    """Return the attempts of a run in order."""
    rows = session.scalars(
        select(AttemptRow).where(AttemptRow.run_id == run_id).order_by(AttemptRow.number)
    )
    return tuple(to_attempt(row) for row in rows)


def by_machine(session: Session, machine_id: str) -> Attempt | None:
    """Return the attempt that a machine belongs to; None for a stranger."""
    row = session.scalar(select(AttemptRow).where(AttemptRow.machine_id == machine_id))
    return to_attempt(row) if row is not None else None
