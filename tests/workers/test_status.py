from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from app.github.errors import AccessLost, GitHubUnavailable, Gone, NotFound
from app.messages import StatusView
from app.states import ENDED, PHASES, RunState
from tests.app.reports import REPORT
from tests.app.store.helpers import T0
from tests.harbour.harbour import Harbour
from workers.status import MAX_TRIES, handle_of, next_telling, reaction_for, tell, view_of


@pytest.mark.parametrize(
    ("tries", "seconds"), [(0, 15), (1, 30), (2, 60), (8, 3600), (9, 3600), (40, 3600)]
)
def test_an_ending_is_told_again_less_and_less_often(tries: int, seconds: float) -> None:
    again = next_telling(GitHubUnavailable("down"), tries, T0)
    assert again == T0 + timedelta(seconds=seconds)


def test_it_is_tried_for_more_than_a_day() -> None:
    tries, at = 0, T0
    while (again := next_telling(AccessLost("gone"), tries, at)) is not None:
        tries, at = tries + 1, again
    assert tries == MAX_TRIES - 1
    assert at - T0 > timedelta(days=1)


def test_a_deleted_issue_is_given_up_at_once_and_one_that_is_not_found_is_not() -> None:
    assert next_telling(Gone("deleted"), 0, T0) is None
    assert next_telling(NotFound("404"), 0, T0) is not None


@pytest.mark.parametrize(
    ("state", "reaction"),
    [
        (RunState.PUBLISHED, "rocket"),
        (RunState.NO_CHANGES, None),
        (RunState.REFUSED, "confused"),
        (RunState.FAILED, "confused"),
        (RunState.TIMED_OUT, "confused"),
        (RunState.CANCELLED, None),
    ],
)
def test_an_ending_shows_on_what_was_asked(state: RunState, reaction: str | None) -> None:
    view = StatusView("r", state, "mona", report=replace(REPORT, outcome=state))
    assert reaction_for(view) == reaction


@pytest.mark.parametrize("state", [RunState.QUEUED, *PHASES])
def test_what_goes_on_shows_no_ending(state: RunState) -> None:
    assert state not in ENDED
    assert reaction_for(StatusView("r", state, "mona")) is None


def test_a_late_phase_does_not_cover_the_ending(harbour: Harbour) -> None:
    harbour.labels()
    run = harbour.run_of()
    late = StatusView(run.id, RunState.AGENT, "mona")
    with harbour.services.gateway(handle_of(run)) as gateway:
        tell(harbour.services, gateway, run, late)
    assert "its tests pass" in harbour.status_of()


def test_a_status_comment_that_somebody_deleted_comes_back(harbour: Harbour) -> None:
    harbour.labels()
    (comment,) = harbour.said_on(harbour.issue)
    harbour.mona.deletes(comment)
    run = harbour.run_of()
    with harbour.services.gateway(handle_of(run)) as gateway:
        tell(harbour.services, gateway, run, view_of(run, harbour.services, None))
    assert "its tests pass" in harbour.status_of()


def test_the_ending_is_told_although_the_command_was_deleted(harbour: Harbour) -> None:
    comment = harbour.mona.comments(harbour.issue, "/aider correct `calc.py`")
    harbour.waits_for(lambda: bool(harbour.runs_of(harbour.issue)), "there is a run")
    harbour.mona.deletes(comment)
    harbour.settle()
    assert "its tests pass" in harbour.status_of()
    assert harbour.run_of().told_at is not None
