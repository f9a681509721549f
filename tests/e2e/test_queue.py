"""What people read while their run waits for a worker: its place, which stays true."""

from __future__ import annotations

import pytest

from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour, fix


@pytest.fixture
def harbour(make_harbour: MakeHarbour) -> Harbour:
    """Three issues of one repository are labelled, and no worker is there."""
    harbour = make_harbour(fix(), drivers=0)
    for number in (1, 2, 3):
        issue = harbour.opens(harbour.repo)
        harbour.mona.labels(issue, "aider")
        harbour.waits_for(lambda i=issue: harbour.is_in("queued", i), f"run {number} is queued")
    harbour.settle_deliveries()
    return harbour


def places(harbour: Harbour) -> list[str]:
    """The headline of each issue's status comment."""
    said = [harbour.status_of(issue) for issue in harbour.repo.issues]
    return [next(line for line in text.splitlines() if line.startswith("**")) for text in said]


SOON = "**Drydock took this on; the run starts as soon as a worker is free.**"


def test_each_run_says_how_many_are_before_it(harbour: Harbour) -> None:
    assert places(harbour) == [
        SOON,
        "**Drydock took this on; 1 run is before it.**",
        "**Drydock took this on; 2 runs are before it.**",
    ]


def test_a_place_that_changes_is_told_and_only_then(harbour: Harbour) -> None:
    first, *_ = harbour.repo.issues
    assert harbour.plans().tell_places == ()
    harbour.mona.comments(first, "/aider stop")
    harbour.waits_for(lambda: harbour.is_in("cancelled", first), "the first run is cancelled")
    assert len(harbour.plans().tell_places) == 2
    assert places(harbour)[1:] == [SOON, "**Drydock took this on; 1 run is before it.**"]
    assert harbour.plans().tell_places == ()


def test_a_place_that_could_not_be_told_at_first_is_told_by_the_next_look(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(fix(), drivers=0)
    harbour.github.faults.server_error("POST", "/issues/1/comments$", status=503, times=10_000)
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: harbour.is_in("queued"), "the run is queued")
    harbour.settle_deliveries()
    harbour.github.faults.clear()
    assert harbour.said_on(harbour.issue) == []
    harbour.plans(later=60)
    assert places(harbour) == [SOON]


def test_a_run_that_a_worker_took_says_nothing_of_places(harbour: Harbour) -> None:
    harbour.work_with(1)
    harbour.settle()
    assert harbour.plans().tell_places == ()
    assert all("its tests pass" in harbour.status_of(issue) for issue in harbour.repo.issues)
    assert all("What was done, in " in harbour.status_of(issue) for issue in harbour.repo.issues)
