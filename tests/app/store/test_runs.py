from __future__ import annotations

import threading

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.exc import IntegrityError

from app.states import (
    ENDED,
    PHASES,
    TRANSITIONS,
    FailureKind,
    IllegalTransition,
    RunEvent,
    RunState,
)
from app.store import (
    AlreadyActive,
    AlreadyCreated,
    Run,
    attempts,
    make_engine,
    reading,
    runs,
    writing,
)
from app.store.models import RunRow
from app.store.transitions import LOG_TEXT_LIMIT, locked, move
from tests.app.store.helpers import T0, at, create, get, new_run


def _put_in(engine: Engine, run_id: str, state: RunState) -> None:
    """Put a run straight into a state, past the table."""
    with writing(engine) as session:
        row = locked(session, run_id)
        assert row is not None
        if state is not RunState.QUEUED:
            move(session, row, state, T0)


def test_a_new_run_waits_with_what_was_asked(engine: Engine) -> None:
    run = create(engine, instruction="be brief", base_sha="a" * 40)
    assert run == get(engine, run.id)
    assert (run.state, run.attempt, run.created_at) == (RunState.QUEUED, 0, T0)
    assert (run.instruction, run.base_sha, run.asked_by) == ("be brief", "a" * 40, "ada")
    assert (run.report, run.seconds_by_phase, run.ended_at) == (None, {}, None)


def test_ids_sort_by_time(engine: Engine) -> None:
    ids = [create(engine, issue, seconds=issue).id for issue in (1, 2, 3)]
    assert ids == sorted(ids)
    assert {len(run_id) for run_id in ids} == {26}


def test_an_issue_has_one_active_run(engine: Engine) -> None:
    first = create(engine)
    with writing(engine) as session:
        assert runs.create(session, new_run(), at(1)) == AlreadyActive(first.id)
        active = runs.active_for(session, 1, 1)
        assert active is not None
        assert active.id == first.id
    create(engine, issue=2)
    create(engine, repo_id=2)


def test_an_issue_may_run_again_when_its_run_has_ended(engine: Engine) -> None:
    first = create(engine)
    with writing(engine) as session:
        assert runs.transition(session, first.id, RunState.QUEUED, RunEvent.CANCEL, at(1))
        assert runs.active_for(session, 1, 1) is None
    second = create(engine, seconds=2)
    with reading(engine) as session:
        assert runs.latest_for(session, 1, 1) == second


def test_one_run_may_follow_another_that_was_told_to_stop_and_only_one(engine: Engine) -> None:
    first = create(engine)
    with writing(engine) as session:
        assert runs.claim(session, "w", 60, at(1)) is not None
        runs.request_cancel(session, first.id, "mona", at(2))
        assert runs.active_for(session, 1, 1) is None
        assert runs.latest_for(session, 1, 1) == runs.get(session, first.id)
    second = create(engine, seconds=3)
    with writing(engine) as session:
        assert runs.create(session, new_run(), at(4)) == AlreadyActive(second.id)
        assert runs.active_for(session, 1, 1) == second
        assert [run.id for run in runs.active(session)] == [first.id, second.id]


def test_a_repeated_delivery_finds_the_run_it_started_even_when_that_has_ended(
    engine: Engine,
) -> None:
    first = create(engine, trigger_delivery_id="d-1")
    again = new_run(trigger_delivery_id="d-1")
    with writing(engine) as session:
        assert runs.create(session, again, at(1)) == AlreadyCreated(first)
        runs.transition(session, first.id, RunState.QUEUED, RunEvent.CANCEL, at(2))
    with writing(engine) as session:
        found = runs.create(session, again, at(3))
    assert isinstance(found, AlreadyCreated)
    assert found.run.state is RunState.CANCELLED


def test_a_delivery_may_start_one_run_for_each_of_its_commands(engine: Engine) -> None:
    create(engine, 1, trigger_delivery_id="d-1", trigger_index=0)
    create(engine, 2, trigger_delivery_id="d-1", trigger_index=1)


