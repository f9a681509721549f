"""Looking back over runs: those of one pull request, and how many there were of a kind.

What one trigger itself asked for can be left out, so that a delivery that is taken again is
decided as it was the first time.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from app.store.convert import to_run
from app.store.models import RunRow
from app.store.values import Run, TargetKind


def of_pull(
    session: Session, repo_id: int, pull_number: int, but_not: str, limit: int = 50
) -> tuple[Run, ...]:
    """Return the newest runs that opened a pull request or worked on it, the newest first."""
    query = (
        select(RunRow)
        .where(RunRow.repo_id == repo_id, RunRow.pull_number == pull_number, _not_by(but_not))
        .order_by(RunRow.created_at.desc(), RunRow.id.desc())
        .limit(limit)
    )
    return tuple(to_run(row) for row in session.scalars(query))


def of_head(session: Session, repo_id: int, head_sha: str) -> Run | None:
    """Return the newest run that made a commit, pushed or about to be."""
    query = (
        select(RunRow)
        .where(RunRow.repo_id == repo_id, RunRow.head_sha == head_sha)
        .order_by(RunRow.created_at.desc(), RunRow.id.desc())
        .limit(1)
    )
    row = session.scalar(query)
    return to_run(row) if row is not None else None


def of_repo(session: Session, repo_id: int, since: datetime, but_not: str) -> int:
    """Count a repository's runs that were created since then."""
    return _count(session, RunRow.repo_id == repo_id, since, but_not)


def of_user(session: Session, user_id: int, since: datetime, but_not: str) -> int:
    """Count the runs that one account asked for since then."""
    return _count(session, RunRow.asked_by_id == user_id, since, but_not)


def pulls_opened(session: Session, repo_id: int, but_not: str) -> int:
    """Count the pull requests that runs have opened in a repository, at any time."""
    return (
        session.scalar(
            select(func.count(RunRow.pull_number.distinct())).where(
                RunRow.repo_id == repo_id,
                RunRow.target == TargetKind.ISSUE,
                _not_by(but_not),
            )
        )
        or 0
    )


def _count(session: Session, whose: ColumnElement[bool], since: datetime, but_not: str) -> int:
    """What only takes back is not counted."""
    query = select(func.count()).where(
        whose, RunRow.created_at >= since, RunRow.undoes.is_(None), _not_by(but_not)
    )
    return session.scalar(query) or 0


def _not_by(trigger: str) -> ColumnElement[bool]:
    return or_(
        RunRow.trigger_delivery_id.is_(None),
        RunRow.trigger_delivery_id != trigger,
    )
