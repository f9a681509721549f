"""Workers: each reports now and then that it lives and whether it can start machines.

The web process may run where no machine can; it answers `/readyz` from these rows.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from app.store.convert import to_worker
from app.store.models import WorkerRow
from app.store.types import storable
from app.store.values import Worker


def report(session: Session, name: str, *, provider: str, now: datetime, problem: str = "") -> None:
    """Record that worker `name` (one per process, or per host) lives, with its provider's name.

    `problem` says why its provider cannot start machines; "" when it can.
    """
    session.merge(WorkerRow(name=name, provider=provider, problem=storable(problem), seen_at=now))
    session.flush()


def seen_since(session: Session, moment: datetime) -> tuple[Worker, ...]:
    """Return the workers that reported since `moment`, the latest first."""
    rows = session.scalars(
        select(WorkerRow)
        .where(WorkerRow.seen_at >= moment)
        .order_by(WorkerRow.seen_at.desc(), WorkerRow.name)
    )
    return tuple(to_worker(row) for row in rows)


def forget(session: Session, older_than: datetime) -> None:
    """Drop workers that have not reported since."""
    session.execute(delete(WorkerRow).where(WorkerRow.seen_at < older_than))
