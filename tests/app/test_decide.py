from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.commands import CommandOptions
from app.decide import decide, label_in_question, needs_facts
from app.events import (
    Actor,
    CheckActionRequested,
    CheckCompleted,
    CheckRef,
    CheckRerequested,
    CommentCreated,
    Event,
    InstallationChanged,
    IssueAssigned,
    IssueClosed,
    IssueLabeled,
    IssueRef,
    IssueUnlabeled,
    Ping,
    PullRef,
    RepoRef,
    ReviewCommentCreated,
    ReviewSubmitted,
)
from app.intents import (
    CancelRun,
    Facts,
    Ignore,
    Intent,
    MessageKey,
    React,
    Reactable,
    ReactableKind,
    Reaction,
    Reply,
    RunFacts,
    StartRun,
    Trigger,
    UndoPush,
)
from app.policy import TeamAnswer

REPO = RepoRef(5, "acme", "ship", "main")
ALICE = Actor("alice", 11)
US = Actor("dock[bot]", 12, "Bot")
ROBOT = Actor("robot[bot]", 13, "Bot")
ISSUE = IssueRef(7, "It leaks", "", "bob", False, "open", False)
PULL = PullRef(9, "t", "", "bob", "open", "h", "a" * 40, 5, "main", "b" * 40)
CHECK = CheckRef(1, "Drydock", "a" * 40, "r1", "completed", "failure", 99)
FACTS = Facts("write", own_login="dock[bot]", app_id=99, models=("m1", "m2"))
ACTIVE = RunFacts("r1", 7, "agent", "alice")
ENDED = RunFacts("r0", 7, "failed", "alice", "use tar", CommandOptions(model="m1"))


def labeled(label: str = "aider", actor: Actor = ALICE, issue: IssueRef = ISSUE) -> IssueLabeled:
    return IssueLabeled(1, REPO, actor, issue, label)


def commented(body: str, actor: Actor = ALICE, issue: IssueRef = ISSUE) -> CommentCreated:
    return CommentCreated(1, REPO, actor, issue, 33, body)


def reviewed(body: str) -> ReviewSubmitted:
    return ReviewSubmitted(1, REPO, ALICE, PULL, 44, "commented", body)


def inline(body: str) -> ReviewCommentCreated:
    return ReviewCommentCreated(
        1, REPO, ALICE, PULL, 55, 44, None, body, "a.py", 3, None, "@@", "a" * 40
    )


def shapes(intents: tuple[Intent, ...]) -> list[str]:
    return [_shape(intent) for intent in intents]


def _shape(intent: Intent) -> str:
    match intent:
        case React():
            return f"react {intent.content}"
        case Reply():
            return f"reply {intent.key}"
        case StartRun():
            return f"start {intent.trigger}"
        case CancelRun():
            return f"cancel {intent.run_id}"
        case UndoPush():
            return f"undo {intent.run_id}"
        case Ignore():
            return "ignore"


def test_the_label_starts_a_run_for_the_labeller_and_is_seen_at_once() -> None:
    react, start = decide(labeled(), FACTS)
    assert react == React(Reactable(ReactableKind.ISSUE, 7), Reaction.EYES, "label by alice")
    assert isinstance(start, StartRun)
    assert (start.asked_by, start.trigger, start.issue_number) == (ALICE, Trigger.LABEL, 7)


def test_the_labels_case_does_not_matter_as_on_github() -> None:
    assert shapes(decide(labeled("Aider"), FACTS)) == ["react eyes", "start label"]


def test_another_label_does_nothing_although_ours_is_on_the_issue() -> None:
    issue = replace(ISSUE, labels=("aider", "bug"))
    assert decide(labeled("bug", issue=issue), FACTS) == (Ignore("the label is not aider"),)


def test_a_command_starts_a_run_with_its_text_and_options() -> None:
    intents = decide(commented("/aider model=m2 base=dev use tar"), FACTS)
    assert shapes(intents) == ["react eyes", "start command"]
    start = intents[1]
    assert isinstance(start, StartRun)
    assert start.instruction == "use tar"
    assert start.options == CommandOptions("m2", "dev")
    assert start.comment_id == 33


def test_assigning_the_bot_is_like_the_label_and_assigning_others_is_nothing() -> None:
    ours = IssueAssigned(1, REPO, ALICE, ISSUE, "dock[bot]")
    assert shapes(decide(ours, FACTS)) == ["react eyes", "start assignment"]
    assert shapes(decide(replace(ours, assignee="bob"), FACTS)) == ["ignore"]


@pytest.mark.parametrize("permission", ["none", "read", "triage", None, "owner"])
@pytest.mark.parametrize(
    "event", [labeled(), commented("/aider"), commented("/aider stop"), inline("/aider")]
)
def test_without_permission_there_is_one_quiet_reaction_and_no_run(
    event: Event, permission: str | None
) -> None:
    facts = replace(FACTS, permission=permission, active_run=ACTIVE)
    (react,) = decide(event, facts)
    assert isinstance(react, React)
    assert react.content is Reaction.CONFUSED
    assert "needs write" in react.reason


