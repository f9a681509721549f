from __future__ import annotations

import multiprocessing
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from app.states import ENDED, FailureKind, RunEvent, RunState, next_state
from app.store import (
    CancelOutcome,
    ReleaseOutcome,
    Run,
    make_engine,
    reading,
    runs,
    upgrade,
    workers,
    writing,
)
from tests.app.store.helpers import T0, at, create, get, new_run


def _create(engine: Engine, issue: int = 1, seconds: float = 0, **changes: object) -> str:
    return create(engine, issue, seconds, **changes).id


def _claim(
    engine: Engine, seconds: float, owner: str = "w", run_id: str | None = None
) -> Run | None:
    with writing(engine) as session:
        return runs.claim(session, owner, 60, at(seconds), run_id)


def test_a_claim_takes_the_run_and_its_lease(engine: Engine) -> None:
    run_id = _create(engine)
    run = _claim(engine, 5)
    assert run is not None
    assert run == get(engine, run_id)
    assert (run.state, run.attempt, run.started_at) == (RunState.CHECKOUT, 1, at(5))
    assert (run.lease_owner, run.lease_until) == ("w", at(65))
    assert _claim(engine, 6) is None


def test_claims_go_round_the_repositories(engine: Engine) -> None:
    ids = [_create(engine, n, seconds=n, repo_id=repo) for n, repo in enumerate((1, 1, 1, 2, 3, 2))]
    with reading(engine) as session:
        places = [runs.queue_position(session, run_id) for run_id in ids]
    claimed = [run.id for run in iter(lambda: _claim(engine, 10), None)]
    assert claimed == [ids[0], ids[3], ids[4], ids[1], ids[5], ids[2]]
    assert places == [claimed.index(run_id) + 1 for run_id in ids]
    with reading(engine) as session:
        assert runs.queue_position(session, ids[0]) is None


def test_the_place_that_was_told_is_kept_until_the_run_is_claimed(engine: Engine) -> None:
    run_id = _create(engine)
    with writing(engine) as session:
        runs.mark_place(session, run_id, 3)
    assert get(engine, run_id).told_place == 3
    _claim(engine, 5)
    with writing(engine) as session:
        runs.mark_place(session, run_id, 1)
    assert get(engine, run_id).told_place is None


def test_noting_a_told_place_does_not_count_as_progress(engine: Engine) -> None:
    """Or a run whose message was lost would never be enqueued again."""
    before = get(engine, run_id := _create(engine)).updated_at
    with writing(engine) as session:
        runs.mark_place(session, run_id, 3)
    assert get(engine, run_id).updated_at == before


def test_one_run_can_be_claimed_by_its_id(engine: Engine) -> None:
    _create(engine, 1)
    second = _create(engine, 2)
    run = _claim(engine, 1, run_id=second)
    assert run is not None
    assert run.id == second
    assert _claim(engine, 2, run_id=second) is None
    assert _claim(engine, 2, run_id="none") is None


def test_a_run_that_follows_another_is_claimed_when_that_has_ended(engine: Engine) -> None:
    first = _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        assert runs.request_cancel(session, first, "mona", at(1)) is CancelOutcome.REQUESTED
    second = _create(engine, seconds=2)
    other = _create(engine, 2, seconds=3)
    with reading(engine) as session:
        assert runs.follower(session, get(engine, first)) == second
        assert runs.queue_position(session, second) == 1
    assert _claim(engine, 4, run_id=second) is None
    assert (claimed := _claim(engine, 5)) is not None
    assert claimed.id == other
    assert _claim(engine, 6) is None
    with writing(engine) as session:
        assert runs.transition(session, first, RunState.CHECKOUT, RunEvent.CANCEL, at(7))
    assert (claimed := _claim(engine, 8)) is not None
    assert claimed.id == second
    with reading(engine) as session:
        assert runs.follower(session, get(engine, first)) is None


