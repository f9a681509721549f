"""Each fault has its ending, and each ending its words."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from app.github.errors import AccessLost, GitHubUnavailable, Invalid, NotAllowed
from app.settings import SettingsError
from app.states import FailureKind, RunEvent, RunState
from egress.audit import AuditBroken
from sandbox.provider import GuestMisbehaved, MachineLost, ProviderFailed
from workers.checkout import CheckoutFailed, CheckoutTrouble, EmptyRepository, NoSuchBranch
from workers.endings import ending_of_aider, ending_of_base, ending_of_error, is_disk_full
from workers.git import GitFailed
from workers.guest_repo import GuestRepoFailed
from workers.outcome import AiderOutcome, OutcomeKind

K = FailureKind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MachineLost("oom"), K.SANDBOX),
        (MachineLost("exited", "signal 9"), K.SANDBOX),
        (GuestMisbehaved("a frame too long"), K.SANDBOX),
        (ProviderFailed("runsc is not installed"), K.SANDBOX),
        (GuestRepoFailed("git reset in the machine ended with 128"), K.SANDBOX),
        (GitHubUnavailable("502"), K.GITHUB),
        (NotAllowed("no"), K.GITHUB),
        (Invalid(("no commits",)), K.GITHUB),
        (AccessLost("gone"), K.GITHUB),
        (CheckoutFailed(CheckoutTrouble.UNREACHABLE, "x"), K.GITHUB),
        (CheckoutFailed(CheckoutTrouble.BUSY, "x"), K.INTERNAL),
        (SettingsError(("template default is not baked",)), K.INTERNAL),
        (GitFailed(["gc"], 1, "fatal: x"), K.INTERNAL),
        (AuditBroken("line 3"), K.INTERNAL),
        (OperationalError("x", {}, Exception("away")), K.INTERNAL),
        (OSError(errno.EACCES, "Permission denied", "/x"), K.INTERNAL),
        (ZeroDivisionError("division by zero"), K.INTERNAL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_a_fault_has_its_kind_and_says_something(error: Exception, kind: FailureKind) -> None:
    ending = ending_of_error(error)
    assert (ending.event, ending.kind) == (RunEvent.FAIL, kind)
    assert ending.detail


def test_a_machine_whose_time_was_up_is_a_time_out() -> None:
    ending = ending_of_error(MachineLost("deadline"))
    assert (ending.event, ending.kind) == (RunEvent.TIME_OUT, None)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/x"),
        OSError(errno.EDQUOT, "Disk quota exceeded", "/x"),
        CheckoutFailed(CheckoutTrouble.DISK_FULL, "x"),
        GitFailed(["fetch"], 128, "fatal: write error: No space left on device"),
    ],
    ids=str,
)
def test_a_full_disk_is_the_operators_to_mend_and_says_so(error: Exception) -> None:
    assert is_disk_full(error)
    ending = ending_of_error(error, RunState.GATE)
    assert "needs its operator" in ending.explanation
    assert "Its disk is full." in ending.explanation
    assert "No space" not in ending.detail


def test_before_the_work_a_github_failure_does_not_claim_that_it_was_done() -> None:
    before = ending_of_error(GitHubUnavailable("502"), RunState.CHECKOUT)
    assert "could not be fetched" in before.explanation
    assert "No work was done" in before.explanation
    assert ending_of_error(GitHubUnavailable("502"), RunState.PUBLISH).explanation == ""


def test_lost_access_names_the_repository_and_what_an_owner_does() -> None:
    said = ending_of_error(AccessLost("gone"), RunState.AGENT, "acme/ship").explanation
    assert "`acme/ship`" in said
    assert "an owner installs the App" in said


def test_a_wrong_setting_is_not_called_a_defect() -> None:
    said = ending_of_error(SettingsError(("DRYDOCK_MODEL is not set",))).explanation
    assert r"DRYDOCK\_MODEL is not set" in said
    assert "This is not about the issue." in said


@pytest.mark.parametrize("missing", [EmptyRepository(), NoSuchBranch("release/9")])
def test_nothing_to_start_from_refuses_the_run(missing: EmptyRepository | NoSuchBranch) -> None:
    ending = ending_of_base(missing)
    assert ending.event is RunEvent.REFUSE
    assert ending.explanation
    assert ending.detail


@pytest.mark.parametrize("kind", OutcomeKind)
def test_every_outcome_of_aider_goes_on_or_ends_in_words(kind: OutcomeKind) -> None:
    ending = ending_of_aider(AiderOutcome(kind, commits=0))
    if kind is OutcomeKind.EDITED:
        assert ending is None
        return
    assert ending is not None
    if ending.event is RunEvent.FAIL:
        assert ending.kind is not None
        assert ending.detail
    else:
        assert ending.event is RunEvent.NO_CHANGE


@given(st.text(), st.sampled_from([None, *RunState]))
def test_whatever_an_error_says_there_is_an_ending(text: str, state: RunState | None) -> None:
    assert ending_of_error(RuntimeError(text), state).event is RunEvent.FAIL
