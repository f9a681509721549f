from __future__ import annotations

import pytest

from app.states import RunEvent, RunState
from app.store import NewRun, Run, make_engine, runs, upgrade, writing
from tests.app.store.helpers import at
from workers.record import Asked, Ending, Record
from workers.reports import as_json, cancelled_by, report_of_row


@pytest.fixture
def run(tmp_path) -> Run:  # type: ignore[no-untyped-def]
    engine = make_engine(f"sqlite:///{tmp_path}/x.db")
    upgrade(engine)
    new = NewRun(
        repo_id=1,
        repo="acme/ship",
        installation_id=7,
        issue_number=3,
        issue_title="It leaks",
        asked_by="mona",
        asked_by_id=9,
    )
    with writing(engine) as session:
        made = runs.create(session, new, at(0))
        assert isinstance(made, Run)
        runs.request_cancel(session, made.id, "ada", at(1))
        ended = runs.get(session, made.id)
    engine.dispose()
    assert ended is not None
    return ended


def with_report(run: Run, event: RunEvent) -> Run:
    from dataclasses import replace

    asked = Asked(run.id, run.repo, 3, "It leaks", "mona", "openai/m")
    return replace(run, report=as_json(Record(asked).report(Ending(event, detail="stored"))))


def test_a_run_that_nobody_drove_is_told_from_its_row(run: Run) -> None:
    report = report_of_row(run)
    assert (report.outcome, report.repo, report.asked_by) == (
        RunState.CANCELLED,
        "acme/ship",
        "mona",
    )
    assert report.detail == "Asked for by ada."


def test_the_stored_report_counts_where_it_tells_of_this_ending(run: Run) -> None:
    assert report_of_row(with_report(run, RunEvent.CANCEL)).detail == "stored"


def test_a_report_that_was_stored_before_the_run_ended_otherwise_does_not_count(run: Run) -> None:
    """The gate's, say, of a run whose workers were lost before it was published."""
    assert report_of_row(with_report(run, RunEvent.PUBLISH)).outcome is RunState.CANCELLED


def test_nobody_asked_is_no_words() -> None:
    assert cancelled_by(None) == ""
