"""GitHub on a bad day, at each write of a run: everything is done in the end, and once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour

PUSH = ("POST", "/git-receive-pack$")
PULL = ("POST", "/pulls$")
CHECK = ("POST", "/check-runs$")
COMMENT = ("POST", "/issues/1/comments$")
EDIT = ("PATCH", "/issues/comments/")
REACTION = ("POST", "/reactions$")
WRITES = (PUSH, PULL, CHECK, COMMENT, EDIT, REACTION)

Trouble = Callable[[Harbour, str, str], object]


def fails_before(harbour: Harbour, method: str, path: str) -> None:
    harbour.github.faults.server_error(method, path, status=500)


def fails_after(harbour: Harbour, method: str, path: str) -> None:
    harbour.github.faults.server_error(method, path, status=502, after=True)


def hangs_up_after(harbour: Harbour, method: str, path: str) -> None:
    harbour.github.faults.connection_reset(method, path, after=True)


def is_too_fast(harbour: Harbour, method: str, path: str) -> None:
    """A secondary limit that does not say for how long; GitHub's advice is a minute."""
    if (method, path) != PUSH:
        harbour.github.faults.secondary_rate_limit(method, path)


def assert_done_once(harbour: Harbour) -> None:
    pull = harbour.pull_of()
    assert harbour.repo.branches() == ("aider/issue-1-add-subtracts", "main")
    assert pull.head_sha == harbour.repo.git.heads()["aider/issue-1-add-subtracts"]
    assert [check.conclusion for check in harbour.repo.check_runs] == ["success"]
    assert "its tests pass" in harbour.status_of()
    assert harbour.reactions_on(harbour.issue) == ["eyes", "rocket"]
    assert harbour.run_of().state == "published"
    assert harbour.run_of().lost_leases == 0


@pytest.mark.parametrize("trouble", [fails_before, fails_after, hangs_up_after, is_too_fast])
def test_every_write_goes_wrong_once(harbour: Harbour, trouble: Trouble) -> None:
    struck = [trouble(harbour, *write) for write in WRITES]
    harbour.labels()
    harbour.looks_again(later=120)
    assert_done_once(harbour)
    assert struck


@pytest.mark.parametrize("write", [PULL, CHECK])
def test_an_outage_that_outlasts_the_retries_of_one_write_is_waited_for(
    harbour: Harbour, write: tuple[str, str]
) -> None:
    """The work is done and paid for; it must not be thrown away for ten bad minutes."""
    harbour.github.faults.server_error(*write, status=503, times=12)
    harbour.labels()
    assert_done_once(harbour)


def test_an_ending_that_could_not_be_told_is_told_later(harbour: Harbour) -> None:
    fault = harbour.github.faults.server_error(*EDIT, status=503, times=10_000)
    harbour.labels()
    assert harbour.run_of().state == "published"
    assert harbour.run_of().told_at is None
    assert "Drydock took this on" in harbour.status_of()
    fault.times = 0
    assert harbour.looks_again().tell_runs == ()
    assert harbour.looks_again(later=60).tell_runs == (harbour.run_of().id,)
    assert_done_once(harbour)
    assert harbour.run_of().told_at is not None
    assert harbour.looks_again(later=7200).tell_runs == ()


def test_a_github_that_never_comes_back_ends_the_run_and_says_so_when_it_does(
    harbour: Harbour,
) -> None:
    fault = harbour.github.faults.server_error(*PULL, status=503, times=10_000)
    harbour.labels()
    run = harbour.run_of()
    assert (run.state, run.failure_kind) == ("failed", "github")
    said = harbour.status_of()
    assert "**GitHub did not take the result.** Server Error (503)" in said
    fault.times = 0
    harbour.mona.comments(harbour.issue, "/aider retry")
    harbour.settle()
    assert "its tests pass" in harbour.status_of()
    assert len(harbour.repo.pulls) == 1


def test_a_command_that_comes_while_github_is_away_is_followed_when_it_is_back(
    harbour: Harbour,
) -> None:
    fault = harbour.github.faults.server_error("GET", "/permission$", status=503, times=10_000)
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    assert harbour.runs_of(harbour.issue) == []
    assert harbour.plans(later=15).enqueue_deliveries == ()
    fault.times = 0
    harbour.looks_again(later=25)
    assert_done_once(harbour)


def test_a_check_that_github_refuses_is_no_reason_to_call_the_run_failed(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour()
    harbour.github.faults.add(*CHECK, status=403, times=None)
    harbour.labels()
    assert harbour.run_of().state == "published"
    assert "its tests pass" in harbour.status_of()
    assert harbour.repo.check_runs == []
