from __future__ import annotations

from app.queue import INTAKE_QUEUE, RECONCILE, RUNS_QUEUE, TAKE_DELIVERY, TAKE_RUN, make_queue
from tests.harbour.harbour import Harbour
from workers.tasks import make_worker


def test_the_tasks_are_those_that_others_send(harbour: Harbour) -> None:
    worker = make_worker(harbour.services, RUNS_QUEUE)
    assert {TAKE_DELIVERY, TAKE_RUN, RECONCILE} <= set(worker.tasks)


def test_a_task_is_a_few_lines_around_the_work(harbour: Harbour) -> None:
    harbour.tasks.is_down = True
    harbour.mona.comments(harbour.issue, "/aider help")
    harbour.settle()
    worker = make_worker(harbour.services, INTAKE_QUEUE)
    guid = next(d.guid for d in harbour.github.deliveries if d.event == "issue_comment")
    worker.tasks[TAKE_DELIVERY](guid)
    worker.tasks[RECONCILE]()
    worker.tasks[TAKE_RUN]("")
    assert len(harbour.replies_on(harbour.issue)) == 1


def test_runs_wait_apart_from_deliveries_and_messages_are_taken_one_by_one() -> None:
    queue = make_queue("redis://127.0.0.1:1/0")
    assert queue.conf.task_default_queue == INTAKE_QUEUE
    assert queue.conf.task_routes[TAKE_RUN] == {"queue": RUNS_QUEUE}
    assert queue.conf.task_acks_late
    assert queue.conf.worker_prefetch_multiplier == 1
    assert queue.conf.accept_content == ["json"]
