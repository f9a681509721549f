"""A worker is killed with SIGKILL wherever a run can be, and another one goes on.

Whatever the moment: one pull request, one branch, one status comment, the right ending, no machine.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from app.states import RunState
from app.store import RunFields, runs, writing
from demo.scenario import Edit, Hang, Message, Reply, Scenario
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import FILES, WRONG, Harbour, fix
from tests.harbour.worker import Orders, start
from workers.checkout import Source, lock_mirror

PRICED = {
    "DRYDOCK_MODEL_INPUT_USD_PER_MTOK": "10",
    "DRYDOCK_MODEL_OUTPUT_USD_PER_MTOK": "10",
    "DRYDOCK_BUDGET_USD": "5",
}


@contextmanager
def worker(harbour: Harbour, **orders: bool) -> Iterator[ForkServerProcess]:
    """A worker in a process of its own; the test kills it."""
    process = start(Orders(harbour.environment(), **orders), log_of(harbour))
    try:
        yield process
    finally:
        process.kill()
        process.join()


def log_of(harbour: Harbour) -> Path:
    return harbour.folder / "worker.log"


def kill(harbour: Harbour, process: ForkServerProcess, state: RunState) -> None:
    assert process.is_alive(), log_of(harbour).read_text()
    assert harbour.run_of().state is state
    process.kill()
    process.join()
    harbour.waits_for(lambda: not Path(f"/proc/{process.pid}").exists(), "the worker is gone")


def begin(make_harbour: MakeHarbour, script: object = None, **options: object) -> Harbour:
    """A labelled issue whose run is queued, and nobody there to drive it."""
    harbour: Harbour = make_harbour(script, drivers=0, **options)
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: harbour.is_in("queued"), "the run is queued")
    return harbour


def go_on(harbour: Harbour) -> None:
    """Start another worker and have the reconciler look once."""
    harbour.work_with(1)
    harbour.looks_again()
    harbour.settle()


def assert_done_once(harbour: Harbour, lost: int = 1) -> None:
    run = harbour.run_of()
    assert run.state == "published"
    assert run.lost_leases == lost
    assert len(harbour.runs_of(harbour.issue)) == 1
    assert harbour.repo.branches() == ("aider/issue-1-add-subtracts", "main")
    assert harbour.pull_of().head_sha == run.head_sha
    assert [check.conclusion for check in harbour.repo.check_runs] == ["success"]
    assert "its tests pass" in harbour.status_of()
    assert harbour.reactions_on(harbour.issue) == ["eyes", "rocket"]
    assert harbour.provider().list() == []
    harbour.looks_again(later=60)
    assert harbour.run_of().told_at is not None


def source_of(harbour: Harbour) -> Source:
    return Source(f"{harbour.github.url}/acme/ship.git", harbour.repo.id)


def test_in_checkout(make_harbour: MakeHarbour) -> None:
    harbour = begin(make_harbour)
    with lock_mirror(harbour.state_dir, source_of(harbour)), worker(harbour) as process:
        harbour.waits_for(lambda: harbour.is_in("checkout"), "it waits for the mirror")
        kill(harbour, process, RunState.CHECKOUT)
    go_on(harbour)
    assert_done_once(harbour)


def test_with_a_machine_that_nobody_has_heard_of_yet(make_harbour: MakeHarbour) -> None:
    harbour = begin(make_harbour)
    with worker(harbour, hold_machine=True) as process:
        harbour.waits_for(lambda: bool(harbour.provider().list()), "there is a machine")
        harbour.waits_for(lambda: harbour.is_in("machine"), "the run has come that far")
        kill(harbour, process, RunState.MACHINE)
    # Its supervisor sees that the worker is gone.
    harbour.waits_for(lambda: not harbour.provider().list(), "the machine ends by itself")
    go_on(harbour)
    assert_done_once(harbour)


def test_in_setup(make_harbour: MakeHarbour, tmp_path: Path) -> None:
    once = f"mkdir {tmp_path}/been-here 2>/dev/null && exec sleep 600; true"
    config = f"setup: {json.dumps([once])}\n{FILES['.github/drydock.yml']}"
    harbour = make_harbour(drivers=0)
    harbour.repo.commit({".github/drydock.yml": config})
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: harbour.is_in("queued"), "the run is queued")
    with worker(harbour) as process:
        harbour.waits_for((tmp_path / "been-here").exists, "the set-up hangs")
        kill(harbour, process, RunState.SETUP)
    go_on(harbour)
    assert_done_once(harbour)


def test_while_aider_works(make_harbour: MakeHarbour) -> None:
    asked = threading.Event()

    def hangs_once(_: Sequence[Message]) -> Reply:
        if asked.is_set():
            return fix().replies[0]
        asked.set()
        return Hang()

    harbour = begin(make_harbour, hangs_once)
    with worker(harbour) as process:
        assert asked.wait(30)
        kill(harbour, process, RunState.AGENT)
    go_on(harbour)
    assert_done_once(harbour)


def test_what_the_lost_attempt_spent_is_in_the_account(make_harbour: MakeHarbour) -> None:
    """The first answer is paid for and wrong; the worker dies over the second."""
    hung = threading.Event()

    def answer(messages: Sequence[Message]) -> Reply:
        if hung.is_set():
            return fix().replies[0]
        if len(messages) > 1:
            hung.set()
            return Hang()
        return Edit("calc.py", WRONG, "def add(a, b):\n    return a * b + 1\n")

    harbour = begin(make_harbour, answer, settings=PRICED)
    with worker(harbour) as process:
        assert hung.wait(30)
        harbour.waits_for(lambda: harbour.run_of().model_calls == 1, "the row is told of the call")
        lost = harbour.run_of()
        kill(harbour, process, RunState.AGENT)
    assert (lost.cost_usd or 0) > 0
    go_on(harbour)
    assert_done_once(harbour)
    run = harbour.run_of()
    assert run.model_calls == 2
    assert run.input_tokens > lost.input_tokens > 0
    assert (run.cost_usd or 0) > (lost.cost_usd or 0)
    assert "in 2 calls" in (harbour.pull_of().body or "")


def test_a_run_whose_lost_attempt_took_all_its_money_ends_there(make_harbour: MakeHarbour) -> None:
    harbour = begin(make_harbour, settings=PRICED)
    with writing(harbour.engine) as session:
        run = runs.claim(session, "nowhere/boot/1/1", 1, harbour.services.clock())
        assert run is not None
        spent = RunFields(cost_usd=5.0, model_calls=3)
        runs.update(session, run.id, harbour.services.clock(), **spent)
    harbour.work_with(1)
    harbour.looks_again(later=60)
    harbour.settle()
    ended = harbour.run_of()
    assert (ended.state, ended.failure_kind, ended.cost_usd) == ("failed", "budget", 5.0)
    assert "spending cap for this run is reached" in harbour.status_of()
    assert harbour.model.requests == ()


def test_what_was_kept_is_not_paid_for_again_when_its_judge_is_killed(
    make_harbour: MakeHarbour,
) -> None:
    sneaky = Scenario("sneaky", (Edit(".npmrc", "", "save-exact=true\n"),))
    harbour = begin(make_harbour, sneaky, settings=PRICED)
    harbour.repo.grant(harbour.mona, "maintain")
    with worker(harbour):
        harbour.waits_for(lambda: harbour.is_in("refused"), "the gate refuses it")
        harbour.waits_for(lambda: "/aider allow" in harbour.status_of(), "it is told")
    refused = harbour.run_of()
    harbour.mona.comments(harbour.issue, "/aider allow .npmrc")
    harbour.waits_for(lambda: harbour.is_in("queued"), "it is to be judged again")
    trap = Trap(harbour, "POST", "/git-receive-pack$", after_effect=False)
    with worker(harbour) as process:
        assert trap.sprung.wait(30), log_of(harbour).read_text()
        kill(harbour, process, RunState.PUBLISH)
    trap.over.set()
    go_on(harbour)
    run = harbour.run_of()
    assert (run.state, run.lost_leases) == ("published", 1)
    assert (refused.cost_usd or 0) > 0
    assert (run.model_calls, run.input_tokens, run.cost_usd) == (0, 0, 0.0)


def test_while_the_tests_run_once_more(make_harbour: MakeHarbour, tmp_path: Path) -> None:
    # Aider's own run of them is the first.
    test = (
        f"if mkdir {tmp_path}/first 2>/dev/null; then exec python3 -B check.py; fi;"
        f" mkdir {tmp_path}/second 2>/dev/null && exec sleep 600; exec python3 -B check.py"
    )
    harbour = make_harbour(drivers=0, settings={"DRYDOCK_TEST_BASE": "false"})
    harbour.repo.commit({".github/drydock.yml": f"test: {json.dumps(test)}\n"})
    harbour.mona.labels(harbour.issue, "aider")
    harbour.waits_for(lambda: harbour.is_in("queued"), "the run is queued")
    with worker(harbour) as process:
        harbour.waits_for((tmp_path / "second").exists, "the tests hang")
        kill(harbour, process, RunState.VERIFY)
    go_on(harbour)
    assert_done_once(harbour)


def test_at_the_gate(make_harbour: MakeHarbour) -> None:
    locked, release = threading.Event(), threading.Event()

    def holds_the_mirror(_: Sequence[Message]) -> Reply:
        threading.Thread(target=hold, daemon=True).start()
        assert locked.wait(10)
        return fix().replies[0]

    def hold() -> None:
        with lock_mirror(harbour.state_dir, source_of(harbour)):
            locked.set()
            release.wait(30)

    harbour = begin(make_harbour, holds_the_mirror)
    with worker(harbour) as process:
        harbour.waits_for(lambda: harbour.is_in("gate"), "it waits at the gate")
        kill(harbour, process, RunState.GATE)
    release.set()
    locked.clear()
    release.clear()
    threading.Timer(0.5, release.set).start()
    go_on(harbour)
    assert_done_once(harbour)


class Trap:
    """GitHub does what it is asked, or does not, and says nothing while the worker is killed."""

    def __init__(self, harbour: Harbour, method: str, path: str, *, after_effect: bool) -> None:
        self.sprung, self.over = threading.Event(), threading.Event()
        self._fault = harbour.github.faults.add(
            method, path, after_effect=after_effect, delay=self._hold
        )

    def _hold(self) -> None:
        self.sprung.set()
        self.over.wait(30)


@pytest.mark.parametrize(
    ("method", "path", "after_effect"),
    [
        pytest.param("POST", "/git-receive-pack$", False, id="before the push"),
        pytest.param("POST", "/git-receive-pack$", True, id="after the push"),
        pytest.param("POST", "/pulls$", False, id="before the pull request"),
        pytest.param("POST", "/pulls$", True, id="after the pull request"),
        pytest.param("POST", "/check-runs$", True, id="after the check run"),
    ],
)
def test_while_it_publishes(
    make_harbour: MakeHarbour, method: str, path: str, after_effect: bool
) -> None:
    harbour = begin(make_harbour)
    trap = Trap(harbour, method, path, after_effect=after_effect)
    with worker(harbour) as process:
        assert trap.sprung.wait(30), log_of(harbour).read_text()
        kill(harbour, process, RunState.PUBLISH)
    trap.over.set()
    asked = len(harbour.model.requests)
    go_on(harbour)
    assert_done_once(harbour)
    # What was judged is published; the model is not paid twice, nor is that put down twice.
    assert len(harbour.model.requests) == asked
    assert harbour.run_of().model_calls == asked


def test_between_the_end_of_the_run_and_the_telling_of_it(make_harbour: MakeHarbour) -> None:
    harbour = begin(make_harbour)
    sprung, over = threading.Event(), threading.Event()

    def hold_once_it_has_ended() -> None:
        if harbour.is_in("published"):
            sprung.set()
            over.wait(30)

    harbour.github.faults.add(
        "PATCH", "/issues/comments/", 502, times=None, delay=hold_once_it_has_ended
    )
    with worker(harbour) as process:
        assert sprung.wait(30)
        kill(harbour, process, RunState.PUBLISHED)
    harbour.github.faults.clear()
    over.set()
    assert "Drydock took this on" in harbour.status_of()
    harbour.work_with(1)
    harbour.looks_again(later=60)
    assert_done_once(harbour, lost=0)


def test_again_and_again_until_it_is_called_the_runs_own_fault(make_harbour: MakeHarbour) -> None:
    asked: list[int] = []

    def hangs(_: Sequence[Message]) -> Reply:
        asked.append(1)
        return Hang()

    harbour = begin(make_harbour, hangs)
    for times in range(1, 4):
        with worker(harbour) as process:
            harbour.waits_for(lambda n=times: len(asked) >= n, "Aider waits")  # type: ignore[misc]
            kill(harbour, process, RunState.AGENT)
        harbour.plans()
    run = harbour.run_of()
    assert (run.state, run.failure_kind, run.lost_leases) == ("failed", "internal", 3)
    assert "3 workers vanished while they worked on this run" in harbour.status_of()
    assert harbour.repo.pulls == ()


def test_with_a_stop_asked_for_meanwhile_it_is_cancelled_and_told(
    make_harbour: MakeHarbour,
) -> None:
    harbour = begin(make_harbour, lambda _: Hang())
    with worker(harbour) as process:
        harbour.waits_for(lambda: bool(harbour.model.requests), "Aider waits")
        os.kill(process.pid or 0, signal.SIGSTOP)
        harbour.mona.comments(harbour.issue, "/aider stop")
        wanted: Callable[[], bool] = lambda: bool(harbour.run_of().cancel_requested_by)  # noqa: E731
        harbour.waits_for(wanted, "the stop is noted")
        kill(harbour, process, RunState.AGENT)
    go_on(harbour)
    assert harbour.run_of().state == "cancelled"
    assert "**The run was stopped.** Asked for by mona." in harbour.status_of()
    assert harbour.repo.branches() == ("main",)
