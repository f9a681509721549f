from __future__ import annotations

import pytest

from app.repo_config import ConfigError
from app.report import GateFinding, RunReport, TestResult
from app.states import FailureKind, RunEvent
from tests.harbour.harbour import Harbour
from workers.dock import SetupFailed
from workers.outcome import AiderOutcome, OutcomeKind
from workers.record import Asked, Ending, Record
from workers.run import asked_of, fields_of, take_run
from workers.steps import config_trouble, note_setup

ASKED = Asked("run-1", "acme/ship", 3, "It leaks", "mona", "openai/m")


def report(record: Record) -> RunReport:
    return record.report(Ending(RunEvent.FAIL, FailureKind.SETUP, "no"))


def test_with_nothing_queued_a_worker_does_nothing(harbour: Harbour) -> None:
    take_run(harbour.services, "gone")
    assert harbour.runs_of(harbour.issue) == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConfigError("unknown key tests", 2, "test"), "line 2: unknown key tests; did you mean"),
        (ConfigError("the file is not UTF-8"), ".github/drydock.yml: the file is not UTF-8"),
    ],
)
def test_a_wrong_config_is_told_with_its_line(error: ConfigError, words: str) -> None:
    assert words in config_trouble(error)


def test_a_set_up_that_failed_is_no_test_result() -> None:
    record = Record(ASKED)
    failed = SetupFailed(TestResult("make deps", 2, 1.0, "no rule to make target"))
    ending = note_setup(record, failed)
    assert (ending.event, ending.kind) == (RunEvent.FAIL, FailureKind.SETUP)
    assert ending.detail == "make deps ended with exit status 2."
    assert report(record).log_tail == "no rule to make target"
    assert fields_of(report(record))["test_exit_code"] is None


def test_a_set_up_that_took_too_long_says_so() -> None:
    failed = SetupFailed(TestResult("make deps", None, 900.0, "", timed_out=True))
    assert note_setup(Record(ASKED), failed).detail == "make deps took too long."


def test_the_row_keeps_what_lists_and_sums_need() -> None:
    record = Record(ASKED)
    record.findings = (GateFinding("x", "y", "z"),)
    fields = fields_of(report(record))
    assert fields["failure_kind"] is FailureKind.SETUP
    assert fields["cost_usd"] is None
    assert fields["tier"] is None
    assert fields["report"]["outcome"] == "failed"  # type: ignore[index]


def test_the_runs_page_is_named_where_there_is_one(harbour: Harbour) -> None:
    harbour.labels()
    run = harbour.run_of()
    assert asked_of(run, harbour.services).run_url == f"{harbour.stage.web_url}/runs/{run.id}"


def test_outcomes_are_kinds() -> None:
    assert AiderOutcome(OutcomeKind.EDITED, 1).kind is OutcomeKind.EDITED


def test_a_second_run_of_the_same_work_gives_the_same_commits(harbour: Harbour) -> None:
    """So that a publish which is repeated pushes the same."""
    harbour.labels()
    head = harbour.run_of().head_sha
    assert head == harbour.pull_of().head_sha
    dates = harbour.repo.git.text("log", "-1", "--format=%at %ct", head or "").split()
    assert dates == [str(int(harbour.run_of().created_at.timestamp()))] * 2


def test_nothing_that_a_machine_gave_is_left_of_a_published_run(harbour: Harbour) -> None:
    harbour.labels()
    names = {path.name for path in harbour.folder_of(harbour.run_of()).iterdir()}
    assert names.isdisjoint({"in.bundle", "out.bundle", "quarantine.git"})
