"""What a run's check run shows, within what GitHub takes: https://docs.github.com/en/rest/checks/runs"""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.clip import github_length
from app.messages import StatusView, check_output
from app.messages.checks import RETRY, STOP
from app.report import GateFinding
from app.states import ACTIVE, ENDED, FailureKind, RunState
from tests.app import reports

REPORT = replace(reports.REPORT, outcome=RunState.REFUSED)


def refused(*findings: GateFinding) -> StatusView:
    report = replace(REPORT, findings=findings)
    return StatusView("01abc", RunState.REFUSED, "alice", report=report)


@pytest.mark.parametrize("state", sorted(ACTIVE))
def test_what_is_active_can_be_stopped(state: RunState) -> None:
    assert check_output(StatusView("01abc", state, "alice")).buttons == (STOP,)


@pytest.mark.parametrize("state", sorted(ENDED))
def test_what_has_ended_can_be_retried(state: RunState) -> None:
    kind = FailureKind.AGENT if state is RunState.FAILED else None
    report = replace(REPORT, outcome=state, failure_kind=kind)
    assert check_output(StatusView("01abc", state, "alice", report=report)).buttons == (RETRY,)


@pytest.mark.parametrize("button", [STOP, RETRY])
def test_a_button_keeps_to_githubs_lengths(button: object) -> None:
    words = (button.label, button.description, button.identifier)  # type: ignore[attr-defined]
    assert [len(word) <= most for word, most in zip(words, (20, 40, 20), strict=True)] == [True] * 3


def test_refusals_and_warnings_are_annotated_by_their_level() -> None:
    view = refused(
        GateFinding("ci.yml", "workflows", "no workflow is changed"),
        GateFinding("big.bin", "size", "it is large", level="warn"),
    )
    notes = check_output(view).annotations
    assert [(note.path, note.level, note.title) for note in notes] == [
        ("ci.yml", "failure", "workflows"),
        ("big.bin", "warning", "size"),
    ]
    assert notes[0].message == "no workflow is changed"


def test_a_finding_without_a_file_stands_in_the_summary_alone() -> None:
    output = check_output(refused(GateFinding("", "commits", "there are too many")))
    assert output.annotations == ()
    assert "there are too many" in output.summary


def test_no_more_is_annotated_than_github_takes_at_once() -> None:
    view = refused(*(GateFinding(f"{n}.yml", "workflows", "no") for n in range(80)))
    assert len(check_output(view).annotations) == 50


def test_a_summary_is_a_character_shorter_than_a_comment_may_be() -> None:
    report = replace(REPORT, explanation="x" * 70_000)
    view = StatusView("01abc", RunState.REFUSED, "alice", report=report)
    assert github_length(check_output(view).summary) <= 65_535


def test_what_goes_on_annotates_nothing() -> None:
    assert check_output(StatusView("01abc", RunState.GATE, "alice")).annotations == ()