def test_a_review_without_permission_is_only_recorded() -> None:
    assert shapes(decide(reviewed("/aider"), replace(FACTS, permission="read"))) == ["ignore"]


@pytest.mark.parametrize("actor", [US, ROBOT, Actor("ghost", 10137)])
def test_ourselves_bots_and_ghosts_start_nothing(actor: Actor) -> None:
    facts = replace(FACTS, permission="admin")
    assert shapes(decide(labeled(actor=actor), facts)) == ["ignore"]
    assert shapes(decide(commented("/aider", actor), facts)) == ["ignore"]


def test_a_listed_bot_may_start_runs() -> None:
    facts = replace(FACTS, permission=None, allowed_bots=("robot[bot]",))
    assert shapes(decide(labeled(actor=ROBOT), facts)) == ["react eyes", "start label"]


@pytest.mark.parametrize("event", [labeled(), commented("/aider more"), commented("/aider retry")])
def test_while_a_run_is_active_no_second_one_starts_and_the_first_is_named(event: Event) -> None:
    facts = replace(FACTS, active_run=ACTIVE, last_run=ENDED)
    (reply,) = decide(event, facts)
    assert isinstance(reply, Reply)
    assert (reply.key, reply.run) == (MessageKey.ALREADY_RUNNING, ACTIVE)


@pytest.mark.parametrize("event", [labeled(), commented("/aider")])
def test_on_a_closed_issue_nothing_starts_and_it_is_said(
    event: IssueLabeled | CommentCreated,
) -> None:
    closed = replace(event, issue=replace(ISSUE, state="closed"))
    assert shapes(decide(closed, FACTS)) == ["reply not_open"]


@pytest.mark.parametrize("actor", [ALICE, ROBOT, Actor("ghost", 10137)])
def test_closing_the_issue_or_removing_the_label_ends_its_run_whoever_did_it(actor: Actor) -> None:
    facts = replace(FACTS, permission=None, active_run=ACTIVE)
    closed = IssueClosed(1, REPO, actor, ISSUE, "transferred")
    (cancel,) = decide(closed, facts)
    assert cancel == CancelRun("r1", actor.login, f"issue transferred by {actor.login}")
    unlabeled = IssueUnlabeled(1, REPO, actor, ISSUE, "aider")
    assert shapes(decide(unlabeled, facts)) == ["cancel r1"]
    assert shapes(decide(replace(unlabeled, label="bug"), facts)) == ["ignore"]
    assert shapes(decide(closed, FACTS)) == ["ignore"]


def test_closing_by_ourselves_ends_nothing() -> None:
    facts = replace(FACTS, active_run=ACTIVE)
    assert shapes(decide(IssueClosed(1, REPO, US, ISSUE), facts)) == ["ignore"]


@pytest.mark.parametrize(
    ("text", "active", "last", "said"),
    [
        ("help", None, None, ["reply help"]),
        ("status", None, None, ["reply nothing_running"]),
        ("status", ACTIVE, ENDED, ["reply status"]),
        ("status", None, ENDED, ["reply status"]),
        ("stop", ACTIVE, None, ["react eyes", "cancel r1"]),
        ("stop", None, ENDED, ["reply nothing_running"]),
        ("retry", None, None, ["reply nothing_to_retry"]),
        ("retry", None, ENDED, ["react eyes", "start retry"]),
        ("undo", None, ENDED, ["reply nothing_to_undo"]),
        ("modle=x", None, None, ["react confused", "reply command_error"]),
        ("model=other", None, None, ["react confused", "reply command_error"]),
        ("attempts=2", None, None, ["react confused", "reply command_error"]),
        ("stpo", ACTIVE, None, ["react confused", "reply command_error"]),
    ],
)
def test_every_command_is_answered(
    text: str, active: RunFacts | None, last: RunFacts | None, said: list[str]
) -> None:
    facts = replace(FACTS, active_run=active, last_run=last)
    assert shapes(decide(commented(f"/aider {text}"), facts)) == said


def test_a_retry_repeats_what_was_asked_and_adds_what_is_said_now() -> None:
    facts = replace(FACTS, last_run=ENDED)
    start = decide(commented("/aider retry base=dev\nbut gently"), facts)[1]
    assert isinstance(start, StartRun)
    assert start.instruction == "use tar\n\nbut gently"
    assert start.options == CommandOptions("m1", "dev")
    assert start.retry_of == "r0"


