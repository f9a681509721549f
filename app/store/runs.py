"""Runs: creating, finding, and (from their own modules) moving and leasing them.

Every function takes a session and leaves the commit to its caller: use `app.store.writing` for
those that write, `app.store.reading` for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select, true, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.states import RunState
from app.store.convert import to_log_entry, to_run
from app.store.ids import new_id
from app.store.leases import (
    MAX_LOST_LEASES,
    claim,
    expired,
    follower,
    heartbeat,
    queue_places,
    queue_position,
    release,
    request_cancel,
)
from app.store.models import LogRow, RunRow
from app.store.telling import mark_place, mark_told, mark_untold, untold
from app.store.transitions import append_line, log, transition, update
from app.store.types import storable
from app.store.values import AlreadyActive, AlreadyCreated, LogEntry, NewRun, Run, TargetKind

__all__ = [
    "MAX_LOST_LEASES",
    "active",
    "active_for",
    "by_pull",
    "claim",
    "counts",
    "create",
    "expired",
    "first_by",
    "follower",
    "get",
    "heartbeat",
    "latest_for",
    "log",
    "log_entries",
    "mark_place",
    "mark_told",
    "mark_untold",
    "pull_of",
    "queue_places",
    "queue_position",
    "recent",
    "release",
    "request_cancel",
    "started_by",
    "totals",
    "transition",
    "undoable",
    "untold",
    "update",
]

_CREATE_TRIES = 3


def create(session: Session, new: NewRun, now: datetime) -> Run | AlreadyActive | AlreadyCreated:
    """Queue a run.

    `AlreadyCreated` when that command of that delivery has a run (processing a delivery twice is
    harmless), `AlreadyActive` when another run is under way for the same issue or pull request.
    The database's own constraints decide, so it holds between processes.
    """
    for _ in range(_CREATE_TRIES):
        hindrance = _hindrance(session, new)
        if hindrance is not None:
            return hindrance
        try:
            with session.begin_nested():
                return _insert(session, new, now)
        except IntegrityError as error:
            # Somebody was quicker between the look and the insert; look again.
            conflict = error
    raise conflict


def get(session: Session, run_id: str) -> Run | None:
    row = session.get(RunRow, run_id, populate_existing=True)
    return to_run(row) if row is not None else None


def named(session: Session, part: str) -> tuple[Run, ...]:
    """Return the run of that id, or the newest two of those whose ids begin or end so."""
    meant = RunRow.id.startswith(part, autoescape=True) | RunRow.id.endswith(part, autoescape=True)
    query = select(RunRow).where(meant).order_by(RunRow.id != part, RunRow.id.desc()).limit(2)
    found = tuple(to_run(row) for row in session.scalars(query))
    return found[:1] if found and found[0].id == part else found


def recent(session: Session, limit: int = 50, repo_id: int | None = None) -> tuple[Run, ...]:
    """Return the newest runs first, of one repository or of all."""
    query = select(RunRow).order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(limit)
    if repo_id is not None:
        query = query.where(RunRow.repo_id == repo_id)
    return tuple(to_run(row) for row in session.scalars(query))


def active(session: Session) -> tuple[Run, ...]:
    """Return all runs that have not ended, the oldest first."""
    query = select(RunRow).where(RunRow.ended_at.is_(None)).order_by(RunRow.created_at, RunRow.id)
    return tuple(to_run(row) for row in session.scalars(query))


def active_for(session: Session, repo_id: int, issue_number: int) -> Run | None:
    """Return the run that is queued or under way for an issue or pull request; there is one.

    One that was told to stop does not count: it is about to end, and another may follow it.
    """
    row = session.scalar(
        select(RunRow).where(
            RunRow.repo_id == repo_id,
            RunRow.issue_number == issue_number,
            RunRow.ended_at.is_(None),
            RunRow.cancel_requested_by.is_(None),
        )
    )
    return to_run(row) if row is not None else None


def latest_for(
    session: Session, repo_id: int, issue_number: int, before: Run | None = None
) -> Run | None:
    """Return the newest run for an issue or pull request, ended or not; `before` another one."""
    about = (RunRow.repo_id == repo_id, RunRow.issue_number == issue_number)
    return _newest(session, *about, _made_before(before))


def by_head(session: Session, head_sha: str) -> Run | None:
    """Return the newest run whose head begins with these digits."""
    return _newest(session, RunRow.head_sha.startswith(head_sha, autoescape=True))


def by_pull(session: Session, repo_id: int, pull_number: int) -> Run | None:
    """Return the newest run that published to a pull request."""
    return _newest(session, RunRow.repo_id == repo_id, RunRow.pull_number == pull_number)


def started_by(session: Session, trigger: str) -> str | None:
    """Return the id of the newest run that one delivery started."""
    found = _newest(session, RunRow.trigger_delivery_id == trigger)
    return found.id if found is not None else None


def first_by(session: Session, trigger: str) -> Run | None:
    """Return the oldest run that one delivery started."""
    row = session.scalar(
        select(RunRow)
        .where(RunRow.trigger_delivery_id == trigger)
        .order_by(RunRow.created_at, RunRow.id)
        .limit(1)
    )
    return to_run(row) if row is not None else None


def pull_of(
    session: Session, repo_id: int, issue_number: int, before: Run | None = None
) -> int | None:
    """Return the number of the pull request that the newest publishing run of an issue opened."""
    found = _newest(
        session,
        RunRow.repo_id == repo_id,
        RunRow.issue_number == issue_number,
        RunRow.target == TargetKind.ISSUE,
        RunRow.pull_number.is_not(None),
        _made_before(before),
    )
    return found.pull_number if found is not None else None


def undoable(session: Session, repo_id: int, pull_number: int, branch: str) -> Run | None:
    """Return the run whose push to a pull request's branch is the newest that was not taken back.

    A run whose commits lie beside it, on a branch of their own, changed nothing there.
    """
    undone: set[str] = set()
    query = (
        select(RunRow)
        .where(
            RunRow.repo_id == repo_id,
            RunRow.pull_number == pull_number,
            RunRow.branch == branch,
            RunRow.state == RunState.PUBLISHED,
        )
        .order_by(RunRow.created_at.desc(), RunRow.id.desc())
    )
    for row in session.scalars(query):
        if row.undoes is not None:
            undone.add(row.undoes)
        elif row.id not in undone:
            return to_run(row)
    return None


def log_entries(
    session: Session, run_id: str, after_seq: int = 0, limit: int = 1000
) -> tuple[LogEntry, ...]:
    """Return the log of a run in order, from the line after `after_seq`."""
    rows = session.scalars(
        select(LogRow)
        .where(LogRow.run_id == run_id, LogRow.seq > after_seq)
        .order_by(LogRow.seq)
        .limit(limit)
    )
    return tuple(to_log_entry(row) for row in rows)


def counts(session: Session) -> Mapping[RunState, int]:
    """Return how many runs there are in each state (0 where none)."""
    found = session.execute(select(RunRow.state, func.count()).group_by(RunRow.state))
    return {**dict.fromkeys(RunState, 0), **dict(found.all())}


def totals(session: Session) -> Mapping[str, float]:
    """Return sums over all runs: tokens, dollars, refusals of egress, lost leases."""
    columns = {
        "input_tokens": RunRow.input_tokens,
        "output_tokens": RunRow.output_tokens,
        "cost_usd": RunRow.cost_usd,
        "refusals": RunRow.refusals,
        "lost_leases": RunRow.lost_leases,
    }
    sums = session.execute(select(*(func.sum(column) for column in columns.values()))).one()
    return {name: float(value or 0) for name, value in zip(columns, sums, strict=True)}


def _made_before(run: Run | None) -> ColumnElement[bool]:
    if run is None:
        return true()
    return tuple_(RunRow.created_at, RunRow.id) < (run.created_at, run.id)


def _newest(session: Session, *conditions: ColumnElement[bool]) -> Run | None:
    row = session.scalar(
        select(RunRow)
        .where(*conditions)
        .order_by(RunRow.created_at.desc(), RunRow.id.desc())
        .limit(1)
    )
    return to_run(row) if row is not None else None


def _insert(session: Session, new: NewRun, now: datetime) -> Run:
    row = RunRow(
        **_storable(asdict(new)),
        id=new_id(now),
        state=RunState.QUEUED,
        created_at=now,
        updated_at=now,
        state_since=now,
        seconds_by_phase={},
    )
    session.add(row)
    session.flush()
    append_line(session, row.id, "state", f"queued by {new.asked_by}", now)
    session.refresh(row)
    return to_run(row)


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {name: _storable(each) for name, each in value.items()}
    return [_storable(each) for each in value] if isinstance(value, tuple | list) else value


def _hindrance(session: Session, new: NewRun) -> AlreadyActive | AlreadyCreated | None:
    if new.trigger_delivery_id is not None:
        earlier = _newest(
            session,
            RunRow.trigger_delivery_id == new.trigger_delivery_id,
            RunRow.trigger_index == new.trigger_index,
        )
        if earlier is not None:
            return AlreadyCreated(earlier)
    other = active_for(session, new.repo_id, new.issue_number)
    return AlreadyActive(other.id) if other is not None else None
