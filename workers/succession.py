"""Runs that follow one another: somebody stopped the one and asked for the next at once."""

from __future__ import annotations

import structlog
from kombu.exceptions import OperationalError

from app.queue import enqueue_run
from app.store import Run, reading, runs
from workers.services import Services

log = structlog.get_logger()


def wake_follower(services: Services, run: Run) -> None:
    """Enqueue the run that waits for this one's end: the message of its own came too early."""
    with reading(services.engine) as session:
        following = runs.follower(session, run)
    if following is None:
        return
    try:
        enqueue_run(services.queue, following)
    except OperationalError as error:
        # The reconciler finds it once Redis is back.
        log.warning("run.not_enqueued", run=following, error=str(error))
