"""What the store hands out: frozen values, never live rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypedDict

from app.states import ENDED, FailureKind, RunState


class DeliveryState(StrEnum):
    """What became of a delivery. `received` is the only state that still waits for a worker."""

    RECEIVED = "received"
    PROCESSED = "processed"
    IGNORED = "ignored"
    FAILED = "failed"


class TargetKind(StrEnum):
    """What a run works on."""

    ISSUE = "issue"
    PULL_REQUEST = "pull_request"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A webhook as it came.

    `subject` names the issue or pull request that it is about, by any word that is the same for all
    deliveries about it; None where it is about none. `body` is empty once it is no longer kept.
    """

    delivery_id: str
    event: str
    subject: str | None
    body: bytes
    received_at: datetime
    touched_at: datetime
    state: DeliveryState
    reason: str
    attempts: int
    enqueue_failures: int
    processed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """A webhook that is to be stored. `reason` is why it is ignored; "" when it has to be taken."""

    delivery_id: str
    event: str
    body: bytes
    received_at: datetime
    subject: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StaleDelivery:
    """A delivery that waits for longer than its message should take; `tries` were made."""

    delivery_id: str
    touched_at: datetime
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """What is known of a run when somebody asks for it.

    `trigger_delivery_id` and `trigger_index` (the command's place in the delivery, from 0) make a
    repeated delivery harmless; None is for a run that no delivery asked for. A review, which comes
    as several deliveries, has a word of its own there. `remarks` are the inline comments that the
    run has to answer; `undoes` is the run whose push it takes back.
    """

    repo_id: int
    repo: str
    installation_id: int
    issue_number: int
    issue_title: str
    asked_by: str
    asked_by_id: int
    target: TargetKind = TargetKind.ISSUE
    instruction: str = ""
    trigger_delivery_id: str | None = None
    trigger_index: int = 0
    trigger_comment_id: int | None = None
    base_ref: str | None = None
    base_sha: str | None = None
    branch: str | None = None
    pull_number: int | None = None
    pull_url: str | None = None
    remarks: Sequence[Mapping[str, Any]] = ()
    undoes: str | None = None
    model: str | None = None
    brief_text: str | None = None
    brief_sha256: str | None = None


class RunFields(TypedDict, total=False):
    """What a transition or an update may write besides the state.

    State, times, lease and counters are not among them: the store alone keeps those.
    """

    failure_kind: FailureKind | None
    detail: str
    base_ref: str | None
    base_sha: str | None
    branch: str | None
    head_sha: str | None
    pull_number: int | None
    pull_url: str | None
    status_comment_id: int | None
    check_run_id: int | None
    model: str | None
    brief_text: str | None
    brief_sha256: str | None
    manifest_sha256: str | None
    template_digest: str | None
    tier: str | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    model_calls: int
    usage_estimated: bool
    refusals: int
    test_exit_code: int | None
    report: Mapping[str, Any] | None
    remarks: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run as it was when it was read.

    Tokens, dollars and `model_calls` are those of all its attempts, as far as they are known.

    `attempt` is the number of the attempt under way, from 1 (0: never claimed). `lost_leases`
    counts the attempts whose worker vanished. `seconds_by_phase` holds the seconds spent in each
    state so far, without the present one; `state_since` tells how long that one lasts already.
    `away` says that the App cannot reach the repository any more, which is why it was cancelled.
    `told_at` is when the ending stood on GitHub; until then `tell_at` is when to try (again), and
    None once that was given up. `told_place` is the place in the queue that was told last, None
    while none is told.
    """

    id: str
    repo_id: int
    repo: str
    installation_id: int
    issue_number: int
    issue_title: str
    target: TargetKind
    asked_by: str
    asked_by_id: int
    instruction: str
    trigger_delivery_id: str | None
    trigger_index: int
    trigger_comment_id: int | None
    state: RunState
    failure_kind: FailureKind | None
    detail: str
    created_at: datetime
    updated_at: datetime
    state_since: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    lost_leases: int
    lease_owner: str | None
    lease_until: datetime | None
    cancel_requested_by: str | None
    away: bool
    told_at: datetime | None
    tell_at: datetime | None
    tell_tries: int
    told_place: int | None
    base_ref: str | None
    base_sha: str | None
    branch: str | None
    head_sha: str | None
    pull_number: int | None
    pull_url: str | None
    remarks: Sequence[Mapping[str, Any]]
    undoes: str | None
    status_comment_id: int | None
    check_run_id: int | None
    model: str | None
    brief_text: str | None
    brief_sha256: str | None
    manifest_sha256: str | None
    template_digest: str | None
    tier: str | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    model_calls: int
    usage_estimated: bool
    refusals: int
    test_exit_code: int | None
    report: Mapping[str, Any] | None
    seconds_by_phase: Mapping[str, float]

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class AlreadyActive:
    """Another run is under way for that issue or pull request."""

    run_id: str


@dataclass(frozen=True, slots=True)
class AlreadyCreated:
    """That command of that delivery has its run already, ended or not."""

    run: Run


class CancelOutcome(StrEnum):
    """What a request to cancel came to.

    `cancelled`: it was queued and is cancelled now. `requested`: a worker has it and will stop at
    its next heartbeat. `not_active`: it had ended, or never was.
    """

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    NOT_ACTIVE = "not_active"


class ReleaseOutcome(StrEnum):
    """What became of a run whose lease ran out.

    `requeued`, `failed` (too many workers vanished), `cancelled` (somebody had asked for that), or
    `kept` (its owner, or another reconciler, was quicker).
    """

    REQUEUED = "requeued"
    FAILED = "failed"
    CANCELLED = "cancelled"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One machine in a run."""

    run_id: str
    number: int
    machine_id: str
    provider: str
    receipt: Mapping[str, Any]
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of a run's log."""

    run_id: str
    seq: int
    at: datetime
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker as it last reported. `problem` is why its provider cannot start machines, or ""."""

    name: str
    provider: str
    problem: str
    seen_at: datetime
