"""The check run on a pull request's head: how far a run is, how it ended, and its buttons."""

from __future__ import annotations

import pytest

from demo.github import Pull
from demo.github.records import CheckRun
from demo.scenario import Edit, Scenario, hang
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import RIGHT, Harbour, PausingFollowUp, fix

TUPLE = "def add(*numbers):\n    return sum(numbers)\n"
FIRST = fix(when=r"Resolve issue")
TIDY = Scenario(
    "tidy", (Edit("calc.py", RIGHT, TUPLE, commit="refactor: Sum"),), r"Continue pull request"
)
FORBIDDEN = Scenario(
    "forbidden",
    (Edit(".github/workflows/ci.yml", "", "on: push\n", commit="ci: Add"),),
    r"Continue pull request",
)


def opened(harbour: Harbour) -> Pull:
    harbour.labels()
    return harbour.pull_of()


def checks_on(pull: Pull, sha: str) -> list[CheckRun]:
    return [check for check in pull.repo.check_runs if check.head_sha == sha]


def buttons_of(check: CheckRun) -> list[str]:
    return [action["identifier"] for action in check.actions]


def at_work(make_harbour: MakeHarbour) -> tuple[Harbour, Pull, CheckRun]:
    """A follow-up whose model never answers, and its check."""
    waiting = Scenario("hang", hang().replies, r"Continue pull request")
    harbour = make_harbour([FIRST, waiting])
    pull = opened(harbour)
    before = len(harbour.model.requests)
    harbour.mona.comments(pull, "/aider any number of them")
    harbour.waits_for(lambda: len(harbour.model.requests) > before, "Aider waits for the model")
    harbour.waits_for(lambda: "Aider works" in (newest(pull).title or ""), "the check shows it")
    return harbour, pull, newest(pull)


def newest(pull: Pull) -> CheckRun:
    return pull.repo.check_runs[-1]


def test_what_a_run_published_can_be_retried_and_not_stopped(make_harbour: MakeHarbour) -> None:
    pull = opened(make_harbour(fix()))
    (check,) = pull.repo.check_runs
    assert (check.head_sha, check.conclusion) == (pull.head_sha, "success")
    assert buttons_of(check) == ["retry"]


def test_a_follow_up_shows_itself_on_the_head_that_it_starts_from(
    make_harbour: MakeHarbour,
) -> None:
    harbour, pull, check = at_work(make_harbour)
    assert check.head_sha == pull.head_sha
    assert check.status == "in_progress"
    assert check.external_id == harbour.run_of(pull).id
    assert buttons_of(check) == ["stop"]
    assert "**Aider works**" in (check.summary or "")
    harbour.mona.comments(pull, "/aider stop")
    harbour.settle()


