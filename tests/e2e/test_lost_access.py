"""The App is taken off the repository: before it looks, while it works, when it wants to publish.

Nobody can be told on the issue then; the run's page, the log and the row say it, and the issue
hears of it as soon as the App is back. GitHub's own word of it (see `test_installation`) is lost on
the way here.
"""

from __future__ import annotations

from collections.abc import Sequence

from demo.github import Repo
from demo.scenario import Message, Reply
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour, fix

LATER = 60.0


def uninstalls(harbour: Harbour, repo: Repo | None = None) -> None:
    app = harbour.stage.connection.app
    harbour.github.set_webhook(app, None)
    harbour.github.uninstall(app, repo or harbour.repo)
    harbour.stage.go_live()


def installs(harbour: Harbour) -> None:
    harbour.github.install(harbour.stage.connection.app, harbour.repo)


def test_before_the_delivery_is_taken_nothing_is_started_and_the_reason_is_kept(
    harbour: Harbour,
) -> None:
    harbour.tasks.is_down = True
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    uninstalls(harbour)
    harbour.tasks.is_down = False
    harbour.looks_again(LATER)
    labelled = next(d for d in harbour.github.deliveries if d.action == "labeled")
    delivery = harbour.delivery_of(labelled.guid)
    assert delivery.state == "ignored"
    assert "the App has no access any more" in delivery.reason
    assert harbour.runs_of(harbour.issue) == []


def test_while_aider_works_the_run_fails_and_the_issue_hears_of_it_later(
    make_harbour: MakeHarbour,
) -> None:
    def taken_off(_: Sequence[Message]) -> Reply:
        uninstalls(harbour)
        return fix().replies[0]

    harbour = make_harbour(taken_off)
    harbour.labels()
    run = harbour.run_of()
    assert (run.state, run.failure_kind) == ("failed", "github")
    assert "is not installed on that repository any more" in run.detail
    assert "is not installed on that repository any more" in harbour.page_of(run)
    assert "The App has lost its access to acme/ship" in harbour.page_of(run)
    assert harbour.repo.branches() == ("main",)
    assert run.told_at is None

    installs(harbour)
    harbour.looks_again(LATER)
    assert "**The App has lost its access to `acme/ship`**" in harbour.status_of()
    assert harbour.run_of().told_at is not None


def test_of_a_private_repository_after_the_push_the_same(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour()
    repo = harbour.makes_repo("secret", private=True)
    app = harbour.stage.connection.app
    fault = harbour.github.faults.server_error("GET", "/pulls$")
    fault.delay = lambda: uninstalls(harbour, repo)
    issue = harbour.labels(harbour.opens(repo))
    run = harbour.run_of(issue)
    assert (run.state, run.failure_kind) == ("failed", "github")
    assert "aider/issue-1-add-subtracts" in repo.branches()
    assert repo.pulls == ()

    harbour.github.install(app, repo)
    harbour.looks_again(LATER)
    said = harbour.status_of(issue)
    assert "**GitHub did not take the result.**" in said
    assert "an owner checks that the App is still installed here" in said
    # What was pushed is found again, not pushed a second time.
    harbour.mona.comments(issue, "/aider retry")
    harbour.settle()
    assert harbour.pull_of(issue).head_ref.startswith("aider/issue-1-add-subtracts")


def test_an_ending_is_told_again_less_and_less_often_and_at_last_not_any_more(
    make_harbour: MakeHarbour,
) -> None:
    def taken_off(_: Sequence[Message]) -> Reply:
        uninstalls(harbour)
        return fix().replies[0]

    harbour = make_harbour(taken_off)
    harbour.labels()
    due = harbour.run_of().tell_at
    assert due is not None
    harbour.looks_again(LATER)
    later = harbour.run_of().tell_at
    assert later is not None
    assert later > due
    assert harbour.run_of().tell_tries == 2


def test_an_issue_that_was_deleted_is_not_told_of_for_ever(make_harbour: MakeHarbour) -> None:
    def deleted(_: Sequence[Message]) -> Reply:
        harbour.repo.grant(harbour.mona, "admin")
        harbour.mona.deletes(harbour.issue)
        return fix().replies[0]

    harbour = make_harbour(deleted)
    harbour.labels()
    run = harbour.run_of()
    assert run.is_ended
    assert (run.told_at, run.tell_at) == (None, None)
