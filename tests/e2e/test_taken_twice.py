"""A worker dies between what a delivery asks for and the note that it was done: the delivery is
taken again, decides as it did the first time, and nobody on GitHub can tell."""

from __future__ import annotations

import json

import pytest

from app.store import DeliveryState, deliveries, writing
from demo.github import Issue
from demo.scenario import Edit, Hang, Scenario
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import RIGHT, Harbour, fix
from workers.intake import take_delivery

TIDY = Scenario(
    "tidy",
    (Edit("calc.py", RIGHT, "def add(*numbers):\n    return sum(numbers)\n"),),
    r"Continue pull request",
)


@pytest.fixture
def harbour(make_harbour: MakeHarbour) -> Harbour:
    return make_harbour([fix(when=r"Resolve issue"), TIDY])


def takes_again(harbour: Harbour) -> None:
    """Have the last thing that was asked for taken once more, as if it had not been noted."""
    asked = {("issues", "labeled"), ("issue_comment", "created")}
    found = [d for d in harbour.github.deliveries if (d.event, d.action) in asked]
    guid = [d.guid for d in found if json.loads(d.body)["sender"]["login"] == "mona"][-1]
    with writing(harbour.engine) as session:
        deliveries.mark(session, guid, DeliveryState.RECEIVED, harbour.services.clock(), "")
    take_delivery(harbour.services, guid)
    assert harbour.delivery_of(guid).state is DeliveryState.PROCESSED


def seen(harbour: Harbour, *about: Issue) -> list[object]:
    """Everything that the bot said and did, and every run."""
    said = [(c.body, harbour.reactions_on(c)) for issue in about for c in issue.comments]
    made = [(run.id, run.state) for issue in about for run in harbour.runs_of(issue)]
    return [said, made, len(harbour.repo.pulls), len(harbour.repo.check_runs)]


def test_a_label(harbour: Harbour) -> None:
    harbour.labels()
    before = seen(harbour, harbour.issue)
    takes_again(harbour)
    harbour.settle()
    assert seen(harbour, harbour.issue) == before


def test_a_retry_whose_run_is_over(harbour: Harbour) -> None:
    harbour.labels()
    harbour.mona.closes(harbour.pull_of())
    harbour.mona.comments(harbour.issue, "/aider retry")
    harbour.settle()
    before = seen(harbour, harbour.issue)
    assert len(harbour.runs_of(harbour.issue)) == 2
    takes_again(harbour)
    harbour.settle()
    assert seen(harbour, harbour.issue) == before
    assert harbour.replies_on(harbour.issue) == []


def test_a_retry_whose_run_is_queued(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(fix(), drivers=0)
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle_deliveries()
    harbour.mona.comments(harbour.issue, "/aider stop")
    harbour.settle_deliveries()
    comment = harbour.mona.comments(harbour.issue, "/aider retry\nplease")
    harbour.settle_deliveries()
    before = seen(harbour, harbour.issue)
    takes_again(harbour)
    assert seen(harbour, harbour.issue) == before
    assert harbour.reactions_on(comment) == ["eyes"]
    assert harbour.replies_on(harbour.issue) == []


def test_stop_and_retry_in_one_comment(make_harbour: MakeHarbour) -> None:
    hang = Scenario("hang", (Hang(),), when=r"(?s)\A(?!.*only)")
    harbour = make_harbour([hang, fix(when="only")])
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: bool(harbour.model.requests), "Aider waits for the model")
    harbour.mona.comments(harbour.issue, "/aider stop\n/aider retry only `add`, please")
    harbour.settle()
    before = seen(harbour, harbour.issue)
    takes_again(harbour)
    harbour.settle()
    assert seen(harbour, harbour.issue) == before
    assert harbour.replies_on(harbour.issue) == []


def test_a_command_that_continues_in_the_issues_pull_request(harbour: Harbour) -> None:
    harbour.labels()
    pull = harbour.pull_of()
    harbour.mona.comments(harbour.issue, "/aider any number of them")
    harbour.settle()
    before = seen(harbour, harbour.issue, pull)
    takes_again(harbour)
    harbour.settle()
    assert seen(harbour, harbour.issue, pull) == before


def test_an_undo(harbour: Harbour) -> None:
    harbour.labels()
    pull = harbour.pull_of()
    harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    harbour.mona.comments(pull, "/aider undo")
    harbour.settle()
    before = seen(harbour, pull)
    takes_again(harbour)
    harbour.settle()
    assert seen(harbour, pull) == before
    assert harbour.replies_on(pull) == []
