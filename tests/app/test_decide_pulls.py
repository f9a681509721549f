"""What is decided about pull requests: follow-ups, reviews, undo, and issues that have one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.decide import decide
from app.events import (
    CheckRerequested,
    CommentCreated,
    Event,
    IssueLabeled,
    PullClosed,
    ReviewCommentCreated,
    ReviewSubmitted,
)
from app.intents import (
    CancelRun,
    Facts,
    Intent,
    MessageKey,
    PullFacts,
    React,
    Reactable,
    ReactableKind,
    Remark,
    Reply,
    ReviewFacts,
    RunFacts,
    StartRun,
    Trigger,
    UndoPush,
)
from tests.app.test_decide import ALICE, CHECK, ISSUE, PULL, REPO, US, commented, labeled, shapes
from tests.app.test_decide import FACTS as ISSUE_FACTS

OURS = PullFacts(9, "Fix it", "https://x/9", "open", "aider/issue-7", "a" * 40, "main", False, True)
FACTS = replace(ISSUE_FACTS, pull=OURS)
SIDE = replace(ISSUE, number=9, is_pull_request=True)
FIRST = Remark(55, 55, "alice", "/aider use a tuple", "a.py", 3, None, "@@ -1 +1 @@")
SECOND = Remark(56, 50, "alice", "and this?", "b.py", 8, 6)
PUSHED = RunFacts("r9", 9, "published", "alice")


def said(body: str) -> CommentCreated:
    return commented(body, issue=SIDE)


def reviewed(body: str = "", state: str = "commented") -> ReviewSubmitted:
    return ReviewSubmitted(1, REPO, ALICE, replace(PULL, author=US.login), 44, state, body)


def inline(remark: Remark = FIRST) -> ReviewCommentCreated:
    return ReviewCommentCreated(
        *(1, REPO, ALICE, PULL, remark.comment_id, 44, None),
        *(remark.body, remark.path, remark.line, None, remark.diff_hunk, "a" * 40),
    )


def with_review(*remarks: Remark, body: str = "", state: str = "commented") -> Facts:
    return replace(FACTS, review=ReviewFacts(44, state, body, remarks))


def run_in(intents: tuple[Intent, ...]) -> StartRun:
    (run,) = [intent for intent in intents if isinstance(intent, StartRun)]
    return run


def test_a_command_on_a_pull_request_continues_it_from_its_head() -> None:
    intents = decide(said("/aider use a tuple"), FACTS)
    assert shapes(intents) == ["react eyes", "start command"]
    run = run_in(intents)
    assert (run.issue_number, run.pull, run.instruction) == (9, OURS, "use a tuple")


def test_so_it_does_on_anyones_whose_head_is_a_branch_here() -> None:
    theirs = replace(OURS, is_ours=False)
    assert run_in(decide(said("/aider more"), replace(FACTS, pull=theirs))).pull == theirs


def test_a_fork_is_answered_with_the_way_on_and_nothing_of_it_runs() -> None:
    fork = replace(OURS, is_fork=True)
    intents = decide(said("/aider more"), replace(FACTS, pull=fork))
    assert shapes(intents) == ["react confused", "reply fork"]


def test_nothing_is_pushed_to_a_branch_that_others_start_from() -> None:
    release = replace(OURS, head_ref="main", base_ref="release", is_ours=False, is_base=True)
    facts = replace(FACTS, pull=release)
    for words in ("/aider more", "/aider force", "/aider retry"):
        assert "start" not in " ".join(shapes(decide(said(words), facts)))
    assert shapes(decide(said("/aider more"), facts)) == ["react confused", "reply base_head"]


def test_a_retry_does_again_what_was_taken_back() -> None:
    done = RunFacts("r8", 9, "published", instruction="use a tuple")
    undo = RunFacts("r9", 9, "published", undoes=done)
    run = run_in(decide(said("/aider retry"), replace(FACTS, last_run=undo)))
    assert (run.instruction, run.retry_of) == ("use a tuple", "r8")


def test_a_retry_of_what_could_not_be_taken_back_takes_it_back() -> None:
    done = RunFacts("r8", 9, "published", instruction="use a tuple")
    undo = RunFacts("r9", 9, "failed", undoes=done)
    facts = replace(FACTS, last_run=undo, undoable=done)
    (*_, intent) = decide(said("/aider retry"), facts)
    assert isinstance(intent, UndoPush)
    assert intent.run_id == "r8"


def test_a_closed_pull_request_is_not_continued_not_even_by_force() -> None:
    closed = replace(said("/aider more"), issue=replace(SIDE, state="closed"))
    assert shapes(decide(closed, FACTS)) == ["reply pull_not_open"]
    forced = replace(closed, body="/aider force")
    assert shapes(decide(forced, FACTS)) == ["reply pull_not_open"]


def test_base_is_not_for_pull_requests() -> None:
    reply = decide(said("/aider base=dev more"), FACTS)[-1]
    assert isinstance(reply, Reply)
    assert reply.error is not None
    assert "base= is for issues" in reply.error.reason


def test_an_inline_command_starts_a_run_with_its_place() -> None:
    intents = decide(inline(), with_review(FIRST))
    assert shapes(intents) == ["react eyes", "start command"]
    assert run_in(intents).remarks == (FIRST,)
    (react,) = [i for i in intents if isinstance(i, React)]
    assert react.target == Reactable(ReactableKind.REVIEW_COMMENT, 55)


def test_a_review_is_one_run_with_all_its_comments_whichever_event_comes_first() -> None:
    facts = with_review(FIRST, SECOND, body="/aider model=m2 tidy up")
    by_review = run_in(decide(reviewed("/aider model=m2 tidy up"), facts))
    by_comment = run_in(decide(inline(), facts))
    assert by_review == by_comment
    assert by_review.remarks == (FIRST, SECOND)
    assert (by_review.instruction, by_review.options.model) == ("tidy up", "m2")


def test_requested_changes_on_ours_need_no_command_and_no_body() -> None:
    facts = with_review(SECOND, state="changes_requested")
    run = run_in(decide(reviewed("", "changes_requested"), facts))
    assert (run.instruction, run.remarks) == ("", (SECOND,))
    facts = with_review(SECOND, body="Please tidy up.", state="changes_requested")
    assert run_in(decide(reviewed("Please tidy up.", "changes_requested"), facts)).instruction == (
        "Please tidy up."
    )


@pytest.mark.parametrize(
    "event",
    [
        reviewed("nice work"),
        reviewed("", "approved"),
        replace(reviewed("no", "changes_requested"), pull=PULL),
        inline(SECOND),
    ],
)
def test_reviews_that_ask_nothing_of_us_start_nothing(event: Event) -> None:
    assert shapes(decide(event, with_review(SECOND))) == ["ignore"]


def test_a_stop_in_a_review_stops_and_is_no_wish() -> None:
    stop = replace(FIRST, body="/aider stop")
    facts = replace(with_review(stop), active_run=replace(PUSHED, state="agent"))
    assert shapes(decide(inline(stop), facts)) == ["react eyes", "cancel r9"]
    asked = replace(facts, review=ReviewFacts(44, "changes_requested", "", (stop,)))
    assert shapes(decide(reviewed("", "changes_requested"), asked)) == ["react eyes", "cancel r9"]


def test_closing_or_merging_the_pull_request_ends_its_run_whoever_did_it() -> None:
    facts = replace(FACTS, permission=None, active_run=replace(PUSHED, state="agent"))
    (cancel,) = decide(PullClosed(1, REPO, ALICE, replace(PULL, merged=True)), facts)
    assert cancel == CancelRun("r9", "alice", "pull request merged by alice")
    assert shapes(decide(PullClosed(1, REPO, US, PULL), facts)) == ["ignore"]


def test_undo_takes_back_our_last_push() -> None:
    intents = decide(said("/aider undo"), replace(FACTS, undoable=PUSHED))
    assert shapes(intents) == ["react eyes", "undo r9"]
    undo = intents[1]
    assert isinstance(undo, UndoPush)
    assert (undo.pull, undo.asked_by, undo.comment_id) == (OURS, ALICE, 33)


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        replace(FACTS, undoable=PUSHED, pull=replace(OURS, is_fork=True)),
        replace(FACTS, undoable=PUSHED, pull=None),
    ],
)
def test_undo_without_a_push_of_ours_says_so(facts: Facts) -> None:
    assert shapes(decide(said("/aider undo"), facts)) == ["reply nothing_to_undo"]


def test_undo_waits_for_nobody() -> None:
    facts = replace(FACTS, undoable=PUSHED, active_run=replace(PUSHED, state="agent"))
    assert shapes(decide(said("/aider undo"), facts)) == ["reply already_running"]
    assert shapes(decide(said("/aider stop\n/aider undo"), facts)) == [
        *("react eyes", "cancel r9", "react eyes", "undo r9")
    ]


def test_an_issue_that_has_an_open_pull_request_is_continued_there() -> None:
    intents = decide(commented("/aider use a tuple"), FACTS)
    assert shapes(intents) == ["react eyes", "start command", "reply continues_there"]
    run, reply = intents[1], intents[2]
    assert isinstance(run, StartRun)
    assert isinstance(reply, Reply)
    assert (run.issue_number, run.pull, reply.issue_number) == (9, OURS, 7)


@pytest.mark.parametrize("event", [labeled(), commented("/aider"), commented("/aider retry")])
def test_with_nothing_new_to_say_it_is_told_where_the_pull_request_is(event: Event) -> None:
    last = RunFacts("r7", 7, "published", "alice")
    assert shapes(decide(event, replace(FACTS, last_run=last))) == ["reply has_pull"]


def test_a_run_that_is_active_over_there_is_named() -> None:
    busy = replace(FACTS, pull=replace(OURS, active_run=replace(PUSHED, state="agent")))
    (reply,) = decide(commented("/aider more"), busy)
    assert isinstance(reply, Reply)
    assert reply.key is MessageKey.ALREADY_RUNNING
    assert reply.run is not None
    assert reply.run.run_id == "r9"


@pytest.mark.parametrize(
    ("issue", "why"),
    [
        (replace(ISSUE, locked=True), "the issue is locked"),
        (replace(ISSUE, assignees=("bob",)), "the issue is assigned to bob"),
    ],
)
def test_what_should_make_one_think_twice_is_asked_about_first(issue: object, why: str) -> None:
    event = replace(labeled(), issue=issue)
    assert isinstance(event, IssueLabeled)
    (reply,) = decide(event, ISSUE_FACTS)
    assert isinstance(reply, Reply)
    assert (reply.key, reply.detail) == (MessageKey.ASK_FIRST, why)
    forced = replace(commented("/aider force\nbut gently"), issue=issue)
    run = run_in(decide(forced, ISSUE_FACTS))
    assert (run.trigger, run.instruction) == (Trigger.COMMAND, "but gently")


def test_who_is_assigned_or_assigned_the_bot_beside_nobody_is_not_asked() -> None:
    mine = replace(labeled(), issue=replace(ISSUE, assignees=("alice", "bob")))
    assert shapes(decide(mine, ISSUE_FACTS)) == ["react eyes", "start label"]
    bots = replace(labeled(), issue=replace(ISSUE, assignees=(US.login,)))
    assert shapes(decide(bots, ISSUE_FACTS)) == ["react eyes", "start label"]


def test_force_starts_on_a_closed_issue_but_not_beside_another_run() -> None:
    closed = commented("/aider force", issue=replace(ISSUE, state="closed"))
    assert shapes(decide(closed, ISSUE_FACTS)) == ["react eyes", "start command"]
    busy = replace(ISSUE_FACTS, active_run=RunFacts("r1", 7, "agent"))
    assert shapes(decide(closed, busy)) == ["reply already_running"]


def test_the_label_on_a_pull_request_says_how_to_ask() -> None:
    assert shapes(decide(labeled(issue=SIDE), FACTS)) == ["reply not_by_label"]


def test_rerunning_the_check_of_a_follow_up_does_it_again_on_the_new_head() -> None:
    rerun = CheckRerequested(1, REPO, ALICE, CHECK)
    run = run_in(decide(rerun, replace(FACTS, last_run=replace(PUSHED, instruction="tidy"))))
    assert (run.issue_number, run.pull, run.instruction) == (9, OURS, "tidy")
    closed = replace(FACTS, last_run=PUSHED, pull=replace(OURS, state="closed"))
    assert shapes(decide(rerun, closed)) == ["reply pull_not_open"]