def test_threads_that_ask_at_once_get_one_run(engine: Engine) -> None:
    barrier, answers = threading.Barrier(4), []

    def ask(number: int) -> None:
        barrier.wait(10)
        with writing(engine) as session:
            answers.append(runs.create(session, new_run(trigger_delivery_id=f"d-{number % 2}"), T0))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [a for a in answers if isinstance(a, Run)]
    assert len(answers) == 4
    assert len(made) == 1


def test_the_database_itself_refuses_a_second_active_run(engine: Engine) -> None:
    first = create(engine)
    columns = {name: getattr(first, name) for name in RunRow.__table__.columns.keys()}  # noqa: SIM118
    second = RunRow(**{**columns, "id": "another"})
    with pytest.raises(IntegrityError), writing(engine) as session:
        session.add(second)


def test_the_database_itself_refuses_an_end_without_its_time(engine: Engine) -> None:
    first = create(engine)
    end = update(RunRow).where(RunRow.id == first.id).values(state=RunState.FAILED)
    with pytest.raises(IntegrityError), writing(engine) as session:
        session.execute(end)


@pytest.mark.parametrize("state", list(RunState))
def test_a_run_moves_by_the_table_and_by_nothing_else(
    sqlite_engine: Engine, state: RunState
) -> None:
    for number, event in enumerate(set(RunEvent) - {RunEvent.CLAIM}):
        run = create(sqlite_engine, issue=number)
        _put_in(sqlite_engine, run.id, state)
        following = TRANSITIONS[state].get(event)
        with writing(sqlite_engine) as session:
            if following is None:
                with pytest.raises(IllegalTransition):
                    runs.transition(session, run.id, state, event, at(1))
            else:
                assert runs.transition(session, run.id, state, event, at(1))
        moved = get(sqlite_engine, run.id)
        assert moved.state is (following or state)
        assert (moved.ended_at is not None) == (moved.state in ENDED)


def test_a_run_that_moved_meanwhile_is_not_moved_again(engine: Engine) -> None:
    run = create(engine)
    _put_in(engine, run.id, RunState.AGENT)
    with writing(engine) as session:
        assert runs.transition(session, run.id, RunState.AGENT, RunEvent.ADVANCE, at(1))
        assert not runs.transition(
            session, run.id, RunState.AGENT, RunEvent.ADVANCE, at(2), detail="late"
        )
    assert (get(engine, run.id).state, get(engine, run.id).detail) == (RunState.VERIFY, "")


def test_a_run_that_is_gone_is_not_moved(engine: Engine) -> None:
    with writing(engine) as session:
        assert not runs.transition(session, "none", RunState.QUEUED, RunEvent.CANCEL, T0)
        assert not runs.update(session, "none", T0, branch="b")
        assert not runs.log(session, "none", "note", "x", T0)


def test_claiming_is_not_a_transition_for_callers(engine: Engine) -> None:
    run = create(engine)
    with writing(engine) as session, pytest.raises(ValueError, match=r"runs\.claim"):
        runs.transition(session, run.id, RunState.QUEUED, RunEvent.CLAIM, T0)


def test_fields_are_written_with_the_move(engine: Engine) -> None:
    run = create(engine)
    with writing(engine) as session:
        runs.transition(
            session,
            run.id,
            RunState.QUEUED,
            RunEvent.FAIL,
            at(5),
            failure_kind=FailureKind.GITHUB,
            detail="no access",
            report={"files": ["a"], "cost": 0.5},
        )
    ended = get(engine, run.id)
    assert (ended.failure_kind, ended.detail) == (FailureKind.GITHUB, "no access")
    assert ended.report == {"files": ["a"], "cost": 0.5}
    assert ended.ended_at == at(5)


def test_fields_are_written_without_a_move(engine: Engine) -> None:
    run = create(engine)
    with writing(engine) as session:
        assert runs.update(session, run.id, at(3), status_comment_id=2**40, cost_usd=0.25)
    found = get(engine, run.id)
    assert (found.status_comment_id, found.cost_usd, found.updated_at) == (2**40, 0.25, at(3))


