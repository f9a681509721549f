from __future__ import annotations

import json

import pytest

from demo.scenario import Fault
from demo.wire import ANTHROPIC, AZURE, GEMINI, OPENAI
from egress.meter import Cap, OverCap
from egress.policy import Wire
from egress.vendors import (
    CallError,
    budget_answer,
    classify,
    failure_answer,
    message_of,
    shown,
)

MEANINGS = {
    Fault.AUTH: CallError.AUTH,
    Fault.PERMISSION: CallError.AUTH,
    Fault.QUOTA: CallError.QUOTA,
    Fault.RATE_LIMIT: CallError.RATE_LIMIT,
    Fault.SERVER: CallError.SERVER,
    Fault.OVERLOADED: CallError.SERVER,
    Fault.OVERFLOW: CallError.OVERFLOW,
    Fault.NOT_FOUND: CallError.REJECTED,
}


@pytest.mark.parametrize("vendor", [OPENAI, AZURE, ANTHROPIC, GEMINI])
@pytest.mark.parametrize(("fault", "error"), MEANINGS.items())
def test_every_published_error_is_understood(
    vendor: object, fault: Fault, error: CallError
) -> None:
    answer = vendor.fault(fault, None)  # type: ignore[attr-defined]
    assert classify(answer.status, json.dumps(answer.body).encode()) is error


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"insufficient_quota", None),
        (402, b"", CallError.QUOTA),
        (429, b"\xff\xff", CallError.RATE_LIMIT),
        (404, b"insufficient_quota", CallError.REJECTED),
        (599, b"", CallError.SERVER),
    ],
)
def test_other_statuses(status: int, body: bytes, error: CallError | None) -> None:
    assert classify(status, body) is error


@pytest.mark.parametrize("wire", Wire)
def test_the_caps_answer_is_understood_as_the_vendors_own_quota_error(wire: Wire) -> None:
    answer = budget_answer(wire, OverCap(1.5, Cap("this run", 1.0)).text)
    assert classify(answer.status, answer.body) is CallError.QUOTA
    message = message_of(answer.body)
    assert "spending cap for this run is reached: $1.5000 of $1.0000" in message
    assert "operator can raise it" in message


def test_the_caps_answer_has_the_vendors_shape() -> None:
    openai = json.loads(budget_answer(Wire.OPENAI, "Text.").body)["error"]
    assert set(openai) == {"message", "type", "param", "code"}
    assert openai["code"] == "insufficient_quota"
    anthropic = json.loads(budget_answer(Wire.ANTHROPIC, "Text.").body)
    assert anthropic["type"] == "error"
    assert anthropic["error"]["type"] == "invalid_request_error"
    gemini = json.loads(budget_answer(Wire.GEMINI, "Text.").body)["error"]
    assert (gemini["code"], gemini["status"]) == (429, "RESOURCE_EXHAUSTED")


@pytest.mark.parametrize("wire", Wire)
def test_a_gateways_failure_says_why(wire: Wire) -> None:
    assert failure_answer(wire, CallError.TIMEOUT, "silent").status == 504
    answer = failure_answer(wire, CallError.UNREACHABLE, "no route")
    assert answer.status == 502
    assert message_of(answer.body) == "Drydock: no route"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a\\nb\\u001b[31m"}}', "a b [31m"),
        (b'{"error": "plain"}', "plain"),
        (b'{"error": {}}', ""),
        (b"[1]", ""),
        (b"<html>", ""),
        (b"\xff", ""),
    ],
)
def test_an_errors_words_are_cleaned(body: bytes, message: str) -> None:
    assert message_of(body) == message
    assert len(shown("x" * 1000)) == 300
