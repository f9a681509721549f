"""The Celery tasks: a few lines each, ids only. Whatever they do twice does no harm.

Two queues, so that a delivery is answered at once however many runs are under way: `intake` takes
deliveries and reconciles, `runs` drives runs.
"""

from __future__ import annotations

from celery import Celery
from celery.signals import worker_process_init, worker_ready

from app.queue import RECONCILE, RUNS_QUEUE, TAKE_DELIVERY, TAKE_RUN, make_queue
from workers.intake import take_delivery
from workers.presence import keep_reporting
from workers.reconcile import reconcile
from workers.run import take_run
from workers.services import Services


def make_worker(services: Services, queue_name: str) -> Celery:
    """Return the Celery application with its tasks bound to these services."""
    queue = make_queue(services.redis_url)

    @queue.task(name=TAKE_DELIVERY)
    def on_delivery(delivery_id: str) -> None:
        take_delivery(services, delivery_id)

    @queue.task(name=TAKE_RUN)
    def on_run(run_id: str) -> None:
        take_run(services, run_id)

    @queue.task(name=RECONCILE, expires=30)
    def on_reconcile() -> None:
        reconcile(services)

    @worker_process_init.connect(weak=False)
    def start_afresh(**_: object) -> None:
        # A forked child must not share its parent's database connections.
        services.engine.dispose(close=False)

    @worker_ready.connect(weak=False)
    def begin(**_: object) -> None:
        if queue_name == RUNS_QUEUE:
            keep_reporting(services)
        # Whatever a killed predecessor left behind is healed before anything new is taken.
        queue.send_task(RECONCILE)

    return queue
