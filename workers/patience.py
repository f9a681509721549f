"""Waiting for what comes back by itself: the database for a moment, GitHub for longer.

What is repeated here may be done twice; a run that gives up too early throws away what the model
was paid for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError

from app.github.errors import GitHubUnavailable, RateLimited
from workers.checkout import CheckoutFailed, CheckoutTrouble

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0
DATABASE_PAUSE_S = 0.5

T = TypeVar("T")

log = structlog.get_logger()


def until_github_answers(
    ask: Callable[[], T],
    pause: Callable[[float], None],
    longest_s: float,
    clock: Callable[[], float],
) -> T:
    """Ask until GitHub answers, `longest_s` seconds of waiting at most; then its error is raised.

    `pause` waits, and may raise to end the waiting. `clock` is in seconds since the epoch.
    """
    wait, waited = FIRST_PAUSE_S, 0.0
    while True:
        try:
            return ask()
        except (GitHubUnavailable, RateLimited, CheckoutFailed) as error:
            needed = wait_for(error, wait, clock())
            if needed is None or waited + needed > longest_s:
                raise
            log.warning("github.waited_for", error=str(error), seconds=round(needed, 1))
        pause(needed)
        waited += needed
        wait = min(2 * wait, LONGEST_PAUSE_S)


def wait_for(error: Exception, usual_s: float, now: float) -> float | None:
    """Return how many seconds to wait before asking again; None when that would not help. Pure."""
    if isinstance(error, RateLimited):
        return max(usual_s, error.reset_at - now)
    if isinstance(error, GitHubUnavailable):
        return max(usual_s, error.retry_after or 0.0)
    if isinstance(error, CheckoutFailed) and error.trouble is CheckoutTrouble.UNREACHABLE:
        return usual_s
    return None


def until_database_answers(write: Callable[[], T], longest_s: float) -> T:
    """Do a transaction once the database answers, `longest_s` seconds later at most."""
    deadline = time.monotonic() + longest_s
    while True:
        try:
            return write()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > deadline:
                raise
            log.warning("database.waited_for", error=str(error.orig))
        time.sleep(DATABASE_PAUSE_S)
