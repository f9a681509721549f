"""The Celery tasks: a few lines each, ids only. Whatever they do twice does no harm.

Two queues, so that a delivery is answered at once however many runs are under way: `intake` takes
deliveries and reconciles, `runs` drives runs.
"""

from __future__ import annotations

from contextlib import suppress

import structlog
from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown, worker_ready

from app.queue import RECONCILE, RUNS_QUEUE, TAKE_DELIVERY, TAKE_RUN, make_queue
from sandbox.provider import ProviderFailed
from workers.intake import take_delivery
from workers.presence import keep_reporting
from workers.reconcile import reconcile
from workers.run import take_run
from workers.services import Services

log = structlog.get_logger()


def make_worker(services: Services, queue_name: str) -> Celery:
    """Return the Celery application with its tasks bound to these services."""
    queue = make_queue(services.redis_url)

    @queue.task(name=TAKE_DELIVERY, shared=False)
    def on_delivery(delivery_id: str) -> None:
        take_delivery(services, delivery_id)

    @queue.task(name=TAKE_RUN, shared=False)
    def on_run(run_id: str) -> None:
        take_run(services, run_id)

    @queue.task(name=RECONCILE, shared=False, expires=30)
    def on_reconcile() -> None:
        reconcile(services)

    _connect_signals(queue, services, queue_name)
    return queue


def _connect_signals(queue: Celery, services: Services, queue_name: str) -> None:
    drives_runs = queue_name == RUNS_QUEUE

    @worker_process_init.connect(weak=False)
    def start_afresh(**_: object) -> None:
        # A forked child must not share its parent's database connections.
        services.engine.dispose(close=False)
        if drives_runs:
            keep_machines_ready(services)

    @worker_process_shutdown.connect(weak=False)
    def end(**_: object) -> None:
        if drives_runs:
            end_waiting_machines(services)

    @worker_ready.connect(weak=False)
    def begin(**_: object) -> None:
        if drives_runs:
            keep_reporting(services)
        # Whatever a killed predecessor left behind is healed before anything new is taken.
        queue.send_task(RECONCILE, expires=30)


def keep_machines_ready(services: Services) -> None:
    """Open the pool of this process. Without a provider there is none; presence reports why."""
    try:
        services.provider.open()
    except ProviderFailed as error:
        log.warning("pool.not_opened", error=str(error))


def end_waiting_machines(services: Services) -> None:
    with suppress(ProviderFailed):
        services.provider.close()
