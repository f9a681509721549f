"""What is learned from an ended run of Aider 0.86.2. Pure: evidence to outcome.

Aider's exit status says nothing: it is 0 after a rejected key, a quota, a server error and an
overflow. So `parse_outcome` reads, in this order of trust: what the broker saw of the model, what
git holds, Aider's own event log, and only then its words. The recordings that the parser is tested
on were made with the real program (`tests/workers/record_aider.py`).

Source: aider 0.86.2, `aider/coders/base_coder.py`, `aider/exceptions.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from app.states import FailureKind

MAX_REPLY_CHARS = 4_000


class OutcomeKind(StrEnum):
    EDITED = "edited"
    NO_CHANGE = "no_change"
    ANSWERED_IN_PROSE = "answered_in_prose"
    MALFORMED_EDITS = "malformed_edits"
    MODEL_REJECTED_KEY = "model_rejected_key"
    MODEL_QUOTA = "model_quota"
    BUDGET = "budget"
    MODEL_RATE_LIMITED = "model_rate_limited"
    CONTEXT_OVERFLOW = "context_overflow"
    MODEL_UNAVAILABLE = "model_unavailable"
    HUNG = "hung"
    CRASHED = "crashed"


@dataclass(frozen=True)
class ModelCallFact:
    """One model request as the broker saw it.

    `status` is the upstream's HTTP status, None where no answer came; `error` is the vendor's
    error code, type or message, or the broker's own words. `kind` is the broker's word for it.
    """

    status: int | None
    error: str | None = None
    kind: str | None = None


@dataclass(frozen=True)
class GitFacts:
    """The repository after Aider: commits on top of the base, head, and what is uncommitted."""

    commits: int
    head: str
    dirty: tuple[str, ...] = ()


@dataclass(frozen=True)
class AiderEvidence:
    """Everything known about one ended run of Aider. Its output and logs are untrusted text.

    `exit_code` is None when a signal or the time limit ended it. `stopped` says that Drydock ended
    it after an error of the model's that asking again would only repeat: a dead key, no quota, a
    reached cap.
    """

    output: str
    analytics: str
    git: GitFacts
    calls: tuple[ModelCallFact, ...] = ()
    exit_code: int | None = 0
    timed_out: bool = False
    stopped: bool = False
    llm_history: str = ""


@dataclass(frozen=True)
class AiderOutcome:
    """What a run of Aider came to.

    `commits` counts what it committed even when the run ended badly. `messages` counts requests
    for edits, `reflections` those that answered a failure, `failed_test_rounds` how often the test
    command failed under Aider, `gave_up` that it stopped at its limit of reflections. `last_reply`
    is the model's last answer and `detail` the error, both cut and untrusted. `completion_tokens`
    and `prompt_tokens` are Aider's own count, which omits commit messages.
    """

    kind: OutcomeKind
    commits: int
    messages: int = 0
    reflections: int = 0
    failed_test_rounds: int = 0
    gave_up: bool = False
    last_reply: str = ""
    detail: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    dirty: tuple[str, ...] = ()


_FAILURES: Mapping[OutcomeKind, FailureKind] = {
    OutcomeKind.MALFORMED_EDITS: FailureKind.AGENT,
    OutcomeKind.MODEL_REJECTED_KEY: FailureKind.MODEL_AUTH,
    OutcomeKind.MODEL_QUOTA: FailureKind.MODEL_QUOTA,
    OutcomeKind.BUDGET: FailureKind.BUDGET,
    OutcomeKind.MODEL_RATE_LIMITED: FailureKind.MODEL_UNAVAILABLE,
    OutcomeKind.CONTEXT_OVERFLOW: FailureKind.CONTEXT_OVERFLOW,
    OutcomeKind.MODEL_UNAVAILABLE: FailureKind.MODEL_UNAVAILABLE,
    OutcomeKind.HUNG: FailureKind.AGENT,
    OutcomeKind.CRASHED: FailureKind.AGENT,
}


def to_failure(outcome: AiderOutcome) -> FailureKind | None:
    """Return why the run failed, or None when it did not (edited, no change, answered in prose)."""
    if outcome.kind is OutcomeKind.HUNG and outcome.detail == MODEL_SILENT:
        return FailureKind.MODEL_UNAVAILABLE
    return _FAILURES.get(outcome.kind)


MODEL_SILENT = "the model did not answer"

_TEST_FAILED = re.compile(r"^Added \d+ lines? of output to the chat\.$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_MALFORMED = "The LLM did not conform to the edit format."
_GAVE_UP = re.compile(r"^Only \d+ reflections allowed, stopping\.$", re.MULTILINE)
# Aider wraps its own lines at 80 columns, so a space may be a line's end.
_TOKEN_LIMIT = re.compile(r"^Model\s+\S{1,200}\s+has\s+hit\s+a\s+token\s+limit!$", re.MULTILINE)
_UNCOMMITTED = re.compile(r"^Unable to commit: [^\n]*(?:\n[^\n]+){0,20}", re.MULTILINE)

# Words of vendors and of LiteLLM, for the evidence that the broker's status does not give.
_QUOTA_WORDS = (
    "insufficient_quota",
    "exceeded your current quota",
    "insufficient credits",
    "credit balance is too low",
    "billing_hard_limit",
    "payment required",
)
_OVERFLOW_WORDS = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "contextwindowexceeded",
    "context window",
    "request_too_large",
    "input is too long",
)
_KEY_WORDS = (
    "invalid_api_key",
    "authentication_error",
    "incorrect api key",
    "invalid x-api-key",
    "authenticationerror",
    "permission_error",
)
_RATE_WORDS = ("rate_limit", "ratelimiterror", "too many requests")


def parse_outcome(evidence: AiderEvidence) -> AiderOutcome:
    """Return what the run came to, from all evidence and never from the exit status alone."""
    log = _read_log(evidence.analytics)
    kind, detail = _classify(evidence, log)
    return AiderOutcome(
        kind=kind,
        commits=evidence.git.commits,
        messages=log.started,
        reflections=max(0, log.started - 1),
        failed_test_rounds=len(_TEST_FAILED.findall(evidence.output)),
        gave_up=_GAVE_UP.search(evidence.output) is not None,
        last_reply=_last_reply(evidence.llm_history)[:MAX_REPLY_CHARS],
        detail=detail[:MAX_REPLY_CHARS],
        prompt_tokens=log.prompt_tokens,
        completion_tokens=log.completion_tokens,
        dirty=evidence.git.dirty,
    )


@dataclass(frozen=True)
class _Log:
    """Aider's event log in short. `open_message`: the last request for edits was never answered."""

    started: int = 0
    open_message: bool = False
    exception: str = ""
    exited: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


