"""The same thing said twice, by GitHub or by people, is done once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour, Pausing
from workers.intake import take_delivery


def assert_done_once(harbour: Harbour) -> None:
    assert len(harbour.runs_of(harbour.issue)) == 1
    assert "its tests pass" in harbour.status_of()
    assert harbour.pull_of().head_ref == "aider/issue-1-add-subtracts"
    assert len(harbour.repo.check_runs) == 1


def test_a_webhook_that_is_delivered_again_later(harbour: Harbour) -> None:
    harbour.labels()
    labelled = next(d for d in harbour.github.deliveries if d.action == "labeled")
    again = harbour.github.redeliver(labelled)
    harbour.settle()
    assert '"duplicate"' in (again.response_body or "")
    assert_done_once(harbour)


def test_a_webhook_that_is_delivered_again_while_the_first_is_worked_on(
    make_harbour: MakeHarbour,
) -> None:
    model = Pausing()
    harbour = make_harbour(model)
    harbour.mona.labels(harbour.issue, "aider")
    labelled = next(d for d in harbour.github.deliveries if d.action == "labeled")
    harbour.github.redeliver(labelled)
    assert model.asked.wait(30)
    harbour.github.redeliver(labelled)
    model.may_answer.set()
    harbour.settle()
    assert_done_once(harbour)


def test_a_delivery_that_two_workers_take_at_once(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(drivers=0)
    harbour.tasks.is_down = True
    harbour.mona.comments(harbour.issue, "/aider help")
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    harbour.tasks.is_down = False
    guids = [d.guid for d in harbour.github.deliveries if d.action in ("labeled", "created")]
    services = [harbour.make_services() for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        taken = [pool.submit(take_delivery, s, guid) for s in services for guid in guids]
    assert [each.exception() for each in taken] == [None] * len(taken)
    assert len(harbour.replies_on(harbour.issue)) == 1
    harbour.work_with(1)
    harbour.settle()
    assert_done_once(harbour)


def test_a_label_that_is_there_already(harbour: Harbour) -> None:
    harbour.labels()
    harbour.labels()
    assert_done_once(harbour)


def test_a_command_while_a_run_is_active_is_answered_and_starts_no_second(
    make_harbour: MakeHarbour,
) -> None:
    model = Pausing()
    harbour = make_harbour(model)
    harbour.mona.labels(harbour.issue, "aider")
    assert model.asked.wait(30)
    harbour.mona.comments(harbour.issue, "/aider and hurry")
    harbour.waits_for(lambda: bool(harbour.replies_on(harbour.issue)), "the bot answers")
    model.may_answer.set()
    harbour.settle()
    (reply,) = harbour.replies_on(harbour.issue)
    assert "**Drydock is already working on this**, so no second run was started." in reply
    assert_done_once(harbour)


def test_the_label_once_more_after_the_end_is_a_new_run_with_a_branch_of_its_own(
    harbour: Harbour,
) -> None:
    harbour.labels()
    harbour.mona.closes(harbour.pull_of())
    harbour.mona.unlabels(harbour.issue, "aider")
    harbour.labels()
    heads = [pull.head_ref for pull in harbour.repo.pulls]
    assert heads == ["aider/issue-1-add-subtracts", "aider/issue-1-add-subtracts-2"]
    assert "Pull request #3 is there" in harbour.status_of()