def test_several_commands_see_what_the_ones_before_them_did() -> None:
    facts = replace(FACTS, active_run=ACTIVE)
    intents = decide(commented("/aider stop\n/aider use wood\n/aider use steel"), facts)
    assert shapes(intents) == [
        "react eyes",
        "cancel r1",
        "react eyes",
        "start command",
        "reply already_running",
    ]


def test_a_model_that_the_operator_did_not_list_is_refused_with_the_list() -> None:
    reply = decide(commented("/aider model=evil/m fix"), FACTS)[1]
    assert isinstance(reply, Reply)
    assert reply.error is not None
    assert reply.error.reason == "model= can be one of: m1, m2"


@pytest.mark.parametrize(
    "event", [commented("hi"), inline("hi"), reviewed(""), commented("> /aider")]
)
def test_talk_without_a_command_is_none_of_our_business(event: Event) -> None:
    assert shapes(decide(event, FACTS)) == ["ignore"]
    asked = needs_facts(event, own_login="dock[bot]", app_id=99, label="aider")
    assert isinstance(asked, Ignore)
    assert asked.reason in {"no /aider command in it", "a review that asks nothing of Drydock"}


def test_the_buttons_and_the_rerun_of_our_check_retry_and_stop() -> None:
    rerun = CheckRerequested(1, REPO, ALICE, CHECK)
    assert shapes(decide(rerun, replace(FACTS, last_run=ENDED))) == ["start retry"]
    assert shapes(decide(rerun, replace(FACTS, active_run=ACTIVE))) == ["ignore"]
    assert shapes(decide(rerun, FACTS)) == ["ignore"]
    stop = CheckActionRequested(1, REPO, ALICE, CHECK, "stop")
    assert shapes(decide(stop, replace(FACTS, active_run=ACTIVE))) == ["cancel r1"]
    assert shapes(decide(stop, replace(FACTS, active_run=ACTIVE, permission="read"))) == ["ignore"]
    other = replace(stop, identifier="lgtm")
    assert shapes(decide(other, replace(FACTS, active_run=ACTIVE))) == ["ignore"]
    strangers = replace(rerun, check=replace(CHECK, app_id=1))
    assert shapes(decide(strangers, replace(FACTS, last_run=ENDED))) == ["ignore"]


@pytest.mark.parametrize(
    "event",
    [
        Ping(1),
        InstallationChanged(1, "acme", "created", ALICE),
        CheckCompleted(1, REPO, ALICE, CHECK),
    ],
)
def test_what_changes_nothing_is_ignored_with_a_reason(event: Event) -> None:
    (ignored,) = decide(event, FACTS)
    assert isinstance(ignored, Ignore)
    assert ignored.reason


@given(
    st.sampled_from(
        ["", "/aider", "/aider stop", "/aider retry", "/aider modle=1", "/aider x\n/aider"]
    ),
    st.sampled_from(["none", "read", "triage", "write", "maintain", "admin", None]),
    st.sampled_from([None, ACTIVE]),
    st.sampled_from([None, ENDED]),
    st.sampled_from(["open", "closed"]),
    st.sampled_from([ALICE, US, ROBOT]),
    st.booleans(),
)
def test_no_run_ever_starts_without_permission_beside_another_or_on_a_closed_issue(
    body: str,
    permission: str | None,
    active: RunFacts | None,
    last: RunFacts | None,
    state: str,
    actor: Actor,
    pull: bool,
) -> None:
    issue = replace(ISSUE, state=state, is_pull_request=pull)
    facts = replace(FACTS, permission=permission, active_run=active, last_run=last)
    intents = decide(commented(body, actor, issue), facts)
    assert intents
    assert all(intent.reason for intent in intents)
    starts = [intent for intent in intents if isinstance(intent, StartRun)]
    assert len(starts) <= 1
    if starts:
        assert permission in {"write", "maintain", "admin"}
        assert state == "open"
        assert not pull
        assert actor is ALICE
        assert active is None or any(isinstance(i, CancelRun) for i in intents)


@pytest.mark.parametrize(
    ("label", "then"), [("aider", ["ignore"]), ("robot", ["react eyes", "start label"])]
)
def test_any_label_may_be_the_one_until_the_repositorys_config_is_known(
    label: str, then: list[str]
) -> None:
    event = labeled(label)
    asked = label_in_question(event, "aider")
    assert needs_facts(event, own_login=None, app_id=99, label=asked) is None
    assert shapes(decide(event, replace(FACTS, label="robot"))) == then


@pytest.mark.parametrize(
    ("is_member", "then"),
    [
        (True, ["react eyes", "start label"]),
        (False, ["react confused"]),
        (None, ["react confused"]),
    ],
)
def test_who_is_not_in_the_team_gets_a_quiet_reaction_and_no_run(
    is_member: bool | None, then: list[str]
) -> None:
    facts = replace(FACTS, team=TeamAnswer("acme/crew", is_member))
    assert shapes(decide(labeled(), facts)) == then
