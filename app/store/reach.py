"""Runs of repositories that the App cannot reach any more, or can again."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from app.states import FailureKind, RunState
from app.store.convert import to_run
from app.store.leases import request_cancel
from app.store.models import RunRow
from app.store.transitions import locked
from app.store.values import CancelOutcome, Run


def end_away(
    session: Session,
    installation_id: int,
    repo_ids: Collection[int] | None,
    by: str,
    reason: str,
    until: datetime,
    now: datetime,
) -> tuple[Run, ...]:
    """Cancel the active runs of what went away (None: of the whole installation); return them.

    Those that a worker has end at its next heartbeat. Nothing is told of any until it is back.
    Only runs that were there `until` the App lost them: what is newer was asked for since.
    """
    query = select(RunRow.id).where(
        RunRow.installation_id == installation_id,
        _among(repo_ids),
        RunRow.ended_at.is_(None),
        RunRow.created_at <= until,
    )
    ids = tuple(session.scalars(query))
    return tuple(_end(session, run_id, by, reason, now) for run_id in ids)


def _end(session: Session, run_id: str, by: str, reason: str, now: datetime) -> Run:
    outcome = request_cancel(session, run_id, by, now)
    row = locked(session, run_id)
    if row is None:
        raise LookupError(run_id)
    if outcome is not CancelOutcome.NOT_ACTIVE:
        row.away, row.detail = True, reason
        if outcome is CancelOutcome.CANCELLED:
            row.tell_at = None
        session.flush()
    return to_run(row)


def bring_back(
    session: Session, installation_id: int, repo_ids: Collection[int] | None, now: datetime
) -> int:
    """Have told, through this installation, what could not be told while it was away.

    None for `repo_ids` is all that the installation had. Returns how many endings there are.
    """
    of_it = RunRow.installation_id == installation_id if repo_ids is None else _among(repo_ids)
    lost = and_(RunRow.state == RunState.FAILED, RunRow.failure_kind == FailureKind.GITHUB)
    rows = session.scalars(
        select(RunRow)
        .where(
            of_it,
            RunRow.ended_at.is_not(None),
            RunRow.told_at.is_(None),
            RunRow.away | lost,
        )
        .with_for_update()
    ).all()
    for row in rows:
        row.away, row.installation_id = False, installation_id
        row.tell_at, row.tell_tries = now, 0
    session.flush()
    return len(rows)


def _among(repo_ids: Collection[int] | None) -> ColumnElement[bool]:
    return RunRow.repo_id.in_(repo_ids) if repo_ids is not None else RunRow.repo_id.is_not(None)