def _read_log(text: str) -> _Log:
    events = list(_events(text))
    names = [name for name, _ in events]
    sent = [properties for name, properties in events if name == "message_send"]
    raised = [properties for name, properties in events if name == "message_send_exception"]
    turns = [name for name in names if name in {"message_send_starting", "message_send"}]
    return _Log(
        started=names.count("message_send_starting"),
        open_message=bool(turns) and turns[-1] == "message_send_starting",
        exception=str(raised[-1].get("exception", "")) if raised else "",
        exited="exit" in names,
        prompt_tokens=sum(_count(each, "prompt_tokens") for each in sent),
        completion_tokens=sum(_count(each, "completion_tokens") for each in sent),
    )


def _events(text: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line cut by the end of the machine, or written by someone else
        if isinstance(record, dict) and isinstance(record.get("properties"), dict):
            yield str(record.get("event", "")), record["properties"]


def _count(properties: Mapping[str, object], name: str) -> int:
    value = properties.get(name)
    return value if isinstance(value, int) and 0 <= value < 10**9 else 0


def _classify(evidence: AiderEvidence, log: _Log) -> tuple[OutcomeKind, str]:
    if evidence.stopped or evidence.timed_out:
        return _ended_by_us(evidence, log)
    if not log.exited:
        return OutcomeKind.CRASHED, _crash_text(evidence)
    if log.exception:
        return OutcomeKind.CRASHED, log.exception
    if _hit_token_limit(evidence, log):
        return OutcomeKind.CONTEXT_OVERFLOW, _said(evidence.output)
    if log.open_message:
        return _model_failure(evidence)
    uncommitted = _UNCOMMITTED.search(evidence.output)
    if uncommitted and evidence.git.dirty:
        return OutcomeKind.CRASHED, uncommitted[0]
    if evidence.git.commits:
        return OutcomeKind.EDITED, ""
    return _why_nothing(evidence)


def _hit_token_limit(evidence: AiderEvidence, log: _Log) -> bool:
    """Tell a refused prompt, or an answer cut at its limit, from a test that prints such words."""
    refused = not evidence.calls or evidence.calls[-1].status in {400, 413}
    return (log.open_message or refused) and _TOKEN_LIMIT.search(evidence.output) is not None


def _ended_by_us(evidence: AiderEvidence, log: _Log) -> tuple[OutcomeKind, str]:
    last = evidence.calls[-1].status if evidence.calls else None
    asks_in_vain = log.open_message and last is not None and last >= 400
    if evidence.stopped or asks_in_vain:
        # What kept it from ending by itself is the model.
        return _model_failure(evidence)
    return OutcomeKind.HUNG, _why_hung(evidence, log)


def _why_hung(evidence: AiderEvidence, log: _Log) -> str:
    unanswered = not evidence.calls or evidence.calls[-1].status is None
    return MODEL_SILENT if log.open_message and unanswered else "Aider did not end in time"


def _crash_text(evidence: AiderEvidence) -> str:
    _, found, rest = evidence.output.rpartition(_TRACEBACK)
    text = found + rest if found else evidence.output
    return text.strip()[-2_000:]


def _model_failure(evidence: AiderEvidence) -> tuple[OutcomeKind, str]:
    """Name the failure by the broker's last sight of the model, else by what Aider printed."""
    said = _said(evidence.output)
    last = evidence.calls[-1] if evidence.calls else None
    if last is not None:
        known = _KNOWN_ERRORS.get(last.kind or "")
        kind = known or _kind_of_status(last.status, (last.error or "") + " " + said)
        return kind, last.error or said
    return _kind_of_words(said), said


# What the broker is sure of, whatever the status was: vendors differ in that.
_KNOWN_ERRORS: Mapping[str, OutcomeKind] = {
    "auth": OutcomeKind.MODEL_REJECTED_KEY,
    "budget": OutcomeKind.BUDGET,
    "quota": OutcomeKind.MODEL_QUOTA,
}


def _kind_of_status(status: int | None, words: str) -> OutcomeKind:
    if status in {401, 403}:
        return OutcomeKind.MODEL_REJECTED_KEY
    if status == 402:
        return OutcomeKind.MODEL_QUOTA
    if status == 429:
        quota = _has(words, _QUOTA_WORDS)
        return OutcomeKind.MODEL_QUOTA if quota else OutcomeKind.MODEL_RATE_LIMITED
    if status in {400, 413}:
        return _kind_of_refused_request(words)
    return OutcomeKind.MODEL_UNAVAILABLE


def _kind_of_refused_request(words: str) -> OutcomeKind:
    # Some vendors answer 400 to an empty account.
    if _has(words, _OVERFLOW_WORDS):
        return OutcomeKind.CONTEXT_OVERFLOW
    if _has(words, _QUOTA_WORDS):
        return OutcomeKind.MODEL_QUOTA
    return OutcomeKind.MODEL_UNAVAILABLE


def _kind_of_words(words: str) -> OutcomeKind:
    for kind, marks in (
        (OutcomeKind.CONTEXT_OVERFLOW, _OVERFLOW_WORDS),
        (OutcomeKind.MODEL_QUOTA, _QUOTA_WORDS),
        (OutcomeKind.MODEL_REJECTED_KEY, _KEY_WORDS),
        (OutcomeKind.MODEL_RATE_LIMITED, _RATE_WORDS),
    ):
        if _has(words, marks):
            return kind
    return OutcomeKind.MODEL_UNAVAILABLE


def _has(words: str, marks: Sequence[str]) -> bool:
    lowered = re.sub(r"\s+", " ", words.lower())
    return any(mark in lowered for mark in marks)


def _said(output: str) -> str:
    """Return the end of the output from the last error that was named."""
    found = [*re.finditer(r"^litellm\.", output, re.MULTILINE), *_TOKEN_LIMIT.finditer(output)]
    found.sort(key=lambda match: match.start())
    return output[found[-1].start() :].strip() if found else output[-2_000:].strip()


def _why_nothing(evidence: AiderEvidence) -> tuple[OutcomeKind, str]:
    reply = _last_reply(evidence.llm_history)
    if _MALFORMED in evidence.output and (_has_block(reply) or not reply):
        return OutcomeKind.MALFORMED_EDITS, ""
    if reply.strip() and not _has_block(reply):
        return OutcomeKind.ANSWERED_IN_PROSE, ""
    return OutcomeKind.NO_CHANGE, ""


def _has_block(reply: str) -> bool:
    return re.search(r"^(<{5,9} SEARCH|>{5,9} REPLACE)", reply, re.MULTILINE) is not None


def _last_reply(history: str) -> str:
    """Return the model's last answer. Every line of it is prefixed, so it cannot forge an end."""
    _, found, rest = ("\n" + history).rpartition("\nLLM RESPONSE ")
    if not found:
        return ""
    lines = rest.split("\n")[1:]
    return "\n".join(line.removeprefix("ASSISTANT ") for line in lines).strip()
