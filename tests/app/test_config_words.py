from __future__ import annotations

import pytest

from app.config_words import failing_tests, labels_refused, team_unknown, ttl_detail
from app.report import TestResult

FAILED = TestResult("make `test`", 2, 1.0, "1 failed\n```\n@octocat")


def test_why_there_is_no_pull_request_is_said_with_the_end_of_the_output() -> None:
    said = failing_tests(FAILED)
    assert "ended with exit status 2" in said
    assert "`on_failing_tests: none`" in said
    assert "1 failed" in said
    assert "**Next:**" in said


def test_a_run_that_continues_a_pull_request_is_told_so() -> None:
    said = failing_tests(FAILED, continues=True)
    assert "**The tests fail, so nothing was added to the pull request.**" in said


def test_what_the_tests_printed_stays_within_its_block() -> None:
    said = failing_tests(FAILED)
    before, fence, _ = said.partition("````")
    assert fence
    assert "octocat" not in before


def test_a_time_limit_and_no_output_have_their_words() -> None:
    said = failing_tests(TestResult("x", None, 1.0, timed_out=True))
    assert "took too long" in said
    assert "```" not in said


@pytest.mark.parametrize(
    ("ttl_s", "words"), [(4, "4 seconds"), (90, "90 seconds"), (2700, "45 minutes")]
)
def test_a_time_is_said_in_the_unit_that_fits(ttl_s: float, words: str) -> None:
    assert f"This repository allows {words} (`ttl`" in ttl_detail("Over.", ttl_s)


def test_a_long_list_of_labels_is_cut() -> None:
    assert labels_refused([f"l{n}" for n in range(20)], "no").endswith("l3, l4: no")


def test_githubs_words_about_a_team_mention_nobody() -> None:
    assert "@octocat" not in team_unknown("acme/crew", "ask @octocat")
