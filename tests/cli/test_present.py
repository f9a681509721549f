"""A finished run, as a terminal shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from app.report import CommitSummary, RunReport, TestResult
from app.states import FailureKind, RunState
from cli.present import diff_view, outcome_words, report_panel
from tests.app.reports import REPORT

FAILED = TestResult("make test", 1, 1.8, False, "")
NO_MODEL = replace(REPORT, outcome=RunState.FAILED, failure_kind=FailureKind.MODEL_AUTH, test=None)


def shown(report: RunReport) -> str:
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(report_panel(report))
    return capture.get()


def test_work_that_is_a_branch_is_not_called_published() -> None:
    done = replace(REPORT, commits=(CommitSummary("c" * 40, "Add the sum"),))
    assert outcome_words(done) == "1 commit on a branch"
    assert "published" not in shown(done)


def test_no_state_is_told_by_its_name() -> None:
    assert "model_auth" not in shown(NO_MODEL)


@pytest.mark.parametrize(
    ("before", "words"),
    [(FAILED, "not run again: there was nothing new to test"), (None, "no test command is known")],
)
def test_why_no_tests_were_run_is_told_truly(before: TestResult | None, words: str) -> None:
    assert words in shown(replace(NO_MODEL, test_before=before))


def test_a_diff_is_shown_whole_in_the_terminals_own_colours() -> None:
    console = Console(width=80, force_terminal=True, color_system="standard")
    with console.capture() as capture:
        console.print(diff_view("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+[bold]y\n z\n"))
    said = capture.get()
    assert "\x1b[31m-x" in said
    assert "\x1b[32m+[bold]y" in said
    assert " z" in said.splitlines()[-1]
    assert "49m" not in said
