"""Waking queued runs: at once, or when the one that they wait for has ended."""

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
    if following is not None:
        wake(services, following)


def wake(services: Services, run_id: str) -> None:
    """Enqueue a queued run. Where the queue is away the reconciler finds it, once that is back."""
    try:
        enqueue_run(services.queue, run_id)
    except OperationalError as error:
        log.warning("run.not_enqueued", run=run_id, error=str(error))
