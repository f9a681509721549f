"""A review comes as several deliveries, and some come late: it stays one thing that was asked."""

from __future__ import annotations

import json

import pytest

from app.store import DeliveryState, deliveries, writing
from demo.github import Pull
from demo.scenario import Edit, Scenario
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


def takes_late(harbour: Harbour) -> None:
    """Have the delivery of the review's command taken now, as if it had only come now."""
    about = ("pull_request_review_comment", "created")
    came = [d for d in harbour.github.deliveries if (d.event, d.action) == about]
    (late,) = (d.guid for d in came if json.loads(d.body)["comment"]["body"].startswith("/aider"))
    with writing(harbour.engine) as session:
        now = harbour.services.clock()
        deliveries.mark(session, late, DeliveryState.RECEIVED, now, "")
    take_delivery(harbour.services, late)
    assert harbour.delivery_of(late).state is DeliveryState.PROCESSED
    harbour.settle()


def test_a_comment_that_was_deleted_meanwhile_makes_no_second_run(harbour: Harbour) -> None:
    harbour.labels()
    pull = harbour.pull_of()
    remarks = {("calc.py", 2): "/aider any number of them", ("calc.py", 1): "and rename this"}
    harbour.mona.reviews(pull, "COMMENT", "", remarks)
    harbour.settle()
    assert len(harbour.runs_of(pull)) == 1
    gone = next(c for c in pull.review_comments if c.body == "and rename this")
    harbour.mona.deletes(gone)
    harbour.settle()
    takes_late(harbour)
    assert len(harbour.runs_of(pull)) == 1
    assert harbour.replies_on(pull) == []


def test_an_answer_that_github_did_not_take_is_given_later(harbour: Harbour) -> None:
    harbour.labels()
    pull = harbour.pull_of()
    harbour.github.faults.add("POST", r"/pulls/\d+/comments/\d+/replies$", 502, times=None)
    harbour.mona.comments_on_line(pull, "calc.py", 2, "/aider any number of them")
    harbour.settle()
    assert harbour.run_of(pull).state == "published"
    assert in_threads(pull) == []
    harbour.github.faults.clear()
    harbour.looks_again(later=120)
    (said,) = in_threads(pull)
    assert f"Addressed in {pull.head_sha}" in said
    harbour.looks_again(later=600)
    assert in_threads(pull) == [said]


def in_threads(pull: Pull) -> list[str]:
    return [c.body for c in pull.review_comments if c.author.login == "drydock[bot]"]