def test_a_worker_that_dies_over_a_stopped_run_leaves_the_way_to_the_next(engine: Engine) -> None:
    first = _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        runs.request_cancel(session, first, "mona", at(1))
    second = _create(engine, seconds=2)
    with writing(engine) as session:
        assert (
            runs.release(session, get(engine, first), at(3), owner_is_dead=True)
            is ReleaseOutcome.CANCELLED
        )
    assert (claimed := _claim(engine, 4)) is not None
    assert claimed.id == second


def test_a_heartbeat_extends_the_lease(engine: Engine) -> None:
    run_id = _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        assert runs.heartbeat(session, run_id, "w", 60, at(30))
        assert runs.expired(session, at(61)) == ()
    assert get(engine, run_id).lease_until == at(90)


def test_a_worker_that_lost_the_lease_is_told_to_stop(engine: Engine) -> None:
    run_id = _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        (gone,) = runs.expired(session, at(61))
        assert runs.release(session, gone, at(61)) is ReleaseOutcome.REQUEUED
    _claim(engine, 62, owner="other")
    with writing(engine) as session:
        assert not runs.heartbeat(session, run_id, "w", 60, at(63))
        assert not runs.update(session, run_id, at(63), owner="w", branch="stolen")
        assert not runs.transition(
            session, run_id, RunState.CHECKOUT, RunEvent.ADVANCE, at(63), owner="w"
        )
        assert runs.heartbeat(session, run_id, "other", 60, at(63))
    assert get(engine, run_id).branch is None


def test_a_heartbeat_for_an_ended_run_says_stop(engine: Engine) -> None:
    run_id = _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        runs.transition(session, run_id, RunState.CHECKOUT, RunEvent.FAIL, at(1), owner="w")
        assert not runs.heartbeat(session, run_id, "w", 60, at(2))
    ended = get(engine, run_id)
    assert (ended.lease_owner, ended.lease_until) == (None, None)


def test_cancelling_a_queued_run_ends_it_at_once(engine: Engine) -> None:
    run_id = _create(engine)
    with writing(engine) as session:
        assert runs.request_cancel(session, run_id, "bob", at(1)) is CancelOutcome.CANCELLED
        assert runs.request_cancel(session, run_id, "bob", at(2)) is CancelOutcome.NOT_ACTIVE
        assert runs.request_cancel(session, "none", "bob", at(2)) is CancelOutcome.NOT_ACTIVE
    assert get(engine, run_id).state is RunState.CANCELLED


def test_cancelling_a_running_run_tells_its_worker_who_still_owns_it(engine: Engine) -> None:
    run_id = _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        assert runs.request_cancel(session, run_id, "bob", at(1)) is CancelOutcome.REQUESTED
        assert runs.request_cancel(session, run_id, "eve", at(2)) is CancelOutcome.REQUESTED
        assert not runs.heartbeat(session, run_id, "w", 60, at(30))
    assert get(engine, run_id).cancel_requested_by == "bob"
    assert get(engine, run_id).lease_until == at(90)
    with writing(engine) as session:
        assert runs.transition(
            session, run_id, RunState.CHECKOUT, RunEvent.CANCEL, at(31), owner="w"
        )


def test_a_worker_that_leaves_in_order_costs_the_run_nothing(engine: Engine) -> None:
    run_id = _create(engine)
    for number in range(1, 6):
        run = _claim(engine, number)
        assert run is not None
        assert run.attempt == number
        with writing(engine) as session:
            assert runs.transition(
                session, run_id, RunState.CHECKOUT, RunEvent.RELEASE, at(number), owner="w"
            )
    assert get(engine, run_id).lost_leases == 0


def test_a_run_that_loses_three_workers_is_failed(engine: Engine) -> None:
    run_id = _create(engine)
    outcomes = []
    for number in range(runs.MAX_LOST_LEASES):
        _claim(engine, number * 100)
        with writing(engine) as session:
            (gone,) = runs.expired(session, at(number * 100 + 61))
            outcomes.append(runs.release(session, gone, at(number * 100 + 61)))
    assert outcomes == [ReleaseOutcome.REQUEUED, ReleaseOutcome.REQUEUED, ReleaseOutcome.FAILED]
    run = get(engine, run_id)
    assert (run.state, run.failure_kind) == (RunState.FAILED, FailureKind.INTERNAL)
    assert run.detail == "3 workers vanished while they worked on this run"


