"""Deliveries: stored once, processed by whoever takes them, never lost.

Every function takes a session and leaves the commit to its caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, and_, func, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from app.store.convert import to_delivery
from app.store.models import KEPT_BODY, DeliveryRow
from app.store.values import Delivery, DeliveryState, NewDelivery, StaleDelivery

_WAITING = (DeliveryState.RECEIVED, DeliveryState.FAILED)


def record(session: Session, new: NewDelivery) -> bool:
    """Store a delivery. False when one with that id is there already, which is then untouched."""
    connection = session.connection()
    stored = connection.execute(_INSERT[connection.dialect.name], _row(new))
    return stored.first() is not None


def reopen(session: Session, again: NewDelivery) -> None:
    """Let a delivery that failed be tried from the start, now that somebody has it redelivered."""
    session.execute(
        update(DeliveryRow)
        .where(
            DeliveryRow.delivery_id == again.delivery_id, DeliveryRow.state == DeliveryState.FAILED
        )
        .values(
            state=DeliveryState.RECEIVED,
            attempts=0,
            body=again.body,
            touched_at=again.received_at,
            processed_at=None,
        )
        .execution_options(synchronize_session=False)
    )


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


def next_for(session: Session, asked: Delivery, tried: bool) -> Delivery | None:
    """Return the delivery to take when `asked` is to be: an earlier one about the same goes first.

    Those are what nobody has tried yet; one that was tried and rests lets later ones pass. `tried`
    says that `asked` itself has had its turn. None when nothing is left.
    """
    fresh = and_(
        # Where there is no subject nothing else is about the same: "" is nobody's.
        DeliveryRow.subject == (asked.subject or ""),
        DeliveryRow.state == DeliveryState.RECEIVED,
        DeliveryRow.attempts == 0,
    )
    itself = and_(DeliveryRow.delivery_id == asked.delivery_id, DeliveryRow.state.in_(_WAITING))
    row = session.scalar(
        select(DeliveryRow)
        .where(fresh if tried else or_(fresh, itself))
        .order_by(DeliveryRow.received_at, DeliveryRow.delivery_id)
        .limit(1)
    )
    return to_delivery(row) if row is not None else None


def stale(
    session: Session, now: datetime, patience_s: Sequence[float], limit: int = 100
) -> tuple[StaleDelivery, ...]:
    """Return deliveries that are still `received` and untouched for too long, the oldest first.

    Their id never reached a worker, or the worker died over them: enqueue them again. One that was
    tried n times is left alone for `patience_s[n]` seconds, or its last item.
    """
    last = len(patience_s) - 1
    due = (
        and_(
            DeliveryRow.attempts == tries if tries < last else DeliveryRow.attempts >= tries,
            DeliveryRow.touched_at < now - timedelta(seconds=patience),
        )
        for tries, patience in enumerate(patience_s)
    )
    found = session.execute(
        select(DeliveryRow.delivery_id, DeliveryRow.touched_at, DeliveryRow.attempts)
        .where(DeliveryRow.state == DeliveryState.RECEIVED, or_(*due))
        .order_by(DeliveryRow.received_at, DeliveryRow.delivery_id)
        .limit(limit)
    )
    return tuple(StaleDelivery(id_, touched_at, tries) for id_, touched_at, tries in found)


def has_old_bodies(session: Session, older_than: datetime) -> bool:
    """Say whether there is anything for `forget_bodies`."""
    return session.scalar(_with_old_bodies(older_than).limit(1)) is not None


def forget_bodies(session: Session, older_than: datetime, limit: int = 500) -> None:
    """Drop the bodies of deliveries that are done with since then, `limit` at most.

    The rows stay: a delivery that comes again is still known.
    """
    session.execute(
        update(DeliveryRow)
        .where(DeliveryRow.delivery_id.in_(_with_old_bodies(older_than).limit(limit)))
        .values(body=b"")
        .execution_options(synchronize_session=False)
    )


def _with_old_bodies(older_than: datetime) -> Select[str]:
    # In the words of the index, or the database would not use it.
    old = DeliveryRow.touched_at < older_than
    return select(DeliveryRow.delivery_id).where(text(KEPT_BODY), old)


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


# Both databases know ON CONFLICT DO NOTHING; SQLAlchemy spells it per dialect.
_INSERT: Mapping[str, ReturningInsert[str]] = {
    name: insert(DeliveryRow).on_conflict_do_nothing().returning(DeliveryRow.delivery_id)
    for name, insert in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
}


def _row(new: NewDelivery) -> Mapping[str, Any]:
    ignored = bool(new.reason)
    return {
        "delivery_id": new.delivery_id,
        "event": new.event,
        "subject": new.subject,
        "body": new.body,
        "received_at": new.received_at,
        "touched_at": new.received_at,
        "state": DeliveryState.IGNORED if ignored else DeliveryState.RECEIVED,
        "reason": new.reason,
        "attempts": 0,
        "enqueue_failures": 0,
        "processed_at": new.received_at if ignored else None,
    }
