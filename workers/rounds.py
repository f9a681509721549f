"""A run as one round of those on its pull request. Pure."""

from __future__ import annotations

from app.rounds import Round, is_ci
from app.states import RunState
from app.store import Run


def round_of(run: Run) -> Round:
    """Return what counting goes by: who asked, where it began, what it pushed."""
    pushed = run.state is RunState.PUBLISHED
    return Round(
        by_check=is_ci(run.trigger_delivery_id),
        by_bot=run.asked_by.endswith("[bot]"),
        base_sha=run.base_sha,
        pushed_sha=run.head_sha if pushed else None,
    )
