"""Deliveries: stored once, processed by whoever takes them, never lost.

Every function takes a session and leaves the commit to its caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Insert, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from app.store.convert import to_delivery
from app.store.models import DeliveryRow
from app.store.values import Delivery, DeliveryState

_WAITING = (DeliveryState.RECEIVED, DeliveryState.FAILED)


def record(
    session: Session,
    *,
    delivery_id: str,
    event: str,
    body: bytes,
    now: datetime,
    state: DeliveryState = DeliveryState.RECEIVED,
    reason: str = "",
) -> bool:
    """Store a delivery. False when one with that id is there already, which is then untouched."""
    values = {
        "delivery_id": delivery_id,
        "event": event,
        "body": body,
        "received_at": now,
        "touched_at": now,
        "state": state,
        "reason": reason,
        "attempts": 0,
        "enqueue_failures": 0,
        "processed_at": now if state is not DeliveryState.RECEIVED else None,
    }
    stored = session.execute(_insert_if_absent(session).values(values).returning(DeliveryRow.event))
    return stored.first() is not None


def get(session: Session, delivery_id: str) -> Delivery | None:
    row = session.get(DeliveryRow, delivery_id, populate_existing=True)
    return to_delivery(row) if row is not None else None


def begin(session: Session, delivery_id: str, now: datetime) -> Delivery | None:
    """Take a delivery up: count the attempt, and return it.

    None when it needs no work: unknown, or processed or ignored already. One that failed may be
    taken up again, since somebody who asks for a redelivery wants exactly that.
    """
    taken = session.execute(
        update(DeliveryRow)
        .where(DeliveryRow.delivery_id == delivery_id, DeliveryRow.state.in_(_WAITING))
        .values(
            state=DeliveryState.RECEIVED,
            attempts=DeliveryRow.attempts + 1,
            touched_at=now,
            reason="",
        )
        .returning(DeliveryRow.delivery_id)
    ).first()
    return get(session, delivery_id) if taken is not None else None


def mark(
    session: Session, delivery_id: str, state: DeliveryState, now: datetime, reason: str = ""
) -> bool:
    """Set what became of a delivery. False when there is no such delivery."""
    done = session.execute(
        update(DeliveryRow)
        .where(DeliveryRow.delivery_id == delivery_id)
        .values(
            state=state,
            reason=reason,
            touched_at=now,
            processed_at=now if state is not DeliveryState.RECEIVED else None,
        )
        .returning(DeliveryRow.delivery_id)
    )
    return done.first() is not None


def count_enqueue_failure(session: Session, delivery_id: str) -> None:
    """Remember that the queue could not be told; the delivery stays `received` for `stale`."""
    session.execute(
        update(DeliveryRow)
        .where(DeliveryRow.delivery_id == delivery_id)
        .values(enqueue_failures=DeliveryRow.enqueue_failures + 1)
    )


def stale(session: Session, older_than: datetime, limit: int = 100) -> tuple[Delivery, ...]:
    """Return deliveries still `received` and untouched since `older_than`, oldest first.

    Their id never reached a worker, or the worker died over them: enqueue them again.
    """
    rows = session.scalars(
        select(DeliveryRow)
        .where(DeliveryRow.state == DeliveryState.RECEIVED, DeliveryRow.touched_at < older_than)
        .order_by(DeliveryRow.received_at, DeliveryRow.delivery_id)
        .limit(limit)
    )
    return tuple(to_delivery(row) for row in rows)


def counts(session: Session) -> Mapping[DeliveryState, int]:
    """Return how many deliveries there are in each state (0 where none)."""
    found = session.execute(select(DeliveryRow.state, func.count()).group_by(DeliveryRow.state))
    return {**dict.fromkeys(DeliveryState, 0), **dict(found.all())}


def enqueue_failures(session: Session) -> int:
    """Return how often the queue could not be told of a stored delivery."""
    return int(session.scalar(select(func.sum(DeliveryRow.enqueue_failures))) or 0)


def oldest_waiting(session: Session) -> datetime | None:
    """Return when the oldest delivery that still waits was received."""
    return session.scalar(
        select(func.min(DeliveryRow.received_at)).where(DeliveryRow.state == DeliveryState.RECEIVED)
    )


def _insert_if_absent(session: Session) -> Insert:
    """Both databases know ON CONFLICT DO NOTHING; SQLAlchemy spells it per dialect."""
    if session.get_bind().dialect.name == "postgresql":
        return postgresql.insert(DeliveryRow).on_conflict_do_nothing()
    return sqlite.insert(DeliveryRow).on_conflict_do_nothing()