def test_a_field_that_only_the_store_keeps_is_refused(engine: Engine) -> None:
    run = create(engine)
    with writing(engine) as session, pytest.raises(TypeError, match="lease_owner"):
        runs.update(session, run.id, T0, lease_owner="me")  # type: ignore[call-arg]


def test_text_that_a_database_cannot_hold_is_stored_with_a_mark(engine: Engine) -> None:
    run = create(engine, issue_title="a\x00b\ud800c")
    with writing(engine) as session:
        runs.update(session, run.id, T0, detail="\x00")
        runs.log(session, run.id, "note", "x\x00", T0)
    assert get(engine, run.id).issue_title == "a�b?c"


def test_seconds_are_kept_by_phase_and_add_up_over_attempts(engine: Engine) -> None:
    run = create(engine)
    now = 10.0
    with writing(engine) as session:
        for _ in range(2):
            assert runs.claim(session, "w", 60, at(now))
            runs.transition(session, run.id, RunState.CHECKOUT, RunEvent.RELEASE, at(now + 2.5))
            now += 10
    assert get(engine, run.id).seconds_by_phase == {"queued": 17.5, "checkout": 5.0}


def test_a_clock_that_steps_back_counts_nothing(engine: Engine) -> None:
    run = create(engine, seconds=100)
    with writing(engine) as session:
        runs.claim(session, "w", 60, at(50))
    assert get(engine, run.id).seconds_by_phase == {"queued": 0.0}


def test_the_whole_way_is_in_the_log(engine: Engine) -> None:
    run = create(engine)
    with writing(engine) as session:
        runs.claim(session, "w", 60, at(1))
        for state in PHASES[:-1]:
            assert runs.transition(session, run.id, state, RunEvent.ADVANCE, at(2), owner="w")
        runs.log(session, run.id, "note", "pushed", at(3))
        runs.transition(session, run.id, RunState.PUBLISH, RunEvent.PUBLISH, at(4), owner="w")
    with reading(engine) as session:
        lines = runs.log_entries(session, run.id)
        assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
        assert [line.text for line in lines][:3] == [
            "queued by ada",
            "queued → checkout",
            "checkout → machine",
        ]
        assert [line.text for line in runs.log_entries(session, run.id, after_seq=8)] == [
            "pushed",
            "publish → published",
        ]


def test_a_long_line_is_cut_and_says_so(engine: Engine) -> None:
    run = create(engine)
    with writing(engine) as session:
        runs.log(session, run.id, "output", "x" * (LOG_TEXT_LIMIT + 5), T0)
        line = runs.log_entries(session, run.id)[-1]
    assert line.text.endswith("[… 5 more characters]")


def test_a_run_is_found_by_the_beginning_or_the_end_of_its_id(engine: Engine) -> None:
    one, other = create(engine, 1), create(engine, 2, seconds=10**6)
    with reading(engine) as session:
        assert runs.named(session, one.id) == (one,)
        assert runs.named(session, other.id[:25]) == (other,)
        assert runs.named(session, one.id[-8:]) == (one,)
        assert runs.named(session, "0") == (other, one)
        assert runs.named(session, "%") == ()
        assert runs.named(session, "x") == ()


def test_recent_runs_come_newest_first(engine: Engine) -> None:
    ids = [create(engine, n, seconds=n, repo_id=n % 2).id for n in range(4)]
    with reading(engine) as session:
        assert [r.id for r in runs.recent(session)] == ids[::-1]
        assert [r.id for r in runs.recent(session, limit=1, repo_id=0)] == [ids[2]]


def test_a_pull_request_leads_back_to_its_newest_run(engine: Engine) -> None:
    first = create(engine)
    with writing(engine) as session:
        runs.update(session, first.id, T0, pull_number=9)
    second = create(engine, 9, seconds=1, pull_number=9)
    with reading(engine) as session:
        assert runs.by_pull(session, 1, 9) == second
        assert runs.by_pull(session, 2, 9) is None


