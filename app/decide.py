"""Event + facts → intents: what Drydock does about something that happened. Pure.

`needs_facts` says first whether GitHub has to be asked anything; most deliveries end there.
`app.obey` follows what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from app.ci import on_failed_check, why_passed_over
from app.commands import Command, CommandKind, CommandOptions, parse_commands
from app.events import (
    Actor,
    CheckActionRequested,
    CheckCompleted,
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
    PullClosed,
    ReviewCommentCreated,
    ReviewSubmitted,
)
from app.intents import (
    CancelRun,
    Facts,
    FollowReach,
    Ignore,
    Intents,
    MessageKey,
    Reactable,
    ReactableKind,
    Reaction,
    Reply,
    ReviewFacts,
    RunFacts,
    StartRun,
    Trigger,
)
from app.obey import Said, follow, react, retry, start
from app.policy import Allow, Deny, DenyKind, may_run, screen_actor
from app.reach import reach_of

CHANGES_REQUESTED = "changes_requested"


def needs_facts(
    event: Event,
    *,
    own_login: str | None,
    app_id: int | None,
    label: str,
    allowed_bots: Collection[str] = (),
) -> Ignore | None:
    """Return why this event needs no look-up and no action; None when facts must be asked."""
    if isinstance(event, Ping):
        return Ignore("GitHub tried the address; nothing to do")
    if isinstance(event, InstallationChanged):
        return None if reach_of(event) else Ignore("recorded; nothing to do")
    if isinstance(event, CheckCompleted):
        # Whoever sends it (a build service, or we ourselves by a push) asks for nothing.
        passed_over = why_passed_over(event, app_id)
        return Ignore(passed_over) if passed_over else None
    screened = screen_actor(event.actor, own_login=own_login, allowed_bots=allowed_bots)
    if screened is not None and not _ends_a_run(event, screened):
        return Ignore(screened.reason)
    why_not = _irrelevant(event, own_login, app_id, label)
    return Ignore(why_not) if why_not else None


def label_in_question(event: Event, operators: str) -> str:
    """Return the label to ask `needs_facts` about as long as the repository's config is not known.

    It may name another one than the operator, so any label may be the one.
    """
    return event.label if isinstance(event, IssueLabeled | IssueUnlabeled) else operators


def _ends_a_run(event: Event, screened: Deny) -> bool:
    """Whoever closed the issue or took the label off, a bot or a ghost: its run has to end."""
    ends = isinstance(event, IssueClosed | IssueUnlabeled | PullClosed)
    return ends and screened.kind is not DenyKind.OWN_EVENT


def _irrelevant(event: Event, own_login: str | None, app_id: int | None, label: str) -> str | None:
    match event:
        case IssueLabeled() | IssueUnlabeled():
            same = event.label.lower() == label.lower()
            return None if same else f"the label is not {label}"
        case IssueAssigned():
            return None if _same(event.assignee, own_login) else "assigned to somebody else"
        case ReviewSubmitted():
            return _irrelevant_review(event, own_login)
        case CommentCreated() | ReviewCommentCreated():
            return None if parse_commands(event.body) else "no /aider command in it"
        case CheckRerequested() | CheckActionRequested():
            ours = app_id is not None and event.check.app_id == app_id
            return None if ours else "another app's check"
        case _:
            return None


def _irrelevant_review(event: ReviewSubmitted, own_login: str | None) -> str | None:
    """A command in an inline comment comes as an event of its own."""
    wants_changes = event.state == CHANGES_REQUESTED and _same(event.pull.author, own_login)
    if wants_changes or parse_commands(event.body):
        return None
    return "a review that asks nothing of Drydock"


def _same(login: str, own_login: str | None) -> bool:
    return own_login is not None and login.lower() == own_login.lower()


def decide(event: Event, facts: Facts) -> Intents:
    """Return what to do, in order; never empty. Missing facts count against the actor."""
    ignored = needs_facts(
        event,
        own_login=facts.own_login,
        app_id=facts.app_id,
        label=facts.label,
        allowed_bots=facts.allowed_bots,
    )
    if ignored is not None:
        return (ignored,)
    return _DECIDERS[type(event)](event, facts)


def _on_label(event: IssueLabeled, facts: Facts) -> Intents:
    return _like_label(event, facts, Trigger.LABEL)


def _on_assignment(event: IssueAssigned, facts: Facts) -> Intents:
    return _like_label(event, facts, Trigger.ASSIGNMENT)


def _like_label(event: IssueLabeled | IssueAssigned, facts: Facts, trigger: Trigger) -> Intents:
    number = event.issue.number
    said = _said_of(event.issue, event.actor, facts, Reactable(ReactableKind.ISSUE, number))
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        return _refuse(said, allowed)
    if said.on_pull:
        return (Reply(number, MessageKey.NOT_BY_LABEL, f"{trigger} on a pull request"),)
    run = StartRun(number, event.actor, trigger, f"{trigger} by {event.actor.login}")
    return start(run, said, facts)


def _said_of(issue: IssueRef, actor: Actor, facts: Facts, target: Reactable) -> Said:
    return Said(
        number=issue.number,
        actor=actor,
        state=issue.state,
        on_pull=issue.is_pull_request,
        targets=(target,),
        comment_id=target.id if target.kind is ReactableKind.COMMENT else None,
        ask_first=_why_ask(issue, actor, facts.own_login),
    )


def _why_ask(issue: IssueRef, actor: Actor, own_login: str | None) -> str:
    """Say what should make somebody think twice before a run begins; "" for nothing."""
    if issue.locked:
        return "the issue is locked"
    others = [who for who in issue.assignees if not _same(who, own_login)]
    if others and actor.login not in others:
        return f"the issue is assigned to {', '.join(others[:3])}"
    return ""


def _on_unlabel(event: IssueUnlabeled, facts: Facts) -> Intents:
    return _cancel(event.actor, facts, f"label removed by {event.actor.login}")


def _on_closed(event: IssueClosed, facts: Facts) -> Intents:
    return _cancel(event.actor, facts, f"issue {event.how} by {event.actor.login}")


def _on_pull_closed(event: PullClosed, facts: Facts) -> Intents:
    how = "merged" if event.pull.merged else "closed"
    return _cancel(event.actor, facts, f"pull request {how} by {event.actor.login}")


def _cancel(actor: Actor, facts: Facts, reason: str) -> Intents:
    """Whoever could remove the label or close the issue may end its run."""
    if facts.active_run is None:
        return (Ignore(f"{reason}; no run was active"),)
    return (CancelRun(facts.active_run.run_id, actor.login, reason),)


def _on_comment(event: CommentCreated, facts: Facts) -> Intents:
    target = Reactable(ReactableKind.COMMENT, event.comment_id)
    said = _said_of(event.issue, event.actor, facts, target)
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        return _refuse(said, allowed)
    return follow(parse_commands(event.body), said, facts)


def _on_review_comment(event: ReviewCommentCreated, facts: Facts) -> Intents:
    """The comment brings its whole review with it: whichever event comes first starts the run."""
    said = _said_inline(event, facts)
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        target = Reactable(ReactableKind.REVIEW_COMMENT, event.comment_id)
        return _refuse(replace(said, targets=(target,)), allowed)
    if facts.review is None:
        return (Ignore("its review is gone"),)
    return _follow_review(facts.review, said, facts)


def _on_review(event: ReviewSubmitted, facts: Facts) -> Intents:
    """A review cannot be reacted to, so a refusal of one stays in our records."""
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        return (Ignore(allowed.reason),)
    said = _said_inline(event, facts)
    review = facts.review or ReviewFacts(event.review_id, event.state, event.body)
    # What is signed is what was said; GitHub's present answer may have been edited since.
    return _follow_review(replace(review, state=event.state, body=event.body), said, facts)


def _said_inline(event: ReviewSubmitted | ReviewCommentCreated, facts: Facts) -> Said:
    remarks = facts.review.remarks if facts.review is not None else ()
    return Said(
        number=event.pull.number,
        actor=event.actor,
        state=facts.pull.state if facts.pull is not None else event.pull.state,
        on_pull=True,
        targets=tuple(Reactable(ReactableKind.REVIEW_COMMENT, each.comment_id) for each in remarks),
        remarks=remarks,
    )


def _follow_review(review: ReviewFacts, said: Said, facts: Facts) -> Intents:
    """One run for all that a review wishes; its other commands are followed one by one."""
    bodies = (review.body, *(remark.body for remark in review.remarks))
    commands = [command for body in bodies for command in parse_commands(body)]
    wishes = [c for c in commands if isinstance(c, Command) and c.kind is CommandKind.RUN]
    others = [command for command in commands if command not in wishes]
    ours = facts.pull is not None and facts.pull.is_ours
    if wishes or (review.state == CHANGES_REQUESTED and ours and not others):
        others.append(_one_wish(review, wishes))
    return follow(others, said, facts) or (Ignore("a review that asks nothing of Drydock"),)


def _one_wish(review: ReviewFacts, wishes: Sequence[Command]) -> Command:
    """The review's own words are the instruction; inline ones stay with their lines."""
    asked = [c for c in parse_commands(review.body) if isinstance(c, Command)]
    said = "\n\n".join(c.text for c in asked if c.kind is CommandKind.RUN and c.text)
    text = said if asked else review.body.strip()
    options = (wish.options for wish in wishes if wish.options != CommandOptions())
    return Command(CommandKind.RUN, text, next(options, CommandOptions()))


