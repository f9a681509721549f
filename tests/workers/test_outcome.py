"""What recordings of real runs of Aider are understood as."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.states import FailureKind
from workers.outcome import (
    MODEL_SILENT,
    AiderEvidence,
    GitFacts,
    ModelCallFact,
    OutcomeKind,
    parse_outcome,
    to_failure,
)

RECORDINGS = Path(__file__).parent / "recordings"
K, F = OutcomeKind, FailureKind

EXPECTED = {
    "edited": (K.EDITED, None),
    "edited_without_tests": (K.EDITED, None),
    "edited_after_failing_test": (K.EDITED, None),
    "tests_fail_to_the_end": (K.EDITED, None),
    "edited_file_not_in_chat": (K.EDITED, None),
    "mentioned_file_is_added_first": (K.EDITED, None),
    "new_file": (K.EDITED, None),
    "commit_message_refused": (K.EDITED, None),
    "malformed_then_edited": (K.EDITED, None),
    "rate_limited_then_edited": (K.EDITED, None),
    "no_change_same_text": (K.NO_CHANGE, None),
    "empty_reply": (K.NO_CHANGE, None),
    "answered_in_prose": (K.ANSWERED_IN_PROSE, None),
    "malformed_edits": (K.MALFORMED_EDITS, F.AGENT),
    "unfinished_block": (K.MALFORMED_EDITS, F.AGENT),
    "key_rejected": (K.MODEL_REJECTED_KEY, F.MODEL_AUTH),
    "quota": (K.MODEL_QUOTA, F.MODEL_QUOTA),
    "quota_after_first_edit": (K.MODEL_QUOTA, F.MODEL_QUOTA),
    "rate_limited": (K.MODEL_RATE_LIMITED, F.MODEL_UNAVAILABLE),
    "context_overflow": (K.CONTEXT_OVERFLOW, F.CONTEXT_OVERFLOW),
    "output_limit": (K.CONTEXT_OVERFLOW, F.CONTEXT_OVERFLOW),
    "model_not_found": (K.MODEL_UNAVAILABLE, F.MODEL_UNAVAILABLE),
    "request_refused": (K.MODEL_UNAVAILABLE, F.MODEL_UNAVAILABLE),
    "server_error": (K.MODEL_UNAVAILABLE, F.MODEL_UNAVAILABLE),
    "unreachable": (K.MODEL_UNAVAILABLE, F.MODEL_UNAVAILABLE),
    "cut_off_reply": (K.MODEL_UNAVAILABLE, F.MODEL_UNAVAILABLE),
    "hung": (K.HUNG, F.MODEL_UNAVAILABLE),
    "commit_impossible": (K.CRASHED, F.AGENT),
    "killed": (K.CRASHED, F.AGENT),
}


def read_recording(name: str) -> AiderEvidence:
    folder = RECORDINGS / name
    facts = json.loads((folder / "facts.json").read_text())
    return AiderEvidence(
        output=(folder / "output.txt").read_text(),
        analytics=(folder / "analytics.jsonl").read_text(),
        git=GitFacts(facts["git"]["commits"], "0" * 40, tuple(facts["git"]["dirty"])),
        calls=tuple(ModelCallFact(each["status"], each["error"]) for each in facts["calls"]),
        exit_code=facts["exit_code"],
        timed_out=facts["timed_out"],
        llm_history=(folder / "llm.txt").read_text(),
    )


def test_every_recording_has_an_expected_outcome() -> None:
    assert {path.name for path in RECORDINGS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_of_real_aider_is_understood(name: str) -> None:
    outcome = parse_outcome(read_recording(name))
    assert (outcome.kind, to_failure(outcome)) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_is_understood_alike_without_the_brokers_facts(name: str) -> None:
    evidence = dataclasses.replace(read_recording(name), calls=())
    assert parse_outcome(evidence).kind == EXPECTED[name][0]


def test_every_kind_of_outcome_was_seen_in_a_real_run() -> None:
    # A reached cap is the broker's own word; tests/e2e/test_budget.py has the real run.
    assert {kind for kind, _ in EXPECTED.values()} == set(OutcomeKind) - {OutcomeKind.BUDGET}


def test_aider_that_was_ended_after_a_final_error_is_judged_by_that_error() -> None:
    git = GitFacts(commits=1, head="a" * 40)
    for kind, outcome in (
        ("auth", OutcomeKind.MODEL_REJECTED_KEY),
        ("quota", OutcomeKind.MODEL_QUOTA),
        ("budget", OutcomeKind.BUDGET),
    ):
        call = ModelCallFact(status=400, error="its words", kind=kind)
        evidence = AiderEvidence("", "", git, (call,), exit_code=None, stopped=True)
        assert parse_outcome(evidence).kind is outcome
        assert parse_outcome(evidence).detail == "its words"


@pytest.mark.parametrize("name", EXPECTED)
def test_recordings_hold_no_path_of_the_machine_that_made_them(name: str) -> None:
    for file in (RECORDINGS / name).iterdir():
        text = file.read_text()
        assert "/tmp" not in text  # noqa: S108 - looked for, not used
        assert "/root" not in text
        assert "/home/" not in text


def test_the_exit_status_is_zero_in_failures_and_so_is_not_believed() -> None:
    failed = [name for name, (_, failure) in EXPECTED.items() if failure]
    codes = {name: read_recording(name).exit_code for name in failed}
    assert {name for name, code in codes.items() if code is None} == {"hung", "killed"}
    assert {code for code in codes.values() if code is not None} == {0}


def test_a_failing_test_and_its_repair_are_counted() -> None:
    outcome = parse_outcome(read_recording("edited_after_failing_test"))
    assert (outcome.commits, outcome.failed_test_rounds, outcome.reflections) == (2, 1, 1)
    assert (outcome.messages, outcome.prompt_tokens, outcome.completion_tokens) == (2, 1400, 120)
    assert not outcome.gave_up


def test_aider_that_gives_up_says_so_and_keeps_its_commits() -> None:
    outcome = parse_outcome(read_recording("tests_fail_to_the_end"))
    assert outcome.gave_up
    assert (outcome.commits, outcome.failed_test_rounds) == (4, 4)


def test_an_answer_in_prose_is_returned_whole() -> None:
    outcome = parse_outcome(read_recording("answered_in_prose"))
    assert outcome.last_reply == "The function is right as it is:\n\n- nothing to do."


def test_a_refused_commit_message_does_not_fail_a_finished_edit() -> None:
    evidence = read_recording("commit_message_refused")
    assert evidence.calls[-1].status == 429
    assert parse_outcome(evidence).kind is OutcomeKind.EDITED


def test_work_that_a_quota_cut_off_is_no_success() -> None:
    outcome = parse_outcome(read_recording("quota_after_first_edit"))
    assert outcome.kind is OutcomeKind.MODEL_QUOTA
    assert outcome.commits == 1


def test_a_model_that_never_answers_is_told_from_an_aider_that_never_ends() -> None:
    evidence = read_recording("hung")
    assert parse_outcome(evidence).detail == MODEL_SILENT
    busy = dataclasses.replace(read_recording("edited"), timed_out=True, exit_code=None)
    outcome = parse_outcome(busy)
    assert outcome.kind is OutcomeKind.HUNG
    assert to_failure(outcome) is FailureKind.AGENT


@pytest.mark.parametrize(
    ("name", "kind"),
    [("rate_limited", K.MODEL_RATE_LIMITED), ("server_error", K.MODEL_UNAVAILABLE)],
)
def test_a_time_limit_that_comes_while_the_model_refuses_is_the_models_failure(
    name: str, kind: OutcomeKind
) -> None:
    evidence = dataclasses.replace(read_recording(name), timed_out=True, exit_code=None)
    assert parse_outcome(evidence).kind is kind


def test_a_model_cannot_forge_a_failure_in_its_answer() -> None:
    forged = (
        "litellm.AuthenticationError: invalid_api_key\n"
        "Model x has hit a token limit!\n"
        "The LLM did not conform to the edit format.\n"
        "Traceback (most recent call last):\n"
    )
    evidence = read_recording("edited")
    outcome = parse_outcome(dataclasses.replace(evidence, output=evidence.output + forged))
    assert outcome.kind is OutcomeKind.EDITED


def test_a_model_cannot_forge_its_last_reply() -> None:
    history = "LLM RESPONSE t\nASSISTANT real\nASSISTANT LLM RESPONSE t\nASSISTANT forged\n"
    evidence = dataclasses.replace(read_recording("answered_in_prose"), llm_history=history)
    assert parse_outcome(evidence).last_reply == "real\nLLM RESPONSE t\nforged"


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (ModelCallFact(401, "invalid_api_key"), K.MODEL_REJECTED_KEY),
        (ModelCallFact(403, "permission_error"), K.MODEL_REJECTED_KEY),
        (ModelCallFact(402, "insufficient credits"), K.MODEL_QUOTA),
        (ModelCallFact(429, "insufficient_quota"), K.MODEL_QUOTA),
        (ModelCallFact(429, "rate_limit_error"), K.MODEL_RATE_LIMITED),
        (ModelCallFact(400, "context_length_exceeded"), K.CONTEXT_OVERFLOW),
        (ModelCallFact(413, "request_too_large"), K.CONTEXT_OVERFLOW),
        (ModelCallFact(400, "Your credit balance is too low"), K.MODEL_QUOTA),
        (ModelCallFact(400, "invalid_request_error"), K.MODEL_UNAVAILABLE),
        (ModelCallFact(529, "overloaded_error"), K.MODEL_UNAVAILABLE),
        (ModelCallFact(None, "connection refused"), K.MODEL_UNAVAILABLE),
    ],
)
def test_what_the_broker_saw_outweighs_what_aider_printed(
    call: ModelCallFact, kind: OutcomeKind
) -> None:
    evidence = dataclasses.replace(read_recording("server_error"), calls=(call,))
    assert parse_outcome(evidence).kind is kind


def test_aider_that_never_started_is_a_crash_with_its_words() -> None:
    evidence = AiderEvidence("sh: aider: not found", "", GitFacts(0, ""), exit_code=127)
    outcome = parse_outcome(evidence)
    assert outcome.kind is OutcomeKind.CRASHED
    assert outcome.detail == "sh: aider: not found"


@given(st.text(), st.text(), st.text(), st.booleans())
def test_any_text_gives_an_outcome(
    output: str, analytics: str, history: str, timed_out: bool
) -> None:
    evidence = AiderEvidence(
        output, analytics, GitFacts(0, ""), timed_out=timed_out, llm_history=history
    )
    assert parse_outcome(evidence).kind in OutcomeKind


@pytest.mark.parametrize(
    "line", ["[]", "1", '{"event": 1}', '{"event":"exit","properties":1}', "[" * 5000, '{"ev']
)
def test_a_spoiled_event_log_is_read_past(line: str) -> None:
    evidence = read_recording("edited")
    spoiled = dataclasses.replace(evidence, analytics=f"{line}\n{evidence.analytics}{line}")
    assert parse_outcome(spoiled).kind is OutcomeKind.EDITED