def test_a_lost_run_that_was_to_stop_is_cancelled(engine: Engine) -> None:
    run_id = _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        runs.request_cancel(session, run_id, "bob", at(1))
        (gone,) = runs.expired(session, at(61))
        assert runs.release(session, gone, at(61)) is ReleaseOutcome.CANCELLED
    assert get(engine, run_id).state is RunState.CANCELLED


def test_a_heartbeat_that_came_meanwhile_keeps_the_run(engine: Engine) -> None:
    run_id = _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        (gone,) = runs.expired(session, at(61))
        assert runs.heartbeat(session, run_id, "w", 60, at(62))
        assert runs.release(session, gone, at(63)) is ReleaseOutcome.KEPT


def test_two_reconcilers_release_a_run_once(engine: Engine) -> None:
    _create(engine)
    _claim(engine, 0)
    with writing(engine) as session:
        (gone,) = runs.expired(session, at(61))
        assert runs.release(session, gone, at(61)) is ReleaseOutcome.REQUEUED
        assert runs.release(session, gone, at(61)) is ReleaseOutcome.KEPT


def _claim_everything(url: str, owner: str, barrier: Any, answers: Any) -> None:
    engine = make_engine(url)
    barrier.wait(30)
    claimed = []
    while True:
        with writing(engine) as session:
            run = runs.claim(session, owner, 60, T0)
        if run is None:
            break
        claimed.append(run.id)
    answers.put((owner, claimed))


def test_processes_that_claim_at_once_share_the_runs_without_overlap(
    migrated_url: str, engine: Engine
) -> None:
    ids = [_create(engine, n, repo_id=n % 3) for n in range(24)]
    spawn = multiprocessing.get_context("spawn")
    barrier, answers = spawn.Barrier(3), spawn.Queue()
    children = [
        spawn.Process(target=_claim_everything, args=(migrated_url, f"w{n}", barrier, answers))
        for n in range(3)
    ]
    for child in children:
        child.start()
    shares = dict(answers.get(timeout=60) for _ in children)
    for child in children:
        child.join(30)
    assert Counter(run for share in shares.values() for run in share) == Counter(ids)
    for owner, share in shares.items():
        assert {get(engine, run_id).lease_owner for run_id in share} <= {owner}