def test_runs_are_counted_and_summed(engine: Engine) -> None:
    for issue in (1, 2):
        run = create(engine, issue)
        with writing(engine) as session:
            runs.update(session, run.id, T0, cost_usd=0.5, input_tokens=10, refusals=1)
    with reading(engine) as session:
        assert runs.counts(session)[RunState.QUEUED] == 2
        assert runs.counts(session)[RunState.FAILED] == 0
        totals = runs.totals(session)
    assert (totals["cost_usd"], totals["input_tokens"], totals["refusals"]) == (1.0, 20.0, 2.0)


def test_machines_lead_back_to_their_runs(engine: Engine) -> None:
    run = create(engine)
    with writing(engine) as session:
        attempts.start(
            session, run.id, 1, machine_id="m-1", provider="fake", receipt={"t": 1}, now=T0
        )
        attempts.start(session, run.id, 1, machine_id="m-2", provider="fake", receipt={}, now=at(1))
        assert attempts.end(session, run.id, 1, "done", at(2))
        assert not attempts.end(session, run.id, 1, "again", at(3))
        assert not attempts.end(session, run.id, 2, "never was", at(3))
    with reading(engine) as session:
        assert attempts.by_machine(session, "m-1") is None
        found = attempts.by_machine(session, "m-2")
        assert found is not None
        assert (found.run_id, found.outcome, found.ended_at) == (run.id, "done", at(2))
        assert attempts.of_run(session, run.id) == (found,)


def test_another_process_sees_what_was_committed(migrated_url: str, engine: Engine) -> None:
    run = create(engine)
    other = make_engine(migrated_url)
    assert get(other, run.id) == run
    other.dispose()


def test_active_runs_are_those_that_have_not_ended(engine: Engine) -> None:
    ids = [create(engine, n, seconds=n).id for n in range(3)]
    with writing(engine) as session:
        runs.transition(session, ids[0], RunState.QUEUED, RunEvent.CANCEL, at(9))
        runs.claim(session, "w", 60, at(9))
        assert [run.id for run in runs.active(session)] == ids[1:]


def test_a_run_knows_the_inline_comments_that_it_answers(engine: Engine) -> None:
    remark = {"comment_id": 5, "path": "a\0b.py", "line": None}
    run = create(engine, remarks=(remark,))
    assert list(run.remarks) == [{"comment_id": 5, "path": "a\ufffdb.py", "line": None}]
    assert list(create(engine, issue=2).remarks) == []


class TestUndoable:
    def _published(self, engine: Engine, seconds: float, **changes: object) -> Run:
        run = create(engine, seconds=seconds, **{"pull_number": 9, "branch": "b", **changes})
        _put_in(engine, run.id, RunState.PUBLISHED)
        return run

    def _undoable(self, engine: Engine) -> str | None:
        with reading(engine) as session:
            found = runs.undoable(session, 1, 9, "b")
        return found.id if found is not None else None

    def test_it_is_the_newest_push_that_was_not_taken_back(self, engine: Engine) -> None:
        assert self._undoable(engine) is None
        first = self._published(engine, 1)
        second = self._published(engine, 2)
        assert self._undoable(engine) == second.id
        self._published(engine, 3, undoes=second.id)
        assert self._undoable(engine) == first.id
        self._published(engine, 4, undoes=first.id)
        assert self._undoable(engine) is None

    def test_what_came_after_an_undo_counts_again(self, engine: Engine) -> None:
        first = self._published(engine, 1)
        self._published(engine, 2, undoes=first.id)
        third = self._published(engine, 3)
        assert self._undoable(engine) == third.id

    def test_commits_that_lie_aside_changed_nothing_here(self, engine: Engine) -> None:
        first = self._published(engine, 1)
        self._published(engine, 2, branch="b-2")
        self._published(engine, 3, pull_number=10)
        assert self._undoable(engine) == first.id

    def test_a_run_that_failed_pushed_nothing(self, engine: Engine) -> None:
        first = self._published(engine, 1)
        failed = create(engine, seconds=2, pull_number=9, branch="b")
        _put_in(engine, failed.id, RunState.FAILED)
        assert self._undoable(engine) == first.id
