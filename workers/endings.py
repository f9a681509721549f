"""From what went wrong to how the run ends: one table, so that each fault has one message. Pure."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from app.github.errors import GitHubError
from app.messages import empty_repository, missing_base
from app.settings import SettingsError
from app.states import FailureKind, RunEvent
from egress.audit import AuditBroken
from sandbox.provider import GuestMisbehaved, MachineLost, ProviderFailed
from workers.aider import AiderOutcome, OutcomeKind, to_failure
from workers.checkout import CheckoutFailed, CheckoutTrouble, EmptyRepository, NoSuchBranch
from workers.git import GitFailed
from workers.guest_repo import GuestRepoFailed
from workers.record import Ending

TTL_REACHED = "the machine's time was up"


def ending_of_error(error: Exception) -> Ending:
    """Return how a run ends that this exception stopped."""
    if isinstance(error, MachineLost) and error.reason == "deadline":
        return Ending(RunEvent.TIME_OUT, detail=TTL_REACHED)
    if isinstance(error, CheckoutFailed):
        return _ending_of_checkout(error)
    kind = next((kind for types, kind in _KINDS if isinstance(error, types)), FailureKind.INTERNAL)
    return Ending(RunEvent.FAIL, kind, _said(error))


_KINDS: tuple[tuple[tuple[type[Exception], ...], FailureKind], ...] = (
    ((MachineLost, GuestMisbehaved, ProviderFailed, GuestRepoFailed), FailureKind.SANDBOX),
    ((GitHubError,), FailureKind.GITHUB),
    ((SettingsError, GitFailed, AuditBroken, SQLAlchemyError), FailureKind.INTERNAL),
)

_GITHUBS = {CheckoutTrouble.ACCESS, CheckoutTrouble.NOT_FOUND, CheckoutTrouble.UNREACHABLE}


def _ending_of_checkout(error: CheckoutFailed) -> Ending:
    kind = FailureKind.GITHUB if error.trouble in _GITHUBS else FailureKind.INTERNAL
    return Ending(RunEvent.FAIL, kind, _said(error))


def _said(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error} ({error.filename or 'no file'})"
    return str(error) or type(error).__name__


def ending_of_base(missing: EmptyRepository | NoSuchBranch) -> Ending:
    """Return how a run ends that has nothing to start from."""
    if isinstance(missing, EmptyRepository):
        return Ending(
            RunEvent.REFUSE, detail="the repository is empty", explanation=empty_repository()
        )
    detail = f"there is no branch {missing.name}"
    return Ending(RunEvent.REFUSE, detail=detail, explanation=missing_base(missing.name))


def ending_of_aider(outcome: AiderOutcome) -> Ending | None:
    """Return how a run ends by Aider alone; None when its commits go on to the gate."""
    if outcome.kind is OutcomeKind.EDITED:
        return None
    if outcome.kind in {OutcomeKind.NO_CHANGE, OutcomeKind.ANSWERED_IN_PROSE}:
        return Ending(RunEvent.NO_CHANGE)
    return Ending(RunEvent.FAIL, to_failure(outcome), outcome.detail or outcome.kind)
