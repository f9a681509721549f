"""What runs have cost, for the caps that several runs share."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from app.states import ACTIVE, RunState
from app.store.models import RunRow

_UNDER_WAY = ACTIVE - {RunState.QUEUED}


@dataclass(frozen=True)
class Spent:
    """Dollars of runs that nobody drives now, and how many are under way, whose cost is open.

    A run that waits for its next attempt has spent what its earlier ones did.
    """

    usd: float
    under_way: int


def by_repo(session: Session, repo_id: int, since: datetime, but_not: str) -> Spent:
    """Sum a repository's runs that were created since then, except the one named."""
    return _sum(session, RunRow.repo_id == repo_id, since, but_not)


def by_user(session: Session, user_id: int, since: datetime, but_not: str) -> Spent:
    """Sum one person's runs that were created since then, except the one named."""
    return _sum(session, RunRow.asked_by_id == user_id, since, but_not)


def _sum(session: Session, whose: ColumnElement[bool], since: datetime, but_not: str) -> Spent:
    others = (whose, RunRow.id != but_not)
    usd = session.scalar(
        select(func.coalesce(func.sum(RunRow.cost_usd), 0.0)).where(
            *others, RunRow.state.not_in(_UNDER_WAY), RunRow.created_at >= since
        )
    )
    under_way = session.scalar(
        select(func.count()).select_from(RunRow).where(*others, RunRow.state.in_(_UNDER_WAY))
    )
    return Spent(float(usd or 0.0), int(under_way or 0))
