"""The App is taken off, suspended, given back: its runs end, and the issue hears of it later."""

from __future__ import annotations

import pytest

from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour, Pausing

LATER = 60.0


def takes_away(harbour: Harbour, how: str) -> None:
    app, github = harbour.stage.connection.app, harbour.github
    if how == "suspend":
        github.suspend(app)
    else:
        github.uninstall(app, harbour.repo if how == "remove" else None)


def gives_back(harbour: Harbour, how: str) -> None:
    app, github = harbour.stage.connection.app, harbour.github
    if how == "suspend":
        github.unsuspend(app)
    else:
        github.install(app, harbour.repo)


WAYS = pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("remove", "acme/ship was taken away from the App by acme."),
        ("uninstall", "The App was uninstalled from acme by acme."),
        ("suspend", "The App was suspended on acme by acme."),
    ],
)


@WAYS
def test_a_run_that_waits_is_cancelled_and_told_of_when_it_is_back(
    make_harbour: MakeHarbour, how: str, reason: str
) -> None:
    harbour = make_harbour(drivers=0)
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle_deliveries()
    takes_away(harbour, how)
    harbour.settle_deliveries()
    run = harbour.run_of()
    assert (run.state, run.detail) == ("cancelled", reason)
    assert reason in harbour.page_of(run)
    # Nobody tries to tell what cannot be told.
    assert (run.told_at, run.tell_at) == (None, None)
    assert harbour.plans(LATER).tell_runs == ()

    gives_back(harbour, how)
    harbour.settle_deliveries()
    harbour.plans(LATER)
    assert f"**The run was stopped.** {reason}" in harbour.status_of()
    assert harbour.run_of().told_at is not None


@WAYS
def test_a_run_at_work_loses_its_machine_and_says_nothing(
    make_harbour: MakeHarbour, how: str, reason: str
) -> None:
    model = Pausing()
    harbour = make_harbour(model)
    harbour.mona.labels(harbour.issue, "aider")
    assert model.asked.wait(30)
    takes_away(harbour, how)
    harbour.waits_for(lambda: harbour.run_of().is_ended, "the run ends")
    model.may_answer.set()
    harbour.settle()
    run = harbour.run_of()
    assert (run.state, run.detail, run.cancel_requested_by) == ("cancelled", reason, "acme")
    assert harbour.provider().list() == []
    assert harbour.repo.branches() == ("main",)
    assert (run.told_at, run.tell_at) == (None, None)

    gives_back(harbour, how)
    harbour.settle()
    harbour.mona.comments(harbour.issue, "/aider retry")
    harbour.settle()
    assert harbour.run_of().state == "published"
    harbour.looks_again(LATER)
    assert all(run.told_at is not None for run in harbour.runs_of(harbour.issue))


def test_the_runs_of_other_repositories_go_on(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(drivers=0)
    boat = harbour.opens(harbour.makes_repo("boat"))
    for issue in (harbour.issue, boat):
        harbour.mona.labels(issue, "aider")
    harbour.settle_deliveries()
    takes_away(harbour, "remove")
    harbour.settle_deliveries()
    assert harbour.run_of().state == "cancelled"
    assert harbour.run_of(boat).state == "queued"


def test_news_of_a_loss_that_come_late_end_no_run_that_was_asked_for_since(
    harbour: Harbour,
) -> None:
    assert harbour.issue.number == 1
    harbour.settle()
    harbour.tasks.is_down = True
    takes_away(harbour, "remove")
    harbour.settle()
    (lost,) = [d for d in harbour.github.deliveries if d.action == "removed"]
    gives_back(harbour, "remove")
    harbour.settle()
    harbour.tasks.is_down = False
    harbour.labels()
    assert harbour.run_of().state == "published"
    harbour.looks_again(LATER)
    assert harbour.delivery_of(lost.guid).state == "processed"
    assert harbour.run_of().state == "published"


def test_what_cannot_be_seen_any_more_ends_with_words_about_the_access(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(drivers=0)
    repo = harbour.makes_repo("secret", private=True)
    issue = harbour.opens(repo)
    harbour.mona.labels(issue, "aider")
    harbour.settle_deliveries()
    # Nobody is told of this by a webhook.
    harbour.github.faults.add("GET", "/repos/acme/secret$", 404, body={"message": "Not Found"})
    harbour.work_with(1)
    harbour.settle()
    run = harbour.run_of(issue)
    assert (run.state, run.failure_kind) == ("failed", "github")
    assert "The App has lost its access to acme/secret" in harbour.page_of(run)
