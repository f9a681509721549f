"""Runs are counted by repository, person and pull request, without what is being decided about."""

from __future__ import annotations

from sqlalchemy import Engine

from app.store import Run, TargetKind, reading, runs, tallies, writing
from tests.app.store.helpers import T0, at, create


def follow_up(engine: Engine, pull: int, seconds: float, **changes: object) -> Run:
    """One that ended, so that the next may follow."""
    given = {"pull_number": pull, "target": TargetKind.PULL_REQUEST, **changes}
    run = create(engine, pull, seconds, **given)
    with writing(engine) as session:
        runs.request_cancel(session, run.id, "mona", at(seconds))
    return run


def test_an_hour_has_the_runs_that_were_created_in_it(engine: Engine) -> None:
    create(engine, 1, -60)
    create(engine, 2, 0)
    create(engine, 3, 60, asked_by_id=200)
    create(engine, 4, 60, repo_id=2)
    create(engine, 5, 60, trigger_delivery_id="this one")
    create(engine, 6, 60, undoes="01M8M9DR7RD44X975D4NT1WCSB")
    with reading(engine) as session:
        assert tallies.of_repo(session, 1, T0, "this one") == 2
        assert tallies.of_user(session, 100, T0, "this one") == 2
        assert tallies.of_user(session, 999, T0, "this one") == 0


def test_a_pull_requests_runs_come_newest_first(engine: Engine) -> None:
    first = follow_up(engine, 9, 1)
    second = follow_up(engine, 9, 2, trigger_delivery_id="ci-1")
    follow_up(engine, 8, 3)
    follow_up(engine, 9, 4, repo_id=2)
    with reading(engine) as session:
        assert [run.id for run in tallies.of_pull(session, 1, 9, "")] == [second.id, first.id]
        assert [run.id for run in tallies.of_pull(session, 1, 9, "ci-1")] == [first.id]


def test_a_commit_leads_to_the_run_that_made_it(engine: Engine) -> None:
    run = create(engine, 1)
    with writing(engine) as session:
        runs.update(session, run.id, T0, head_sha="a" * 40)
    with reading(engine) as session:
        found = tallies.of_head(session, 1, "a" * 40)
        assert found is not None
        assert found.id == run.id
        assert tallies.of_head(session, 2, "a" * 40) is None
        assert tallies.of_head(session, 1, "a" * 39) is None


def test_pull_requests_are_counted_once_each(engine: Engine) -> None:
    for issue, pull in ((1, 11), (2, 12), (3, None)):
        run = create(engine, issue)
        with writing(engine) as session:
            runs.update(session, run.id, T0, pull_number=pull)
    follow_up(engine, 20, 1)
    with reading(engine) as session:
        assert tallies.pulls_opened(session, 1, "") == 2
        assert tallies.pulls_opened(session, 2, "") == 0