def test_once_it_has_pushed_both_heads_say_how_it_ended(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour([FIRST, TIDY])
    pull = opened(harbour)
    before = pull.head_sha
    harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    _, at_start = checks_on(pull, before)
    (on_head,) = checks_on(pull, pull.head_sha)
    assert (at_start.conclusion, on_head.conclusion) == ("neutral", "success")
    assert at_start.title == on_head.title == f"1 commit added to #{pull.number}; the tests pass."
    assert buttons_of(on_head) == ["retry"]


def test_what_the_gate_refused_is_annotated(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour([FIRST, FORBIDDEN])
    pull = opened(harbour)
    harbour.mona.comments(pull, "/aider build it on every push")
    harbour.settle()
    check = newest(pull)
    assert (check.head_sha, check.conclusion) == (pull.head_sha, "failure")
    (note,) = check.annotations
    assert (note["path"], note["annotation_level"]) == (".github/workflows/ci.yml", "failure")
    assert (note["start_line"], note["end_line"]) == (1, 1)
    assert harbour.run_of(pull).state == "refused"


def test_an_answer_that_was_lost_annotates_nothing_twice(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour([FIRST, FORBIDDEN])
    pull = opened(harbour)
    harbour.github.faults.connection_reset("POST", "/check-runs$", after=True)
    harbour.github.faults.connection_reset("PATCH", "/check-runs/", after=True, times=100)
    harbour.mona.comments(pull, "/aider build it on every push")
    harbour.settle()
    harbour.github.faults.clear()
    harbour.looks_again(later=7200)
    assert len(checks_on(pull, pull.head_sha)) == 2
    assert len(newest(pull).annotations) == 1


@pytest.mark.parametrize("after", [False, True], ids=["not carried out", "carried out"])
def test_a_publish_that_is_repeated_makes_no_second_check(
    make_harbour: MakeHarbour, after: bool
) -> None:
    model = PausingFollowUp(TIDY)
    harbour = make_harbour(model)
    pull = opened(harbour)
    before = pull.head_sha
    harbour.mona.comments(pull, "/aider any number of them")
    assert model.asked.wait(30)
    harbour.github.faults.server_error("POST", "/check-runs$", status=503, times=12, after=after)
    model.may_answer.set()
    harbour.settle()
    assert len(checks_on(pull, before)) == 2
    assert [check.conclusion for check in checks_on(pull, pull.head_sha)] == ["success"]
    assert harbour.run_of(pull).state == "published"


def test_stop_ends_a_follow_up(make_harbour: MakeHarbour) -> None:
    harbour, pull, check = at_work(make_harbour)
    harbour.mona.presses(check, "stop")
    harbour.settle()
    assert harbour.run_of(pull).state == "cancelled"
    assert "**The run was stopped.** Asked for by mona." in harbour.status_of(pull)
    assert check.conclusion == "cancelled"
    assert buttons_of(check) == ["retry"]


def test_retry_of_a_follow_up_that_was_stopped_starts_it_again(make_harbour: MakeHarbour) -> None:
    harbour, pull, check = at_work(make_harbour)
    harbour.mona.presses(check, "stop")
    harbour.settle()
    harbour.mona.presses(check, "retry")
    harbour.waits_for(lambda: len(harbour.runs_of(pull)) == 2, "there is a second run")
    again = harbour.run_of(pull)
    assert again.instruction == "any number of them"
    harbour.waits_for(lambda: newest(pull).external_id == again.id, "it has a check of its own")
    harbour.mona.presses(newest(pull), "stop")
    harbour.settle()
    assert [run.state for run in harbour.runs_of(pull)] == ["cancelled", "cancelled"]


def test_a_rerun_while_it_works_starts_no_second_run(make_harbour: MakeHarbour) -> None:
    harbour, pull, check = at_work(make_harbour)
    harbour.mona.reruns(check)
    harbour.settle_deliveries()
    assert len(harbour.runs_of(pull)) == 1
    harbour.mona.presses(check, "stop")
    harbour.settle()


def test_a_rerun_of_an_issues_run_says_where_its_pull_request_is(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(fix())
    pull = opened(harbour)
    harbour.mona.reruns(newest(pull))
    harbour.settle()
    assert len(harbour.runs_of(harbour.issue)) == 1
    (said,) = harbour.replies_on(pull)
    assert f"**There is a pull request for this already: #{pull.number}.**" in said


def test_a_retry_of_an_issues_run_whose_pull_request_was_closed_starts_over(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(fix())
    pull = opened(harbour)
    harbour.mona.closes(pull)
    harbour.settle()
    harbour.mona.presses(newest(pull), "retry")
    harbour.settle()
    assert [run.state for run in harbour.runs_of(harbour.issue)] == ["published", "published"]
    assert len(harbour.repo.pulls) == 2


def test_a_retry_for_an_issue_that_was_closed_asks_first(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(fix())
    pull = opened(harbour)
    harbour.mona.closes(pull)
    harbour.mona.closes(harbour.issue)
    harbour.mona.presses(newest(pull), "retry")
    harbour.settle()
    assert len(harbour.runs_of(harbour.issue)) == 1
    (said,) = harbour.replies_on(harbour.issue)
    assert "`/aider force`" in said


def test_stop_pressed_when_all_is_over_changes_nothing(make_harbour: MakeHarbour) -> None:
    """A page that is open since then still has the button."""
    harbour = make_harbour(fix())
    pull = opened(harbour)
    check = newest(pull)
    check.actions.append({"label": "Stop", "description": "", "identifier": "stop"})
    harbour.mona.presses(check, "stop")
    harbour.settle()
    assert harbour.run_of().state == "published"
    assert harbour.replies_on(pull) == []


def test_a_head_whose_check_github_refuses_is_worked_on_all_the_same(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour([FIRST, TIDY])
    pull = opened(harbour)
    harbour.github.faults.add("POST", "/check-runs$", status=403, times=100)
    harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    assert harbour.run_of(pull).state == "published"
    assert "the tests pass" in harbour.status_of(pull)
