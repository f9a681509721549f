from __future__ import annotations

from dataclasses import replace

import pytest

from app.intents import Remark
from app.report import TestResult
from app.states import RunState
from app.thread_replies import Touched, is_near, thread_marker, thread_reply
from tests.app.test_messages import REPORT as OPENED

REMARK = Remark(55, 50, "alice", "Use a tuple", "a.py", 10)
PASSED = TestResult("pytest", 0, 1.0)
REPORT = replace(OPENED, continues=9, test=PASSED)


@pytest.mark.parametrize(
    ("first", "last", "ranges", "near"),
    [
        (None, 10, ((10, 10),), True),
        (None, 10, ((13, 13),), True),
        (None, 10, ((14, 20),), False),
        (None, 10, ((1, 7),), True),
        (None, 10, ((1, 6),), False),
        (5, 10, ((2, 2),), True),
        (5, 10, ((1, 1),), False),
        (None, 10, ((1, 1), (11, 11)), True),
        (None, None, ((99, 99),), True),
        (None, 10, (), False),
    ],
)
def test_near_is_at_the_lines_or_a_few_beside_them(
    first: int | None, last: int | None, ranges: tuple[tuple[int, int], ...], near: bool
) -> None:
    remark = replace(REMARK, start_line=first, line=last)
    assert is_near(remark, Touched("a" * 40, "x", ranges)) is near


def test_a_commit_at_the_lines_addresses_it_and_the_tests_are_ours() -> None:
    said = thread_reply(REMARK, REPORT, Touched("a" * 40, "Use a tuple", ((10, 10),)))
    assert said.startswith(thread_marker(REPORT.run_id, 55))
    assert f"Addressed in {'a' * 40} (Use a tuple). The tests pass." in said


def test_failing_tests_are_not_hidden_and_untested_ones_not_claimed() -> None:
    touched = Touched("a" * 40, "x", ((10, 10),))
    failing = replace(REPORT, test=replace(PASSED, exit_code=1))
    assert "The tests **fail**." in thread_reply(REMARK, failing, touched)
    for report in (replace(REPORT, test=None), replace(REPORT, rebased=True)):
        assert "tests" not in thread_reply(REMARK, report, touched)


def test_a_change_elsewhere_in_the_file_is_not_called_done() -> None:
    said = thread_reply(REMARK, REPORT, Touched("a" * 40, "x", ((50, 60),)))
    assert "Addressed" not in said
    assert "changes this file, but not these lines" in said


def test_without_a_commit_it_is_not_addressed() -> None:
    said = thread_reply(REMARK, REPORT, None)
    assert "**Not addressed:** no commit of this run changes `a.py`" in said


def test_commits_that_lie_aside_are_said_to() -> None:
    aside = replace(REPORT, aside=True, branch="aider/pull-9-x")
    said = thread_reply(REMARK, aside, Touched("a" * 40, "x", ((10, 10),)))
    assert "It is on the branch `aider/pull-9-x`." in said


@pytest.mark.parametrize(
    "outcome", [RunState.FAILED, RunState.REFUSED, RunState.TIMED_OUT, RunState.CANCELLED]
)
def test_a_run_that_ended_otherwise_says_why_and_claims_nothing(outcome: RunState) -> None:
    said = thread_reply(REMARK, replace(REPORT, outcome=outcome), None)
    assert "**Not addressed:**" in said
    assert "Addressed in" not in said


def test_a_question_is_answered_with_the_models_words_which_cannot_mention() -> None:
    report = replace(REPORT, outcome=RunState.NO_CHANGES, answer="Because @bob said, fixes #3")
    said = thread_reply(REMARK, report, None)
    assert "nobody checked it" in said
    assert "@bob" not in said
    assert "#3" not in said


def test_what_the_model_calls_its_commit_cannot_mention_either() -> None:
    said = thread_reply(REMARK, REPORT, Touched("a" * 40, "@all fix <!-- x -->", ((10, 10),)))
    assert "@all" not in said
    assert "<!-- x" not in said


def test_only_what_was_pushed_counts_when_a_run_was_cut_off() -> None:
    touched = Touched("a" * 40, "x", ((10, 10),))
    stopped = replace(REPORT, outcome=RunState.CANCELLED)
    assert "Addressed in" in thread_reply(REMARK, replace(stopped, branch="theirs"), touched)
    assert "**Not addressed:**" in thread_reply(REMARK, replace(stopped, branch=None), touched)
