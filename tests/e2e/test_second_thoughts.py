"""Somebody stops a run and asks for the next in the same breath: both are meant, in that order."""

from __future__ import annotations

import pytest

from demo.scenario import Hang, Scenario
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour, fix


@pytest.fixture
def harbour(make_harbour: MakeHarbour) -> Harbour:
    """A model that never answers, until it is asked to do less."""
    hang = Scenario("hang", (Hang(),), when=r"(?s)\A(?!.*only)")
    made = make_harbour([hang, fix(when="only")])
    made.mona.labels(made.issue, "aider")
    made.waits_for(lambda: bool(made.model.requests), "Aider waits for the model")
    return made


def test_stop_and_retry_in_one_comment(harbour: Harbour) -> None:
    comment = harbour.mona.comments(
        harbour.issue, "That is far too much.\n\n/aider stop\n/aider retry only `add`, please"
    )
    harbour.settle()

    first, second = oldest_first(harbour)
    assert harbour.reactions_on(comment)[0] == "eyes"
    assert first == "**The run was stopped.** Asked for by mona."
    assert "its tests pass" in second
    assert harbour.replies_on(harbour.issue) == []
    assert states(harbour) == ["cancelled", "published"]
    assert len(harbour.repo.pulls) == 1


def test_stop_in_one_comment_and_retry_in_the_next(harbour: Harbour) -> None:
    harbour.mona.comments(harbour.issue, "/aider stop")
    harbour.mona.comments(harbour.issue, "/aider retry only `add`, please")
    harbour.settle()

    first, second = oldest_first(harbour)
    assert first == "**The run was stopped.** Asked for by mona."
    assert "its tests pass" in second
    assert harbour.replies_on(harbour.issue) == []
    assert states(harbour) == ["cancelled", "published"]


def test_the_label_off_and_on_again(make_harbour: MakeHarbour) -> None:
    hang = Scenario("hang", (Hang(),), when=r"(?s)\A(?!.*only)")
    harbour = make_harbour([hang, fix(when="only")])
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: bool(harbour.model.requests), "Aider waits for the model")

    harbour.mona.unlabels(harbour.issue, "aider")
    harbour.mona.edits(harbour.issue, body="Mend only `add`.")
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()

    assert states(harbour) == ["cancelled", "published"]
    first, second = oldest_first(harbour)
    assert first == "**The run was stopped.** Asked for by mona."
    assert "its tests pass" in second


def test_who_thinks_a_third_time_ends_both(harbour: Harbour) -> None:
    harbour.mona.comments(
        harbour.issue, "/aider stop\n/aider retry only `add`, please\n/aider stop"
    )
    harbour.settle()
    assert states(harbour) == ["cancelled", "cancelled"]
    assert harbour.repo.pulls == ()


def test_the_next_run_waits_until_the_stopped_one_has_gone(harbour: Harbour) -> None:
    """They would share a branch, and the issue's status."""
    harbour.mona.comments(harbour.issue, "/aider stop\n/aider retry only `add`, please")
    harbour.settle()
    stopped, followed = reversed(harbour.runs_of(harbour.issue))
    assert stopped.ended_at is not None
    assert followed.started_at is not None
    assert stopped.ended_at <= followed.started_at


def states(harbour: Harbour) -> list[str]:
    return [run.state for run in reversed(harbour.runs_of(harbour.issue))]


def oldest_first(harbour: Harbour) -> list[str]:
    """Return the line in bold of each run's status comment, and what follows it."""
    said = [comment.body for comment in harbour.said_on(harbour.issue)]
    statuses = [body for body in said if "drydock:status" in body]
    return [next(line for line in body.splitlines() if line.startswith("**")) for body in statuses]
