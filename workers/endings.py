"""From what went wrong to how the run ends: one table, so that each fault has one message. Pure."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from sqlalchemy.exc import SQLAlchemyError

from app.github.errors import AccessLost, GitHubError
from app.messages import app_lost_access, cannot_fetch, empty_repository, host_trouble, missing_base
from app.settings import SettingsError
from app.states import FailureKind, RunEvent, RunState
from egress.audit import AuditBroken
from sandbox.provider import GuestMisbehaved, MachineLost, ProviderFailed
from workers.checkout import CheckoutFailed, CheckoutTrouble, EmptyRepository, NoSuchBranch
from workers.git import GitFailed
from workers.guest_repo import GuestRepoFailed
from workers.outcome import AiderOutcome, OutcomeKind, to_failure
from workers.record import Ending

TTL_REACHED = "The machine's time was up."
DISK_FULL = "Its disk is full."


def ending_of_error(
    error: Exception, state: RunState | None = None, repo: str = "this repository"
) -> Ending:
    """Return how a run ends that this exception stopped, in this state where it is known."""
    if isinstance(error, MachineLost) and error.reason == "deadline":
        return Ending(RunEvent.TIME_OUT, detail=TTL_REACHED)
    if isinstance(error, AccessLost):
        return _failed(FailureKind.GITHUB, _said(error), app_lost_access(repo))
    if isinstance(error, SettingsError):
        return _failed(FailureKind.INTERNAL, _said(error), host_trouble(_said(error)))
    if is_disk_full(error):
        return _failed(FailureKind.INTERNAL, DISK_FULL, host_trouble(DISK_FULL))
    kind = _kind_of(error)
    before_work = kind is FailureKind.GITHUB and (state or RunState.CHECKOUT) is RunState.CHECKOUT
    return _failed(kind, _said(error), cannot_fetch(_said(error)) if before_work else "")


def is_disk_full(error: Exception) -> bool:
    """Say whether the host had no room left."""
    if isinstance(error, CheckoutFailed):
        return error.trouble is CheckoutTrouble.DISK_FULL
    if isinstance(error, GitFailed):
        return error.disk_full
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}


def _failed(kind: FailureKind, detail: str, explanation: str = "") -> Ending:
    return Ending(RunEvent.FAIL, kind, detail, explanation)


_KINDS: tuple[tuple[tuple[type[Exception], ...], FailureKind], ...] = (
    ((MachineLost, GuestMisbehaved, ProviderFailed, GuestRepoFailed), FailureKind.SANDBOX),
    ((GitHubError,), FailureKind.GITHUB),
    ((GitFailed, AuditBroken, SQLAlchemyError), FailureKind.INTERNAL),
)

_GITHUBS = {CheckoutTrouble.ACCESS, CheckoutTrouble.NOT_FOUND, CheckoutTrouble.UNREACHABLE}


def _kind_of(error: Exception) -> FailureKind:
    if isinstance(error, CheckoutFailed):
        return FailureKind.GITHUB if error.trouble in _GITHUBS else FailureKind.INTERNAL
    return next((kind for types, kind in _KINDS if isinstance(error, types)), FailureKind.INTERNAL)


def _said(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error} ({error.filename or 'no file'})"
    return str(error) or type(error).__name__


def ending_of_base(missing: EmptyRepository | NoSuchBranch) -> Ending:
    """Return how a run ends that has nothing to start from."""
    if isinstance(missing, EmptyRepository):
        return Ending(
            RunEvent.REFUSE, detail="The repository is empty.", explanation=empty_repository()
        )
    detail = f"There is no branch {missing.name}."
    return Ending(RunEvent.REFUSE, detail=detail, explanation=missing_base(missing.name))


def ending_of_aider(outcome: AiderOutcome) -> Ending | None:
    """Return how a run ends by Aider alone; None when its commits go on to the gate."""
    if outcome.kind is OutcomeKind.EDITED:
        return None
    if outcome.kind in {OutcomeKind.NO_CHANGE, OutcomeKind.ANSWERED_IN_PROSE}:
        return Ending(RunEvent.NO_CHANGE)
    detail = outcome.detail or _WORDS.get(outcome.kind, outcome.kind.value)
    return Ending(RunEvent.FAIL, to_failure(outcome), detail)


_WORDS: Mapping[OutcomeKind, str] = {
    OutcomeKind.MALFORMED_EDITS: "The model's edits did not fit the files that they were for.",
    OutcomeKind.MODEL_REJECTED_KEY: "The server did not say why.",
    OutcomeKind.MODEL_RATE_LIMITED: "Its server asked to slow down.",
    OutcomeKind.CRASHED: "It crashed without a word.",
}
