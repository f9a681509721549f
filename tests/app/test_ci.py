"""What is decided when a check of somebody's fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.decide import decide, needs_facts
from app.events import Actor, CheckCompleted, CheckRef
from app.github.values import FailedCheck
from app.intents import (
    CiFacts,
    Facts,
    Ignore,
    MessageKey,
    PullFacts,
    Reply,
    RunFacts,
    StartRun,
    Trigger,
    Wait,
)
from app.messages import StatusView, status_comment
from app.states import RunState
from tests.app.test_decide import REPO, ROBOT, US

HEAD = "a" * 40
CHECK = CheckRef(1, "mypy", HEAD, "", "completed", "failure", 7, (9,))
EVENT = CheckCompleted(1, REPO, ROBOT, CHECK)
MYPY = FailedCheck(1, "mypy", "failure")
PULL = PullFacts(9, "Fix it", "https://x/9", "open", "aider/issue-7", HEAD, "main", False, True)
LAST = RunFacts("r1", 7, "published", "alice", asked_by_id=11, head_sha=HEAD)
CI = CiFacts(True, 1, 0, (MYPY,))
FACTS = Facts(None, last_run=LAST, pull=PULL, ci=CI, own_login=US.login, app_id=99)


def test_it_starts_a_run_on_the_head_for_whoever_asked_for_the_last_one() -> None:
    (run,) = decide(EVENT, FACTS)
    assert isinstance(run, StartRun)
    assert (run.issue_number, run.pull, run.trigger) == (9, PULL, Trigger.CHECK)
    assert (run.asked_by, run.failed, run.instruction) == (Actor("alice", 11), (MYPY,), "")


@pytest.mark.parametrize("actor", [ROBOT, US, Actor("eve", 66), Actor("ghost", 10137)])
def test_who_sent_the_event_does_not_matter(actor: Actor) -> None:
    (run,) = decide(replace(EVENT, actor=actor), FACTS)
    assert isinstance(run, StartRun)


@pytest.mark.parametrize(
    ("conclusion", "counts"),
    [
        ("failure", True),
        ("timed_out", True),
        ("success", False),
        ("neutral", False),
        ("skipped", False),
        ("cancelled", False),
        ("action_required", False),
        ("stale", False),
        (None, False),
    ],
)
def test_only_what_failed_or_took_too_long_counts(conclusion: str | None, counts: bool) -> None:
    event = replace(EVENT, check=replace(CHECK, conclusion=conclusion))
    ignored = needs_facts(event, own_login=None, app_id=99, label="aider")
    assert (ignored is None) is counts


def test_our_own_check_says_nothing_new() -> None:
    event = replace(EVENT, check=replace(CHECK, app_id=99))
    assert decide(event, FACTS) == (Ignore("our own check"),)


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (replace(FACTS, pull=None), "of no pull request of ours"),
        (replace(FACTS, last_run=None), "of no pull request of ours"),
        (replace(FACTS, ci=None), "of no pull request of ours"),
        (replace(FACTS, ci=replace(CI, is_on=False)), "fix_ci is off"),
        (replace(FACTS, ci=replace(CI, failed=())), "no check of that commit fails any more"),
        (replace(FACTS, pull=replace(PULL, is_ours=False)), "is not Drydock's"),
        (replace(FACTS, pull=replace(PULL, is_fork=True)), "is not Drydock's"),
        (replace(FACTS, pull=replace(PULL, state="closed")), "the pull request is closed"),
        (replace(FACTS, pull=replace(PULL, head_sha="b" * 40)), "is not the head any more"),
        (replace(FACTS, active_run=RunFacts("r2", 9, "agent")), "a run is at work"),
    ],
)
def test_what_speaks_against_a_run_is_recorded_and_nothing_is_said(facts: Facts, why: str) -> None:
    (ignored,) = decide(EVENT, facts)
    assert isinstance(ignored, Ignore)
    assert why in ignored.reason


def test_while_the_run_that_pushed_the_commit_ends_it_waits() -> None:
    ending = replace(LAST, state="publish")
    for pull in (PULL, None):
        (wait,) = decide(EVENT, replace(FACTS, active_run=ending, pull=pull))
        assert isinstance(wait, Wait)


@pytest.mark.parametrize(("limit", "rounds"), [(1, 1), (2, 2), (1, 3)])
def test_after_the_last_round_it_says_so(limit: int, rounds: int) -> None:
    (reply,) = decide(EVENT, replace(FACTS, ci=replace(CI, limit=limit, rounds=rounds)))
    assert isinstance(reply, Reply)
    assert (reply.key, reply.issue_number) == (MessageKey.CI_ROUNDS, 9)


def test_before_the_last_round_it_goes_on() -> None:
    (run,) = decide(EVENT, replace(FACTS, ci=replace(CI, limit=2, rounds=1)))
    assert isinstance(run, StartRun)


def test_the_status_comment_does_not_say_that_a_person_asked_for_it() -> None:
    view = StatusView("R1", RunState.AGENT, "alice", after_check=True)
    said = status_comment(view)
    assert "A check failed on the head; alice asked for the run before." in said
    assert "Asked for by" not in said


def test_what_a_person_took_back_is_not_put_there_again() -> None:
    undo = replace(LAST, undoes=replace(LAST, run_id="r0", head_sha="b" * 40))
    (ignored,) = decide(EVENT, replace(FACTS, last_run=undo))
    assert ignored == Ignore("a push was taken back, and stays so")
    pushed_since = replace(undo, head_sha="c" * 40)
    assert isinstance(decide(EVENT, replace(FACTS, last_run=pushed_since))[0], StartRun)
