"""Runs that somebody stops: the machine goes, the issue is told, nothing is pushed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from demo.scenario import hang
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour, fix
from workers.checkout import Source, lock_mirror


def says_stop(harbour: Harbour) -> None:
    harbour.mona.comments(harbour.issue, "That was too early.\n\n/aider stop")


def takes_the_label_off(harbour: Harbour) -> None:
    harbour.mona.unlabels(harbour.issue, "aider")


def closes_the_issue(harbour: Harbour) -> None:
    harbour.mona.closes(harbour.issue)


def assert_stopped(harbour: Harbour) -> None:
    said = harbour.status_of()
    assert "**The run was stopped.** Asked for by mona." in said
    assert "Its machine was destroyed. Nothing was pushed." in said
    run = harbour.run_of()
    assert run.state == "cancelled"
    assert run.told_at is not None
    assert harbour.provider().list() == []
    assert harbour.repo.branches() == ("main",)
    assert harbour.repo.pulls == ()


@pytest.mark.parametrize("stop", [says_stop, takes_the_label_off, closes_the_issue])
def test_while_aider_works(make_harbour: MakeHarbour, stop: Callable[[Harbour], None]) -> None:
    harbour = make_harbour(hang())
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: bool(harbour.model.requests), "Aider waits for the model")
    assert len(harbour.provider().list()) == 1
    stop(harbour)
    harbour.settle()
    assert_stopped(harbour)
    assert "**Aider works**: ended here after" in harbour.status_of()


@pytest.mark.e2e
@pytest.mark.machine
def test_while_the_real_aider_works_in_a_machine(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(hang(), provider="bubblewrap")
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: bool(harbour.model.requests), "Aider waits for the model")
    says_stop(harbour)
    harbour.settle()
    assert_stopped(harbour)
    (asked, *_) = [c for c in harbour.issue.comments if c.body.endswith("/aider stop")]
    assert harbour.reactions_on(asked) == ["eyes"]


def test_before_a_worker_has_it(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(drivers=0)
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: harbour.is_in("queued"), "the run is queued")
    harbour.mona.comments(harbour.issue, "/aider stop")
    harbour.waits_for(lambda: harbour.is_in("cancelled"), "the run is cancelled")
    harbour.work_with(1)
    harbour.settle()
    assert_stopped(harbour)
    assert harbour.model.requests == ()


def test_while_the_repository_is_fetched_aider_is_never_started(harbour: Harbour) -> None:
    source = Source(f"{harbour.github.url}/acme/ship.git", harbour.repo.id)
    with lock_mirror(harbour.state_dir, source):
        harbour.mona.labels(harbour.issue, "aider")
        harbour.waits_for(lambda: harbour.is_in("checkout"), "the run waits for the mirror")
        harbour.mona.comments(harbour.issue, "/aider stop")
        # The next heartbeat of the run tells its driver.
        told = "run.told_to_stop"
        harbour.waits_for(lambda: told in harbour.log_path.read_text(), "the driver hears of it")
    harbour.settle()
    assert_stopped(harbour)
    assert harbour.model.requests == ()


def test_after_the_push_what_was_pushed_is_said(harbour: Harbour) -> None:
    harbour.github.faults.add("POST", r"/pulls$", 502, times=None)
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: len(harbour.repo.branches()) == 2, "the branch is pushed")
    says_stop(harbour)
    harbour.settle()
    (branch,) = set(harbour.repo.branches()) - {"main"}
    said = harbour.status_of()
    assert "**The run was stopped.** Asked for by mona." in said
    assert "Nothing was pushed" not in said
    assert f"are on the branch `{branch}`" in said


def test_a_stop_by_somebody_without_the_right_stops_nothing(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(drivers=0)
    eve = harbour.github.create_user("eve")
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: harbour.is_in("queued"), "the run is queued")
    comment = eve.comments(harbour.issue, "/aider stop")
    harbour.waits_for(lambda: harbour.reactions_on(comment) == ["confused"], "Eve is refused")
    harbour.work_with(1)
    harbour.settle()
    assert harbour.run_of().state == "published"


def test_a_stopped_run_can_be_started_again(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour([hang_unless_retried(), fix(when="this time")])
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: bool(harbour.model.requests), "Aider waits for the model")
    says_stop(harbour)
    harbour.settle()
    harbour.mona.comments(harbour.issue, "/aider retry\nthis time to the end")
    harbour.settle()
    assert "its tests pass" in harbour.status_of()
    assert [run.state for run in harbour.runs_of(harbour.issue)] == ["published", "cancelled"]


def hang_unless_retried() -> object:
    from demo.scenario import Hang, Scenario

    return Scenario("hang", (Hang(),), when=r"(?s)\A(?!.*this time)")
