"""Who works on a run: claims, heartbeats, cancelling, and what happens when a worker vanishes.

A worker owns a run from its claim until the run ends or somebody releases its *expired* lease.
Between expiry and release the worker still owns it, and a late heartbeat or transition still
counts: the row decides, one transaction after another, so that there is never a second owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.orm import Session, aliased

from app.states import ACTIVE, ENDED, FailureKind, RunEvent, RunState, next_state
from app.store.convert import to_run
from app.store.engine import lock_for_transaction
from app.store.models import RunRow
from app.store.order import Waiting, claim_order
from app.store.transitions import append_line, locked, move
from app.store.values import CancelOutcome, ReleaseOutcome, Run

MAX_LOST_LEASES = 3
"""So many workers may vanish over one run before it is failed: the run may be what kills them."""

_CLAIM_LOCK = 0x44_52_59_02
_UNDER_WAY = ACTIVE - {RunState.QUEUED}


def claim(
    session: Session, owner: str, lease_s: float, now: datetime, run_id: str | None = None
) -> Run | None:
    """Take a queued run for `lease_s` seconds: the fairest (see `order`), or exactly `run_id`.

    None when nothing is queued, or when `run_id` is not. A run whose predecessor on the same issue
    was told to stop, and has not ended yet, is not ready to be taken.
    """
    # Two claims at once on PostgreSQL would both decide from the same counts.
    lock_for_transaction(session.connection(), _CLAIM_LOCK)
    ready = claim_order(_waiting(session, ~_follows_another()), _runs_under_way(session))
    chosen = next((each.run_id for each in ready if run_id in (None, each.run_id)), None)
    row = locked(session, chosen) if chosen is not None else None
    if row is None or row.state is not RunState.QUEUED:
        return None
    row.attempt += 1
    row.told_place = None
    row.lease_owner = owner
    row.lease_until = now + timedelta(seconds=lease_s)
    row.started_at = row.started_at or now
    move(session, row, next_state(row.state, RunEvent.CLAIM), now)
    return to_run(row)


def heartbeat(session: Session, run_id: str, owner: str, lease_s: float, now: datetime) -> bool:
    """Extend the lease. False when the caller must stop.

    It must when the lease is lost or the run ended, or when somebody asked to cancel: then the
    lease *is* extended, so that the owner has time to destroy the machine and to cancel the run.
    """
    row = locked(session, run_id)
    if row is None or row.lease_owner != owner or row.state in ENDED:
        return False
    row.lease_until = now + timedelta(seconds=lease_s)
    session.flush()
    return row.cancel_requested_by is None


def request_cancel(session: Session, run_id: str, by: str, now: datetime) -> CancelOutcome:
    """Ask for a run to stop, on behalf of `by`. The first who asks is the one remembered."""
    row = locked(session, run_id)
    if row is None or row.state in ENDED:
        return CancelOutcome.NOT_ACTIVE
    if row.cancel_requested_by is None:
        row.cancel_requested_by = by
        append_line(session, run_id, "cancel", f"{by} asked to stop", now)
    if row.state is not RunState.QUEUED:
        return CancelOutcome.REQUESTED
    move(session, row, next_state(row.state, RunEvent.CANCEL), now)
    return CancelOutcome.CANCELLED


def expired(session: Session, now: datetime) -> tuple[Run, ...]:
    """Return the runs whose owner let its lease run out, the longest gone first."""
    rows = session.scalars(
        select(RunRow)
        .where(RunRow.state.in_(_UNDER_WAY), RunRow.lease_until < now)
        .order_by(RunRow.lease_until, RunRow.id)
    )
    return tuple(to_run(row) for row in rows)


def release(
    session: Session, seen: Run, now: datetime, *, owner_is_dead: bool = False
) -> ReleaseOutcome:
    """Take a run away from a worker that vanished; `seen` is the run as it was read before.

    It is queued again, or cancelled if that was asked for, or failed as `internal` once
    MAX_LOST_LEASES workers were lost over it. `kept` when the row changed since, or when the
    lease has not run out: reap no machine then. A caller that knows `owner_is_dead` (the process
    that `seen.lease_owner` names is gone) need not wait for the lease.
    """
    row = locked(session, seen.id)
    if row is None or not _still_abandoned(row, seen, now, owner_is_dead):
        return ReleaseOutcome.KEPT
    row.lost_leases += 1
    append_line(session, row.id, "lease", f"worker {row.lease_owner} vanished", now)
    if row.cancel_requested_by is not None:
        move(session, row, next_state(row.state, RunEvent.CANCEL), now)
        return ReleaseOutcome.CANCELLED
    if row.lost_leases >= MAX_LOST_LEASES:
        row.failure_kind = FailureKind.INTERNAL
        row.detail = f"{row.lost_leases} workers vanished while they worked on this run"
        move(session, row, next_state(row.state, RunEvent.FAIL), now)
        return ReleaseOutcome.FAILED
    move(session, row, next_state(row.state, RunEvent.RELEASE), now)
    return ReleaseOutcome.REQUEUED


def queue_position(session: Session, run_id: str) -> int | None:
    """Return how many claims it takes until this run's turn, itself included; None if not queued.

    A forecast: a run that ends meanwhile may let its repository in earlier.
    """
    return queue_places(session).get(run_id)


def queue_places(session: Session) -> Mapping[str, int]:
    """Return the `queue_position` of every run that is queued."""
    waiting = claim_order(_waiting(session), _runs_under_way(session))
    return {run.run_id: place for place, run in enumerate(waiting, 1)}


def follower(session: Session, run: Run) -> str | None:
    """Return the run that is queued behind this one on the same issue or pull request, if any."""
    return session.scalar(
        select(RunRow.id).where(
            RunRow.repo_id == run.repo_id,
            RunRow.issue_number == run.issue_number,
            RunRow.id != run.id,
            RunRow.state == RunState.QUEUED,
        )
    )


def _waiting(session: Session, *conditions: ColumnElement[bool]) -> list[Waiting]:
    found = session.execute(
        select(RunRow.created_at, RunRow.id, RunRow.repo_id).where(
            RunRow.state == RunState.QUEUED, *conditions
        )
    )
    return [Waiting(since, run_id, repo_id) for since, run_id, repo_id in found]


def _follows_another() -> ColumnElement[bool]:
    """Whether somebody still drives an earlier run of the same issue."""
    other = aliased(RunRow)
    return exists().where(
        other.repo_id == RunRow.repo_id,
        other.issue_number == RunRow.issue_number,
        other.state.in_(_UNDER_WAY),
    )


def _runs_under_way(session: Session) -> dict[int, int]:
    found = session.execute(
        select(RunRow.repo_id, func.count())
        .where(RunRow.state.in_(_UNDER_WAY))
        .group_by(RunRow.repo_id)
    )
    return dict(found.all())


def _still_abandoned(row: RunRow, seen: Run, now: datetime, owner_is_dead: bool) -> bool:
    unchanged = (row.state, row.lease_owner, row.lease_until) == (
        seen.state,
        seen.lease_owner,
        seen.lease_until,
    )
    if row.state not in _UNDER_WAY or row.lease_until is None:
        return False
    return unchanged and (owner_is_dead or row.lease_until < now)
