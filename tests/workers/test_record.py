from __future__ import annotations

from dataclasses import fields, replace

from app.report import (
    CommitSummary,
    GateFinding,
    RefusalLine,
    RunReport,
    Spending,
    Suggestion,
    TestResult,
)
from app.states import ENDED, FailureKind, RunEvent, RunState
from workers.account import Account
from workers.record import ENDING_STATES, Asked, Ending, Record
from workers.reports import as_json, from_json

ASKED = Asked("run-1", "acme/ship", 3, "It leaks", "mona", "openai/m", "mend it", "http://x/run-1")


def full_record() -> Record:
    record = Record(ASKED, base_ref="main", base_sha="1" * 40, brief_sha256="2" * 64)
    record.template_digest, record.test_source, record.draft = "3" * 64, "test in x", False
    record.test = TestResult("make test", 0, 1.5, "ok")
    record.account = Account(
        spending=Spending(10, 5, 0.25, 2),
        refusals=(RefusalLine("host:443", "no grant", 2),),
        refusal_count=2,
        manifest_sha256="4" * 64,
        tier="gvisor",
        could_reach=("pkgs.example (setup)",),
    )
    record.setup, record.lint = (TestResult("make deps", 0, 2.0),), TestResult("make lint", 1, 1.0)
    record.signed_commits, record.suggested = True, (Suggestion("mona", "owns it"),)
    record.commits = (CommitSummary("5" * 40, "fix: x", ("a.py",), 1, 1),)
    record.diffstat, record.head_sha = "1 file changed", "5" * 40
    record.warnings = ["a.py: large"]
    record.seconds = {"checkout": 0.5}
    return record


def test_every_event_that_ends_a_run_leads_to_an_ended_state() -> None:
    assert set(ENDING_STATES.values()) == ENDED


def test_a_report_says_what_was_found_out_and_how_it_ended() -> None:
    report = full_record().report(Ending(RunEvent.FAIL, FailureKind.GITHUB, "no"))
    assert (report.outcome, report.failure_kind, report.detail) == (
        RunState.FAILED,
        FailureKind.GITHUB,
        "no",
    )
    assert (report.repo, report.issue_number, report.instruction) == ("acme/ship", 3, "mend it")
    assert report.tier == "gvisor"
    assert not report.draft


def test_what_an_earlier_attempt_recorded_is_taken_over_whole() -> None:
    before = full_record().report(Ending(RunEvent.PUBLISH))
    record = Record(ASKED)
    record.restore(before)
    assert record.report(Ending(RunEvent.PUBLISH)) == before


def test_a_report_comes_back_from_the_store_as_it_went_in() -> None:
    report = full_record().report(Ending(RunEvent.REFUSE, detail="no"))
    report = replace(report, findings=(GateFinding("x", "symlink", "leaves the tree"),))
    assert from_json(as_json(report)) == report


def test_a_report_of_an_older_version_lacks_fields_and_is_still_read() -> None:
    value = as_json(full_record().report(Ending(RunEvent.PUBLISH)))
    required = {"run_id", "outcome", "repo", "issue_number", "issue_title", "asked_by", "model"}
    for name in {f.name for f in fields(RunReport)} - required - {"base_ref", "base_sha"}:
        value.pop(name)
    assert from_json(value).draft
