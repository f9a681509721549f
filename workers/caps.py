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
from egress.meter import Cap


def shared_caps(session: Session, settings: Settings, run: Run, now: datetime) -> tuple[Cap, ...]:
    """Return what the run has to share, with what is taken already.

    What a run under way will cost is not known before it ends: it is counted as its whole cap, so
    that several at once cannot exceed a day's cap together.
    """
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    caps = []
    if settings.budget_repo_day_usd is not None:
        spent = spending.by_repo(session, run.repo_id, midnight, run.id)
        caps.append(_cap(settings, f"{run.repo} today", "budget_repo_day_usd", spent))
    if settings.budget_user_day_usd is not None:
        spent = spending.by_user(session, run.asked_by_id, midnight, run.id)
        caps.append(_cap(settings, f"{run.asked_by} today", "budget_user_day_usd", spent))
    return tuple(caps)


def repository_cap(config: RepoConfig) -> tuple[Cap, ...]:
    """Return what a repository lets each of its runs spend, where it says so."""
    if config.budget_usd is None:
        return ()
    setting = f"budget_usd in {CONFIG_PATH}"
    cap = Cap("a run here", config.budget_usd, setting=setting, raised_by="A maintainer")
    return (cap,)


def _cap(settings: Settings, name: str, field: str, spent: Spent) -> Cap:
    held = spent.under_way * settings.budget_usd
    return Cap(name, getattr(settings, field), spent.usd + held, variable(field))
