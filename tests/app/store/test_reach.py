"""Runs of what the App cannot reach end at once, and are told of once it can."""

from __future__ import annotations

from sqlalchemy import Engine

from app.states import FailureKind, RunEvent, RunState
from app.store import Run, reach, runs, writing
from tests.app.store.helpers import T0, at, create, get

REASON = "acme/ship was taken away from the App by mona."


def goes_away(engine: Engine, run: Run, repo_ids: set[int] | None, until: float = 5) -> int:
    with writing(engine) as session:
        ended = reach.end_away(
            *(session, run.installation_id, repo_ids, "mona", REASON), until=at(until), now=at(9)
        )
    return len(ended)


def test_a_queued_run_is_cancelled_and_nobody_is_to_tell_it(engine: Engine) -> None:
    run = create(engine, 1)
    assert goes_away(engine, run, {run.repo_id}) == 1
    after = get(engine, run.id)
    assert (after.state, after.detail, after.away) == (RunState.CANCELLED, REASON, True)
    assert (after.told_at, after.tell_at) == (None, None)


def test_one_under_way_is_told_to_stop(engine: Engine) -> None:
    run = create(engine, 1)
    with writing(engine) as session:
        runs.claim(session, "worker", 60, T0, run.id)
    goes_away(engine, run, None)
    after = get(engine, run.id)
    assert (after.state, after.cancel_requested_by) == (RunState.CHECKOUT, "mona")
    assert after.away
    with writing(engine) as session:
        assert not runs.heartbeat(session, run.id, "worker", 60, at(10))


def test_others_go_on(engine: Engine) -> None:
    run = create(engine, 1)
    others = [
        create(engine, 2, repo_id=2),
        create(engine, 3, 6),
        create(engine, 4, installation_id=run.installation_id + 1),
    ]
    goes_away(engine, run, {run.repo_id})
    assert all(get(engine, other.id).state is RunState.QUEUED for other in others)


def test_what_is_back_is_told_through_the_new_installation(engine: Engine) -> None:
    run = create(engine, 1)
    goes_away(engine, run, None)
    with writing(engine) as session:
        assert reach.bring_back(session, 77, {run.repo_id}, at(20)) == 1
    after = get(engine, run.id)
    assert (after.away, after.installation_id, after.tell_at) == (False, 77, at(20))
    with writing(engine) as session:
        runs.mark_told(session, run.id, at(21))
        assert reach.bring_back(session, 77, {run.repo_id}, at(30)) == 0


def test_so_is_a_run_that_found_out_by_itself(engine: Engine) -> None:
    run = create(engine, 1)
    with writing(engine) as session:
        runs.claim(session, "worker", 60, T0, run.id)
        runs.transition(
            *(session, run.id, RunState.CHECKOUT, RunEvent.FAIL, at(3)),
            failure_kind=FailureKind.GITHUB,
        )
        runs.mark_untold(session, run.id, None)
        assert reach.bring_back(session, run.installation_id, None, at(20)) == 1
    assert get(engine, run.id).tell_at == at(20)
