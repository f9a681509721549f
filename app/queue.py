"""The queue: Celery on Redis carries ids and nothing else; the database is the truth.

A lost, repeated or late message is therefore harmless: whoever takes an id looks at the row, and
the reconciler enqueues again whatever was forgotten.
"""

from __future__ import annotations

from celery import Celery

TAKE_DELIVERY = "drydock.take_delivery"
TAKE_RUN = "drydock.take_run"
RECONCILE = "drydock.reconcile"

INTAKE_QUEUE = "intake"
RUNS_QUEUE = "runs"

RECONCILE_EVERY_S = 5.0
SOFT_SHUTDOWN_S = 5.0
PUBLISH_RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}


def make_queue(redis_url: str) -> Celery:
    """Return a Celery application bound to that broker URL. No connection is made yet."""
    queue = Celery("drydock", broker=broker_url(redis_url), set_as_current=False)
    queue.conf.update(
        task_default_queue=INTAKE_QUEUE,
        task_routes={TAKE_RUN: {"queue": RUNS_QUEUE}},
        task_acks_late=True,
        task_reject_on_worker_lost=False,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={"socket_timeout": 5, "socket_connect_timeout": 2},
        task_publish_retry_policy=PUBLISH_RETRY,
        worker_soft_shutdown_timeout=SOFT_SHUTDOWN_S,
        worker_hijack_root_logger=False,
        timezone="UTC",
        beat_schedule={
            "reconcile": {
                "task": RECONCILE,
                "schedule": RECONCILE_EVERY_S,
                # Looks that nobody took would only queue up before the first delivery.
                "options": {"expires": RECONCILE_EVERY_S * 2},
            }
        },
    )
    return queue


def broker_url(redis_url: str) -> str:
    """Translate redis-py's `unix://` form into the one that Celery's transport takes."""
    if redis_url.startswith("unix://"):
        return "redis+socket://" + redis_url.removeprefix("unix://")
    return redis_url


def connect_to_queue(queue: Celery) -> None:
    """Open the connection that the next message goes out by. kombu's OperationalError: no Redis."""
    with queue.producer_or_acquire() as producer:
        producer.connection.ensure_connection(max_retries=1, interval_start=0)
        # A connection says nothing yet; declaring a queue does.
        queue.amqp.queues[INTAKE_QUEUE](producer.channel).declare()


def enqueue_delivery(queue: Celery, delivery_id: str) -> None:
    """Tell a worker that a stored delivery waits. kombu's OperationalError when Redis is down."""
    queue.send_task(TAKE_DELIVERY, args=[delivery_id])


def enqueue_run(queue: Celery, run_id: str) -> None:
    """Tell a worker that a run waits; it claims the fairest one, which need not be this."""
    queue.send_task(TAKE_RUN, args=[run_id])
