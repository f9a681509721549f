"""The plan that heals what was forgotten, as a function; and that one failure stops no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.provider import MachineInfo, ProviderFailed
from sandbox.providers.fake import FakeProvider
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour
from workers.reconcile import (
    DELIVERY_PATIENCE_S,
    LONGEST_PATIENCE_S,
    PLACES_AT_ONCE,
    QUEUED_PATIENCE_S,
    DeliverySeen,
    MachineSeen,
    Plan,
    RunSeen,
    delivery_patience,
    plan,
    reconcile,
)

NOW = 1_000_000.0
DEAD = "host/boot/1/1"
LIVING = "host/boot/2/2"


def is_dead(owner: str) -> bool:
    return owner == DEAD


def driven(id_: str = "r1", owner: str = LIVING, until: float | None = NOW + 20) -> RunSeen:
    return RunSeen(id_, queued=False, updated_at=NOW, lease_owner=owner, lease_until=until)


def queued(id_: str = "r1", since: float = NOW) -> RunSeen:
    return RunSeen(id_, queued=True, updated_at=since, lease_owner=None, lease_until=None)


def test_where_all_is_well_there_is_nothing_to_do() -> None:
    made = plan([driven(), queued("r2")], [MachineSeen("m1", "r1")], [], NOW, is_dead)
    assert made == Plan()
    assert not made


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(driven(until=NOW - 0.1), id="its lease ran out"),
        pytest.param(driven(until=None), id="it has no lease"),
        pytest.param(driven(owner=DEAD), id="its owner is dead"),
    ],
)
def test_an_abandoned_run_is_released_its_machine_reaped_and_it_is_enqueued(run: RunSeen) -> None:
    made = plan([run], [MachineSeen("m1", "r1")], [], NOW, is_dead)
    assert made == Plan(release_runs=("r1",), reap_runs=("r1",), enqueue_runs=("r1",))


def test_a_machine_whose_run_is_unknown_or_waits_is_reaped_once() -> None:
    machines = [MachineSeen("m1", "gone"), MachineSeen("m2", "gone"), MachineSeen("m3", "r1")]
    assert plan([queued()], machines, [], NOW, is_dead).reap_runs == ("gone", "r1")


def test_a_machine_that_waits_for_a_run_is_left_to_its_worker() -> None:
    waiting = MachineSeen("m1", "", waits=True)
    assert plan([], [waiting], [], NOW, is_dead).reap_runs == ()


def test_a_queued_run_is_enqueued_again_once_its_message_must_be_lost() -> None:
    fresh, old = queued("fresh", NOW - 1), queued("old", NOW - QUEUED_PATIENCE_S - 1)
    assert plan([fresh, old], [], [], NOW, is_dead).enqueue_runs == ("old",)


@pytest.mark.parametrize(
    ("place", "told", "waited", "due"),
    [(2, 2, 60, False), (1, 2, 0, True), (3, 2, 0, True), (1, None, 1, False), (1, None, 11, True)],
)
def test_a_place_in_the_queue_is_told_when_it_is_another(
    place: int, told: int | None, waited: float, due: bool
) -> None:
    run = replace(queued(since=NOW - waited), place=place, told_place=told)
    assert plan([run], [], [], NOW, is_dead).tell_places == ((("r1", place),) if due else ())


def test_only_some_places_are_told_at_one_look() -> None:
    waiting = [replace(queued(f"r{n}"), place=n, told_place=n + 1) for n in range(1, 40)]
    told = plan(waiting, [], [], NOW, is_dead).tell_places
    assert told == tuple((f"r{n}", n) for n in range(1, PLACES_AT_ONCE + 1))


@pytest.mark.parametrize(
    ("tries", "waited", "due"),
    [(0, 9, False), (0, 11, True), (1, 19, False), (1, 21, True), (9, 599, False), (9, 601, True)],
)
def test_a_delivery_is_enqueued_again_less_often_the_more_it_was_tried(
    tries: int, waited: float, due: bool
) -> None:
    made = plan([], [], [DeliverySeen("d", NOW - waited, tries)], NOW, is_dead)
    assert made.enqueue_deliveries == (("d",) if due else ())


@given(st.integers(0, 10_000))
def test_patience_grows_and_is_bounded(tries: int) -> None:
    assert DELIVERY_PATIENCE_S <= delivery_patience(tries) <= LONGEST_PATIENCE_S
    assert delivery_patience(tries) <= delivery_patience(tries + 1)


ids = st.sampled_from(["a", "b", "c", "d"])
run_facts = st.builds(
    RunSeen,
    id=ids,
    queued=st.booleans(),
    updated_at=st.floats(NOW - 100, NOW),
    lease_owner=st.sampled_from([None, DEAD, LIVING]),
    lease_until=st.one_of(st.none(), st.floats(NOW - 100, NOW + 100)),
)
machine_facts = st.builds(MachineSeen, id=st.text(max_size=3), run_id=ids, waits=st.booleans())
delivery_facts = st.builds(
    DeliverySeen, id=ids, touched_at=st.floats(NOW - 1000, NOW), tries=st.integers(0, 20)
)


@given(
    st.lists(run_facts, unique_by=lambda run: run.id),
    st.lists(machine_facts),
    st.lists(delivery_facts, unique_by=lambda delivery: delivery.id),
)
def test_whatever_there_is_the_plan_keeps_its_promises(
    runs: list[RunSeen], machines: list[MachineSeen], deliveries: list[DeliverySeen]
) -> None:
    made = plan(runs, machines, deliveries, NOW, is_dead)
    by_id = {run.id: run for run in runs}
    safe = {
        run.id
        for run in runs
        if not run.queued and run.lease_owner == LIVING and (run.lease_until or 0) >= NOW
    }
    assert safe.isdisjoint({*made.release_runs, *made.reap_runs, *made.enqueue_runs})
    assert not any(by_id[run_id].queued for run_id in made.release_runs)
    assert set(made.release_runs) <= set(made.enqueue_runs)
    loose = {m.run_id for m in machines if not m.waits}
    still_driven = {run.id for run in runs if not run.queued} - set(made.release_runs)
    assert set(made.reap_runs) == loose - still_driven
    for listed in (made.release_runs, made.reap_runs, made.enqueue_runs, made.enqueue_deliveries):
        assert len(set(listed)) == len(listed)


def test_endings_that_are_due_are_told() -> None:
    assert plan([], [], [], NOW, is_dead, ["r1", "r2"]).tell_runs == ("r1", "r2")


# --- applying it ------------------------------------------------------------------------------


class Unwilling(FakeProvider):
    """A host whose machines can be neither listed nor ended."""

    def list(self) -> list[MachineInfo]:
        raise ProviderFailed("machine.json is not a machine's record")

    def reap(self, run_id: str) -> int:
        raise ProviderFailed(f"a process of {run_id} cannot be killed")


class Unending(FakeProvider):
    def list(self) -> list[MachineInfo]:
        return [MachineInfo("m1", "gone", "fake", 1, alive=True, created_at=0.0)]

    def reap(self, run_id: str) -> int:
        raise ProviderFailed(f"a process of {run_id} cannot be killed")


@pytest.mark.parametrize("kind", [Unwilling, Unending])
def test_a_provider_that_fails_keeps_nothing_else_from_being_healed(
    make_harbour: MakeHarbour, tmp_path: Path, kind: type[FakeProvider]
) -> None:
    harbour = make_harbour()
    harbour.tasks.is_down = True
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    harbour.tasks.is_down = False
    broken = replace(harbour.services, make=lambda: kind(tmp_path))
    reconcile(replace(broken, clock=later(harbour, 60)))
    harbour.settle()
    assert harbour.run_of().state == "published"


def later(harbour: Harbour, seconds: float):  # type: ignore[no-untyped-def]
    from datetime import timedelta

    return lambda: harbour.services.clock() + timedelta(seconds=seconds)


def test_a_queue_that_is_away_is_tried_at_the_next_look(harbour: Harbour) -> None:
    harbour.tasks.is_down = True
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    assert harbour.plans(later=60).enqueue_deliveries != ()
    assert harbour.runs_of(harbour.issue) == []
    harbour.tasks.is_down = False
    harbour.looks_again(later=120)
    assert harbour.run_of().state == "published"


def test_bodies_that_nobody_needs_any_more_are_dropped(harbour: Harbour) -> None:
    harbour.mona.comments(harbour.issue, "/aider help")
    harbour.settle()
    guid = next(d.guid for d in harbour.github.deliveries if d.event == "issue_comment")
    days = harbour.settings.keep_bodies_days
    harbour.plans(later=(days - 1) * 86_400)
    assert harbour.delivery_of(guid).body
    harbour.plans(later=(days + 1) * 86_400)
    kept = harbour.delivery_of(guid)
    assert (kept.body, kept.state) == (b"", "processed")
