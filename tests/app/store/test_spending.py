from __future__ import annotations

from datetime import datetime

from sqlalchemy import Engine

from app.states import RunEvent, RunState
from app.store import Run, RunFields, reading, runs, spending, writing
from app.store.spending import Spent
from tests.app.store.helpers import T0, at, new_run


def began(engine: Engine, issue: int, now: datetime, **changes: object) -> Run:
    with writing(engine) as session:
        run = runs.create(session, new_run(issue, **changes), now)
        assert isinstance(run, Run)
        assert runs.claim(session, "worker", 60, now, run.id) is not None
    return run


def ended(
    engine: Engine, issue: int, cost: float | None, now: datetime = T0, **changes: object
) -> Run:
    run = began(engine, issue, now, **changes)
    with writing(engine) as session:
        fields = RunFields(cost_usd=cost)
        moved = runs.transition(session, run.id, RunState.CHECKOUT, RunEvent.CANCEL, now, **fields)
        assert moved
    return run


def test_a_days_cost_is_summed_by_repository_and_by_person(engine: Engine) -> None:
    ended(engine, 1, 1.0)
    ended(engine, 2, 2.0, asked_by_id=200)
    ended(engine, 3, 4.0, repo_id=2)
    ended(engine, 4, None)
    ended(engine, 5, 8.0, now=at(-60))
    with reading(engine) as session:
        assert spending.by_repo(session, 1, T0, "") == Spent(3.0, 0)
        assert spending.by_user(session, 100, T0, "") == Spent(5.0, 0)
        assert spending.by_user(session, 999, T0, "") == Spent(0.0, 0)


def test_what_a_lost_attempt_spent_counts_while_the_run_waits_for_the_next(engine: Engine) -> None:
    lost = began(engine, 1, T0)
    with writing(engine) as session:
        runs.update(session, lost.id, T0, cost_usd=1.5)
        seen = runs.get(session, lost.id)
        assert seen is not None
        runs.release(session, seen, T0, owner_is_dead=True)
    with reading(engine) as session:
        assert spending.by_repo(session, 1, T0, "") == Spent(1.5, 0)
        assert spending.by_repo(session, 1, T0, lost.id) == Spent(0.0, 0)


def test_runs_under_way_are_counted_and_the_one_that_asks_is_not(engine: Engine) -> None:
    own = began(engine, 1, T0)
    began(engine, 2, T0)
    began(engine, 3, T0, repo_id=2)
    with writing(engine) as session:
        runs.create(session, new_run(4), T0)  # waits, and so costs nothing yet
    with reading(engine) as session:
        assert spending.by_repo(session, 1, T0, own.id) == Spent(0.0, 1)
        assert spending.by_user(session, 100, T0, own.id) == Spent(0.0, 2)
