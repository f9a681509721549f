"""A check failed on a pull request of ours + facts → intents. Pure.

Who sent the event does not matter: a build service did. The run is asked for by whoever asked for
the last one there, and what may be said in the check is no instruction.
"""

from __future__ import annotations

from app.events import Actor, CheckCompleted
from app.intents import (
    CiFacts,
    Facts,
    Ignore,
    Intents,
    MessageKey,
    PullFacts,
    Reply,
    RunFacts,
    StartRun,
    Trigger,
    Wait,
)
from app.obey import Said, start

FAILED = frozenset({"failure", "timed_out"})


def why_passed_over(event: CheckCompleted, app_id: int | None) -> str | None:
    """Return why this result of a check means nothing here, whatever the facts; None if it may."""
    if event.check.conclusion not in FAILED:
        return "a check that did not fail"
    if app_id is not None and event.check.app_id == app_id:
        return "our own check"
    return None


def on_failed_check(event: CheckCompleted, facts: Facts) -> Intents:
    """Start one run for the head, or say once that there were enough of them."""
    sha, pull, ci, last = event.check.head_sha, facts.pull, facts.ci, facts.last_run
    busy = facts.active_run
    if busy is not None and busy.head_sha == sha:
        # It pushed this head, and is about to end: the checks were quicker.
        return (Wait(f"run {busy.run_id}, which pushed that commit, has not ended"),)
    if pull is None or ci is None or last is None:
        return (Ignore("the check is of no pull request of ours"),)
    why_not = _why_not(sha, pull, ci, busy) or _was_taken_back(sha, last)
    if why_not:
        return (Ignore(why_not),)
    if ci.rounds >= ci.limit:
        reason = f"a check failed after {ci.rounds} rounds of fix_ci"
        return (Reply(pull.number, MessageKey.CI_ROUNDS, reason, detail=str(ci.rounds)),)
    return _start(pull, ci, last, facts)


def _why_not(sha: str, pull: PullFacts, ci: CiFacts, busy: RunFacts | None) -> str:
    """The first of these that holds; "" for none."""
    reasons = (
        (not ci.is_on, "fix_ci is off in this repository"),
        (not pull.is_ours or pull.is_fork, "the pull request is not Drydock's"),
        (pull.state != "open", f"the pull request is {pull.state}"),
        (pull.head_sha != sha, "the check is of a commit that is not the head any more"),
        (busy is not None, "a run is at work on the pull request; what it pushes is checked anew"),
        (not ci.failed, "no check of that commit fails any more"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _was_taken_back(sha: str, last: RunFacts) -> str:
    """A person took back what mended it, perhaps: that is not put there again unasked."""
    is_undo = last.undoes is not None and last.head_sha == sha
    return "a push was taken back, and stays so" if is_undo else ""


def _start(pull: PullFacts, ci: CiFacts, last: RunFacts, facts: Facts) -> Intents:
    actor = Actor(last.asked_by, last.asked_by_id)
    reason = f"a check failed on the head of #{pull.number}"
    run = StartRun(pull.number, actor, Trigger.CHECK, reason, failed=ci.failed)
    return start(run, Said(pull.number, actor, pull.state, on_pull=True), facts)
