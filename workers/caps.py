"""The caps of a run beside the operator's for each: those that it shares with others (a
repository's and a person's, for the day, UTC), and what its repository sets for itself.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from app.repo_config import CONFIG_PATH, RepoConfig
from app.settings import Settings, variable
from app.store import Run, spending
from app.store.spending import Spent
from egress.meter import RUN_CAP, Cap
from workers.expense import spent_before


def shared_caps(session: Session, settings: Settings, run: Run, now: datetime) -> tuple[Cap, ...]:
    """Return what the run has to share, with what is taken already.

    What a run under way will cost is not known before it ends: it is counted as its whole cap, so
    that several at once cannot exceed a day's cap together. What this run's own earlier attempts
    cost is known.
    """
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    own = spent_before(run).cost_usd or 0.0
    caps = []
    if settings.budget_repo_day_usd is not None:
        spent = spending.by_repo(session, run.repo_id, midnight, run.id)
        caps.append(_cap(settings, f"{run.repo} today", "budget_repo_day_usd", spent, own))
    if settings.budget_user_day_usd is not None:
        spent = spending.by_user(session, run.asked_by_id, midnight, run.id)
        caps.append(_cap(settings, f"{run.asked_by} today", "budget_user_day_usd", spent, own))
    return tuple(caps)


def own_cap(settings: Settings, spent_usd: float) -> Cap:
    """Return the operator's cap for each run; `spent_usd` went to this one's earlier attempts."""
    return Cap(RUN_CAP, settings.budget_usd, spent_usd, variable("budget_usd"))


def repository_cap(config: RepoConfig, spent_usd: float = 0.0) -> tuple[Cap, ...]:
    """Return what a repository lets each of its runs spend, where it says so.

    `spent_usd` is what the run's earlier attempts took of it.
    """
    if config.budget_usd is None:
        return ()
    setting = f"budget_usd in {CONFIG_PATH}"
    cap = Cap("a run here", config.budget_usd, spent_usd, setting, raised_by="A maintainer")
    return (cap,)


def _cap(settings: Settings, name: str, field: str, spent: Spent, own_usd: float) -> Cap:
    held = spent.under_way * settings.budget_usd
    return Cap(name, getattr(settings, field), spent.usd + held + own_usd, variable(field))
