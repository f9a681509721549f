"""The vendors' error answers: made by us in their shape, and understood when they send them.

Pure. Aider and LiteLLM decide by these shapes whether to retry, so ours must be theirs.
Sources: https://platform.openai.com/docs/guides/error-codes,
https://docs.anthropic.com/en/api/errors, https://ai.google.dev/gemini-api/docs/troubleshooting.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from egress.policy import Wire


class CallError(StrEnum):
    """Why a model call brought nothing; the value is what reports and the audit log say."""

    AUTH = "auth"
    QUOTA = "quota"
    BUDGET = "budget"
    RATE_LIMIT = "rate_limit"
    OVERFLOW = "overflow"
    REJECTED = "rejected"
    SERVER = "server_error"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    TIMEOUT = "timeout"
    TRUNCATED = "truncated"
    PROTOCOL = "protocol"
    REDIRECT = "redirect"
    TOO_LARGE = "too_large"
    GUEST_GONE = "guest_gone"


MAX_SHOWN = 300

# After one of these the next call would only bring the same: the broker repeats the answer itself.
FINAL_ERRORS = frozenset({CallError.AUTH, CallError.QUOTA})


@dataclass(frozen=True)
class ErrorAnswer:
    """One whole error response, ready to be sent (again)."""

    status: int
    content_type: str
    body: bytes


def budget_answer(wire: Wire, text: str) -> ErrorAnswer:
    """Return the vendor's own "no quota left"; `text` says whose cap it was."""
    if wire is Wire.ANTHROPIC:
        # Anthropic answers an empty balance with 400 and these words; clients look for them.
        text = f"Your credit balance is too low to access the Anthropic API. {text}"
        return error_answer(wire, 400, text, "invalid_request_error")
    if wire is Wire.GEMINI:
        text = f"You exceeded your current quota, please check your plan. {text}"
        return error_answer(wire, 429, text, "RESOURCE_EXHAUSTED")
    text = f"You exceeded your current quota, please check your plan and billing details. {text}"
    return error_answer(wire, 429, text, "insufficient_quota", code="insufficient_quota")


def failure_answer(wire: Wire, error: CallError, reason: str) -> ErrorAnswer:
    """Return a gateway error in the vendor's shape: 504 for a timeout, 502 for all else."""
    timed_out = error is CallError.TIMEOUT
    kind = {Wire.ANTHROPIC: "api_error", Wire.GEMINI: "UNAVAILABLE"}.get(wire, "server_error")
    return error_answer(wire, 504 if timed_out else 502, f"Drydock: {reason}", kind)


def error_answer(
    wire: Wire, status: int, message: str, kind: str, code: str | None = None
) -> ErrorAnswer:
    """Return an error body as the vendor of `wire` writes it."""
    body: dict[str, object] = {
        "error": {"message": message, "type": kind, "param": None, "code": code}
    }
    if wire is Wire.ANTHROPIC:
        body = {"type": "error", "error": {"type": kind, "message": message}}
    elif wire is Wire.GEMINI:
        body = {"error": {"code": status, "message": message, "status": kind}}
    return ErrorAnswer(status, "application/json", json.dumps(body).encode())


def classify(status: int, body: bytes) -> CallError | None:
    """Say what an upstream's answer means; None below 400. `body` is its beginning, as sent."""
    if status < 400:
        return None
    text = body.decode("utf-8", "replace").lower()
    if status in (401, 403) or (status == 400 and "api_key_invalid" in text):
        return CallError.AUTH
    if status == 402 or _says_quota(status, text):
        return CallError.QUOTA
    if status == 429:
        return CallError.RATE_LIMIT
    if status >= 500:
        return CallError.SERVER
    return CallError.OVERFLOW if _says_overflow(text) else CallError.REJECTED


def message_of(body: bytes) -> str:
    """Return an error body's own words, cleaned and cut for display; empty where it has none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = value.get("error") if isinstance(value, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    return shown(message) if isinstance(message, str) else ""


def shown(text: str) -> str:
    """Return text on one line, printable, cut."""
    return "".join(each if each.isprintable() else " " for each in text)[:MAX_SHOWN]


def _says_quota(status: int, text: str) -> bool:
    """OpenAI's code, Gemini's quota of a day, LiteLLM's proxy, our own cap; Anthropic's words."""
    if status == 429:
        signs = ("insufficient_quota", "perday", "budget_exceeded", "spending cap")
        return any(sign in text for sign in signs)
    return status == 400 and ("credit balance is too low" in text or "budget_exceeded" in text)


def _says_overflow(text: str) -> bool:
    signs = (
        "context_length_exceeded",
        "maximum context length",
        "prompt is too long",
        "exceeds the maximum number of tokens",
    )
    return any(sign in text for sign in signs)