class Leases(RuleBasedStateMachine):
    """Two workers and a reconciler on one run, with a model beside the database."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.run_id = _create(self.engine)
        self.now = 0.0
        self.state = RunState.QUEUED
        self.owner: str | None = None
        self.until = 0.0
        self.lost = 0
        self.cancelled = False

    def teardown(self) -> None:
        self.engine.dispose()

    def _moved(self, state: RunState) -> None:
        self.state = state
        if state is RunState.QUEUED or state in ENDED:
            self.owner = None

    @rule(seconds=st.integers(1, 50))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds

    @rule(owner=st.sampled_from(["a", "b"]))
    def claim(self, owner: str) -> None:
        got = _claim(self.engine, self.now, owner)
        assert (got is not None) == (self.state is RunState.QUEUED)
        if got is not None:
            self.owner, self.until = owner, self.now + 60
            self.state = RunState.CHECKOUT

    @rule(owner=st.sampled_from(["a", "b"]))
    def heartbeat(self, owner: str) -> None:
        with writing(self.engine) as session:
            goes_on = runs.heartbeat(session, self.run_id, owner, 60, at(self.now))
        assert goes_on == (owner == self.owner and not self.cancelled)
        if owner == self.owner:
            self.until = self.now + 60

    @rule(
        owner=st.sampled_from(["a", "b"]),
        event=st.sampled_from([RunEvent.ADVANCE, RunEvent.RELEASE, RunEvent.FAIL]),
    )
    @precondition(lambda self: self.state not in ENDED | {RunState.QUEUED, RunState.PUBLISH})
    def work(self, owner: str, event: RunEvent) -> None:
        with writing(self.engine) as session:
            moved = runs.transition(
                session, self.run_id, self.state, event, at(self.now), owner=owner
            )
        assert moved == (owner == self.owner)
        if moved:
            self._moved(next_state(self.state, event))

    @rule()
    def cancel(self) -> None:
        with writing(self.engine) as session:
            outcome = runs.request_cancel(session, self.run_id, "bob", at(self.now))
        if self.state in ENDED:
            assert outcome is CancelOutcome.NOT_ACTIVE
            return
        self.cancelled = True
        if self.state is RunState.QUEUED:
            self._moved(RunState.CANCELLED)

    @rule()
    def reconcile(self) -> None:
        with writing(self.engine) as session:
            gone = runs.expired(session, at(self.now))
            assert bool(gone) == (self.owner is not None and self.until < self.now)
            for run in gone:
                outcome = runs.release(session, run, at(self.now))
                self.lost += 1
                self._moved(self._expected_after_release())
                assert outcome is not ReleaseOutcome.KEPT

    def _expected_after_release(self) -> RunState:
        if self.cancelled:
            return RunState.CANCELLED
        return RunState.FAILED if self.lost >= runs.MAX_LOST_LEASES else RunState.QUEUED

    @invariant()
    def the_row_agrees(self) -> None:
        run = get(self.engine, self.run_id)
        assert (run.state, run.lease_owner, run.lost_leases) == (self.state, self.owner, self.lost)
        assert (run.cancel_requested_by == "bob") == self.cancelled


def test_workers_and_a_reconciler_never_disagree_with_the_model(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def fresh() -> Engine:
        engine = make_engine(f"sqlite:///{tmp_path_factory.mktemp('leases')}/drydock.db")
        upgrade(engine)
        return engine

    run_state_machine_as_test(
        lambda: Leases(fresh()),
        settings=settings(max_examples=15, stateful_step_count=25, deadline=None),
    )


def test_a_dead_owner_need_not_be_waited_for(engine: Engine) -> None:
    run_id = _create(engine)
    _claim(engine, 0)
    seen = get(engine, run_id)
    with writing(engine) as session:
        assert runs.release(session, seen, at(1)) is ReleaseOutcome.KEPT
        assert runs.release(session, seen, at(1), owner_is_dead=True) is ReleaseOutcome.REQUEUED
        assert runs.release(session, seen, at(1), owner_is_dead=True) is ReleaseOutcome.KEPT
    _claim(engine, 2, owner="other")
    with writing(engine) as session:
        assert runs.release(session, seen, at(3), owner_is_dead=True) is ReleaseOutcome.KEPT
        queued = runs.get(session, _create_in(session, 2))
        assert queued is not None
        assert runs.release(session, queued, at(3)) is ReleaseOutcome.KEPT


def _create_in(session: Session, issue: int) -> str:
    made = runs.create(session, new_run(issue), T0)
    assert isinstance(made, Run)
    return made.id


def test_workers_are_known_by_what_they_last_reported(engine: Engine) -> None:
    with writing(engine) as session:
        workers.report(session, "w1", provider="gvisor", now=at(0))
        workers.report(session, "w2", provider="gvisor", now=at(5), problem="runsc is missing")
        workers.report(session, "w1", provider="bubblewrap", now=at(10))
    with reading(engine) as session:
        assert [w.name for w in workers.seen_since(session, at(0))] == ["w1", "w2"]
        (latest,) = workers.seen_since(session, at(6))
    assert (latest.provider, latest.problem, latest.seen_at) == ("bubblewrap", "", at(10))
    with writing(engine) as session:
        workers.forget(session, at(6))
        assert len(workers.seen_since(session, at(0))) == 1