def _on_rerequest(event: CheckRerequested, facts: Facts) -> Intents:
    return _by_button("retry", event, facts)


def _on_button(event: CheckActionRequested, facts: Facts) -> Intents:
    return _by_button(event.identifier, event, facts)


def _by_button(
    identifier: str, event: CheckRerequested | CheckActionRequested, facts: Facts
) -> Intents:
    """A check has no comment to react to: who may not press its buttons is only recorded."""
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        return (Ignore(allowed.reason),)
    run = facts.active_run or facts.last_run
    if run is None:
        return (Ignore("the check's run is not known here"),)
    if identifier == "stop":
        return _cancel(event.actor, facts, f"Stop pressed by {event.actor.login}")
    if identifier == "retry":
        return _retry_by_button(run, event.actor, facts)
    return (Ignore("not one of our buttons"),)


def _retry_by_button(run: RunFacts, actor: Actor, facts: Facts) -> Intents:
    if facts.active_run is not None:
        return (Ignore("retry pressed, but a run is active"),)
    on_pull = facts.pull is not None and facts.pull.number == run.issue_number
    state = facts.pull.state if on_pull and facts.pull is not None else facts.issue_state
    said = Said(run.issue_number, actor, state, on_pull)
    intents = retry(run, Command(CommandKind.RETRY), said, facts)
    # The button was pressed on the pull request, whatever the run is about: the answer goes there.
    shown_on = facts.pull.number if facts.pull is not None else run.issue_number
    return tuple(
        replace(intent, issue_number=shown_on) if isinstance(intent, Reply) else intent
        for intent in intents
    )


def _on_reach(event: InstallationChanged, _facts: Facts) -> Intents:
    change = reach_of(event)
    return (FollowReach(change, change.reason),) if change is not None else ()


def _may(actor: Actor, facts: Facts) -> Allow | Deny:
    return may_run(
        actor,
        facts.permission,
        min_permission=facts.min_permission,
        own_login=facts.own_login,
        allowed_bots=facts.allowed_bots,
        team=facts.team,
    )


def _refuse(said: Said, denied: Deny) -> Intents:
    """One quiet reaction and no run."""
    return react(said, Reaction.CONFUSED, denied.reason)


# Each decider takes its own event; `decide` looks it up by that very type.
_DECIDERS: Mapping[type, Callable[..., Intents]] = {
    IssueLabeled: _on_label,
    IssueUnlabeled: _on_unlabel,
    IssueClosed: _on_closed,
    IssueAssigned: _on_assignment,
    CommentCreated: _on_comment,
    PullClosed: _on_pull_closed,
    ReviewCommentCreated: _on_review_comment,
    ReviewSubmitted: _on_review,
    CheckRerequested: _on_rerequest,
    CheckActionRequested: _on_button,
    CheckCompleted: on_failed_check,
    InstallationChanged: _on_reach,
}
