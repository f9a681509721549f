from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.states import RunEvent, RunState
from app.store import Run, attempts, make_engine, reading, runs, upgrade, writing
from sandbox.provider import Receipt, Sandbox
from tests.app.store.helpers import at, get, new_run
from workers.journal import Journal, LostRun
from workers.record import Asked, Record
from workers.services import Patience, Services


@dataclass
class Machine:
    """As much of a sandbox as a journal needs."""

    id: str = "m-1"
    tier: str = "fake"
    killed: bool = False
    receipt: Receipt = field(default_factory=lambda: Receipt("fake", "d" * 64, 0.0, {"a": "b"}))

    def kill(self) -> None:
        self.killed = True

    def as_sandbox(self) -> Sandbox:
        return cast(Sandbox, self)


@dataclass
class Desk:
    """A claimed run, and its journal."""

    services: Services
    run: Run
    told: list[RunState]
    record: Record
    journal: Journal

    def row(self) -> Run:
        return get(self.services.engine, self.run.id)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    engine = make_engine(f"sqlite:///{tmp_path}/x.db")
    upgrade(engine)
    with writing(engine) as session:
        runs.create(session, new_run(), at(0))
        run = runs.claim(session, "me", 60, at(1))
    assert run is not None
    values = SimpleNamespace(
        engine=engine, clock=lambda: at(2), patience=Patience(0, 0), wait=threading.Event.wait
    )
    services = cast(Services, values)
    told: list[RunState] = []
    record = Record(Asked(run.id, run.repo, 1, "x", "ada", "m"))
    journal = Journal(services, run, "me", record, tmp_path, told.append)
    yield Desk(services, run, told, record, journal)
    engine.dispose()


def taken_away(desk: Desk) -> None:
    with writing(desk.services.engine) as session:
        assert runs.release(session, desk.row(), at(1000)) == "requeued"
        assert runs.claim(session, "somebody else", 60, at(1001)) is not None


def test_entering_a_phase_passes_through_those_between(desk: Desk) -> None:
    desk.journal.enter(RunState.AGENT)
    assert desk.row().state is RunState.AGENT
    assert desk.told == [RunState.AGENT]
    with reading(desk.services.engine) as session:
        lines = [e.text for e in runs.log_entries(session, desk.run.id) if e.kind == "state"]
    assert lines[-3:] == ["checkout → machine", "machine → setup", "setup → agent"]
    assert set(desk.record.seconds) == {"checkout", "machine", "setup"}


@pytest.mark.parametrize("step", ["enter", "note", "close"])
def test_a_run_that_is_somebody_elses_is_not_touched(desk: Desk, step: str) -> None:
    taken_away(desk)
    before = desk.row()
    steps: dict[str, Any] = {
        "enter": lambda: desk.journal.enter(RunState.MACHINE),
        "note": lambda: desk.journal.note(branch="aider/x"),
        "close": lambda: desk.journal.close(RunEvent.FAIL, {}),
    }
    with pytest.raises(LostRun):
        steps[step]()
    assert desk.row() == before
    assert desk.told == []


def test_a_machine_is_written_down_with_its_receipt(desk: Desk) -> None:
    desk.journal.opened(Machine().as_sandbox())
    with reading(desk.services.engine) as session:
        (attempt,) = attempts.of_run(session, desk.run.id)
    assert (attempt.machine_id, attempt.provider) == ("m-1", "fake")
    assert attempt.receipt == {"template": "d" * 64, "a": "b"}
    desk.journal.end_attempt(RunState.PUBLISHED)
    with reading(desk.services.engine) as session:
        assert attempts.of_run(session, desk.run.id)[0].outcome == "published"


def test_a_stop_kills_the_machine_and_lets_no_phase_begin(desk: Desk) -> None:
    machine = Machine()
    desk.journal.opened(machine.as_sandbox())
    desk.journal.stop()
    assert machine.killed
    with pytest.raises(LostRun):
        desk.journal.enter(RunState.AGENT)
    assert desk.row().state is RunState.CHECKOUT


def test_a_stop_that_came_while_the_machine_was_made_is_not_forgotten(desk: Desk) -> None:
    desk.journal.stop()
    with pytest.raises(LostRun):
        desk.journal.opened(Machine().as_sandbox())


def test_a_stop_ends_a_pause(desk: Desk) -> None:
    threading.Timer(0.05, desk.journal.stop).start()
    with pytest.raises(LostRun):
        desk.journal.pause(60)


def test_a_stopped_run_can_still_be_closed(desk: Desk) -> None:
    desk.journal.stop()
    desk.journal.close(RunEvent.CANCEL, {"detail": "Asked for by ada."})
    row = desk.row()
    assert (row.state, row.detail) == (RunState.CANCELLED, "Asked for by ada.")
    assert row.tell_at is not None


def test_aiders_words_go_to_a_file_and_other_lines_to_the_log(desk: Desk, tmp_path: Path) -> None:
    desk.journal.say("aider.stdout", "Thinking…\n")
    desk.journal.say("setup", "make deps: exit status 0")
    assert (tmp_path / "aider.log").read_text() == "Thinking…\n"
    with reading(desk.services.engine) as session:
        kinds = [entry.kind for entry in runs.log_entries(session, desk.run.id)]
    assert kinds[-1] == "setup"
