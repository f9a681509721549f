"""Changing a run: compare-and-set by the table in `app.states`, the log line written with it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Unpack

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.states import ENDED, RunEvent, RunState, next_state
from app.store.models import LogRow, RunRow
from app.store.types import storable
from app.store.values import RunFields

LOG_TEXT_LIMIT = 16_384
"""Characters of one log line; the rest is cut and said so."""

TELL_AFTER = timedelta(seconds=15)
"""How long after its end a run's ending is left to whoever ended it."""


def transition(
    session: Session,
    run_id: str,
    expected: RunState,
    event: RunEvent,
    now: datetime,
    *,
    owner: str | None = None,
    **values: Unpack[RunFields],
) -> bool:
    """Move a run from `expected` by `event`, writing `values` with it.

    False, and nothing written, when the run is not in `expected` (any more) or, with `owner`
    given, when its lease belongs to somebody else: the caller has lost the run and must stop.
    IllegalTransition when the table has no such cell; ValueError for `claim`, which is what
    `claim` is for; TypeError for a field that callers may not write.
    """
    if event is RunEvent.CLAIM:
        raise ValueError("a run is claimed with runs.claim, which also takes the lease")
    following = next_state(expected, event)
    row = locked(session, run_id)
    if row is None or row.state is not expected or _belongs_to_other(row, owner):
        return False
    _write(row, values)
    move(session, row, following, now)
    return True


def update(
    session: Session,
    run_id: str,
    now: datetime,
    *,
    owner: str | None = None,
    **values: Unpack[RunFields],
) -> bool:
    """Write `values` without moving the run. False when it is gone or `owner` lost its lease."""
    row = locked(session, run_id)
    if row is None or _belongs_to_other(row, owner):
        return False
    _write(row, values)
    row.updated_at = now
    session.flush()
    return True


def log(session: Session, run_id: str, kind: str, text: str, now: datetime) -> bool:
    """Append a line to the log of a run. False when there is no such run.

    `kind` is a word that a reader filters by (`state`, `phase`, `refusal`, …).
    """
    if locked(session, run_id) is None:
        return False
    append_line(session, run_id, kind, text, now)
    return True


def locked(session: Session, run_id: str) -> RunRow | None:
    """Return the row as it is now, locked until the transaction ends.

    SQLite ignores FOR UPDATE, and needs none: a writing transaction is alone there.
    """
    return session.scalar(
        select(RunRow)
        .where(RunRow.id == run_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )


def move(session: Session, row: RunRow, state: RunState, now: datetime) -> None:
    """Put a locked row into `state` and keep everything that follows from that."""
    append_line(session, row.id, "state", f"{row.state} → {state}", now)
    row.seconds_by_phase = _with_elapsed(row, now)
    row.state = state
    row.state_since = row.updated_at = now
    if state in ENDED:
        row.ended_at = now
        # Whoever ends a run tells it at once; later than this, the reconciler does.
        row.tell_at = now + TELL_AFTER
    if state in ENDED or state is RunState.QUEUED:
        row.lease_owner = row.lease_until = None
    session.flush()


def append_line(session: Session, run_id: str, kind: str, text: str, now: datetime) -> None:
    """Append to the log of a run whose row the caller has locked."""
    last = session.scalar(select(func.max(LogRow.seq)).where(LogRow.run_id == run_id)) or 0
    session.add(LogRow(run_id=run_id, seq=last + 1, at=now, kind=kind, text=_cut(text)))
    session.flush()


def _belongs_to_other(row: RunRow, owner: str | None) -> bool:
    return owner is not None and row.lease_owner != owner


def _write(row: RunRow, values: RunFields) -> None:
    unknown = values.keys() - RunFields.__annotations__.keys()
    if unknown:
        raise TypeError(f"these fields of a run are not for callers: {sorted(unknown)}")
    plain: Mapping[str, Any] = values
    for name, value in plain.items():
        setattr(row, name, storable(value) if isinstance(value, str) else value)


def _with_elapsed(row: RunRow, now: datetime) -> dict[str, float]:
    elapsed = max(0.0, (now - row.state_since).total_seconds())
    before = row.seconds_by_phase
    return {**before, row.state.value: round(before.get(row.state.value, 0.0) + elapsed, 3)}


def _cut(text: str) -> str:
    clean = storable(text)
    if len(clean) <= LOG_TEXT_LIMIT:
        return clean
    return f"{clean[:LOG_TEXT_LIMIT]}\n[… {len(clean) - LOG_TEXT_LIMIT} more characters]"
