"""The states of a run and the one table that says which may follow which.

`TRANSITIONS` is the truth: the store refuses anything else, and the picture in the docs is made
from it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum


class RunState(StrEnum):
    QUEUED = "queued"
    CHECKOUT = "checkout"
    MACHINE = "machine"
    SETUP = "setup"
    AGENT = "agent"
    VERIFY = "verify"
    GATE = "gate"
    PUBLISH = "publish"
    PUBLISHED = "published"
    NO_CHANGES = "no_changes"
    REFUSED = "refused"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"


class FailureKind(StrEnum):
    """Why a run is `failed`; each has its own message."""

    MODEL_AUTH = "model_auth"
    MODEL_QUOTA = "model_quota"
    BUDGET = "budget"
    MODEL_UNAVAILABLE = "model_unavailable"
    CONTEXT_OVERFLOW = "context_overflow"
    SETUP = "setup"
    AGENT = "agent"
    SANDBOX = "sandbox"
    GITHUB = "github"
    INTERNAL = "internal"


class RunEvent(StrEnum):
    CLAIM = "claim"
    ADVANCE = "advance"
    RELEASE = "release"
    PUBLISH = "publish"
    NO_CHANGE = "no_change"
    REFUSE = "refuse"
    FAIL = "fail"
    TIME_OUT = "time_out"
    CANCEL = "cancel"


PHASES = (
    RunState.CHECKOUT,
    RunState.MACHINE,
    RunState.SETUP,
    RunState.AGENT,
    RunState.VERIFY,
    RunState.GATE,
    RunState.PUBLISH,
)

ENDED = frozenset(
    {
        RunState.PUBLISHED,
        RunState.NO_CHANGES,
        RunState.REFUSED,
        RunState.FAILED,
        RunState.TIMED_OUT,
        RunState.CANCELLED,
    }
)

ACTIVE = frozenset({RunState.QUEUED, *PHASES})

_ENDS: Mapping[RunEvent, RunState] = {
    RunEvent.REFUSE: RunState.REFUSED,
    RunEvent.FAIL: RunState.FAILED,
    RunEvent.TIME_OUT: RunState.TIMED_OUT,
    RunEvent.CANCEL: RunState.CANCELLED,
}


def _phase_row(state: RunState, following: RunState | None) -> dict[RunEvent, RunState]:
    row = {**_ENDS, RunEvent.RELEASE: RunState.QUEUED}
    if following is not None:
        row[RunEvent.ADVANCE] = following
    return row


TRANSITIONS: Mapping[RunState, Mapping[RunEvent, RunState]] = {
    RunState.QUEUED: {
        RunEvent.CLAIM: RunState.CHECKOUT,
        RunEvent.CANCEL: RunState.CANCELLED,
        RunEvent.FAIL: RunState.FAILED,
        RunEvent.REFUSE: RunState.REFUSED,
    },
    **{
        state: _phase_row(state, following)
        for state, following in zip(PHASES, (*PHASES[1:], None), strict=True)
    },
    **{state: {} for state in ENDED},
}
# Aider may come back empty-handed, and only the last phase may claim success.
TRANSITIONS = {
    **TRANSITIONS,
    RunState.VERIFY: {**TRANSITIONS[RunState.VERIFY], RunEvent.NO_CHANGE: RunState.NO_CHANGES},
    RunState.AGENT: {**TRANSITIONS[RunState.AGENT], RunEvent.NO_CHANGE: RunState.NO_CHANGES},
    RunState.GATE: {**TRANSITIONS[RunState.GATE], RunEvent.NO_CHANGE: RunState.NO_CHANGES},
    RunState.PUBLISH: {**TRANSITIONS[RunState.PUBLISH], RunEvent.PUBLISH: RunState.PUBLISHED},
}


class IllegalTransition(Exception):
    """That event cannot happen to a run in that state."""


def next_state(state: RunState, event: RunEvent) -> RunState:
    """Return the state that `event` leads to. IllegalTransition when the table has no such cell."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalTransition(f"a run that is {state} cannot {event}") from None


def mermaid() -> str:
    """Return the table as a Mermaid state diagram, as the docs show it."""
    return "\n".join(("stateDiagram-v2", *(f"    {line}" for line in _diagram()))) + "\n"


def _diagram() -> Iterator[str]:
    yield f"[*] --> {RunState.QUEUED}"
    for state in RunState:
        # One arrow for all events that lead to the same state.
        for target in dict.fromkeys(TRANSITIONS[state].values()):
            events = [event for event, to in TRANSITIONS[state].items() if to is target]
            yield f"{state} --> {target}: {', '.join(events)}"
    for state in RunState:
        if state in ENDED:
            yield f"{state} --> [*]"
