"""Event + facts → intents: what Drydock does about something that happened. Pure.

`needs_facts` says first whether GitHub has to be asked anything; most deliveries end there. Every
intent carries the reason that is recorded with the delivery.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.commands import Command, CommandError, CommandKind, CommandOptions, parse_commands
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
    IssueUnlabeled,
    Ping,
    PullClosed,
    ReviewCommentCreated,
    ReviewSubmitted,
)
from app.policy import Allow, Deny, DenyKind, may_run, permission_rank, screen_actor
from app.states import RunState


class Trigger(StrEnum):
    LABEL = "label"
    COMMAND = "command"
    RETRY = "retry"
    ASSIGNMENT = "assignment"


class Reaction(StrEnum):
    """The contents of reactions that Drydock uses, in the API's spelling."""

    EYES = "eyes"
    ROCKET = "rocket"
    CONFUSED = "confused"


class TargetKind(StrEnum):
    ISSUE = "issue"
    COMMENT = "comment"
    REVIEW_COMMENT = "review_comment"


@dataclass(frozen=True)
class Target:
    """What a reaction goes to: `id` is the issue's number or the comment's id."""

    kind: TargetKind
    id: int


class MessageKey(StrEnum):
    """Replies by meaning; `app.messages.reply_body` has the words."""

    HELP = "help"
    STATUS = "status"
    ALREADY_RUNNING = "already_running"
    NOTHING_RUNNING = "nothing_running"
    NOTHING_TO_RETRY = "nothing_to_retry"
    NOT_OPEN = "not_open"
    NOT_ON_PULL_REQUESTS = "not_on_pull_requests"
    NO_UNDO_HERE = "no_undo_here"
    COMMAND_ERROR = "command_error"
    NOTHING_TO_ALLOW = "nothing_to_allow"
    MAY_NOT_ALLOW = "may_not_allow"
    BUNDLE_GONE = "bundle_gone"


@dataclass(frozen=True)
class RunFacts:
    """A run on the same issue as the store knows it. `state` is a `RunState` value.

    `refused_paths` are those that the gate refused and a person may let through.
    """

    run_id: str
    issue_number: int
    state: str
    asked_by: str = ""
    instruction: str = ""
    options: CommandOptions = field(default_factory=CommandOptions)
    pull_request_url: str | None = None
    refused_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What deciding needs besides the event, all of it asked from GitHub, the store or settings.

    `permission` is the actor's role by the API. `active_run` and `last_run` (which may have
    ended) are of the event's issue, or of the check's run. `models` are those that `model=` may
    name.
    """

    permission: str | None
    active_run: RunFacts | None = None
    last_run: RunFacts | None = None
    own_login: str | None = None
    app_id: int | None = None
    label: str = "aider"
    min_permission: str = "write"
    allowed_bots: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    max_attempts: int = 1
    allow_permission: str = "maintain"


@dataclass(frozen=True)
class StartRun:
    """Create a run (queued). The brief is frozen from the issue as it is now."""

    issue_number: int
    asked_by: Actor
    trigger: Trigger
    reason: str
    instruction: str = ""
    options: CommandOptions = field(default_factory=CommandOptions)
    comment_id: int | None = None
    retry_of: str | None = None


@dataclass(frozen=True)
class CancelRun:
    """End an active run; `by` is a login for the message."""

    run_id: str
    by: str
    reason: str


@dataclass(frozen=True)
class AllowPath:
    """Judge a refused run's bundle again, with one path let through by `by`."""

    run_id: str
    issue_number: int
    path: str
    by: Actor
    reason: str
    comment_id: int | None = None


@dataclass(frozen=True)
class React:
    target: Target
    content: Reaction
    reason: str


@dataclass(frozen=True)
class Reply:
    """Post one comment. `error` is there for COMMAND_ERROR, `run` where one is spoken of."""

    issue_number: int
    key: MessageKey
    reason: str
    run: RunFacts | None = None
    error: CommandError | None = None


@dataclass(frozen=True)
class Ignore:
    reason: str


Intent = StartRun | CancelRun | AllowPath | React | Reply | Ignore
_Intents = tuple[Intent, ...]


def needs_facts(
    event: Event,
    *,
    own_login: str | None,
    app_id: int | None,
    label: str,
    allowed_bots: Collection[str] = (),
) -> Ignore | None:
    """Return why this event needs no look-up and no action; None when facts must be asked."""
    if isinstance(event, Ping | InstallationChanged | PullClosed | CheckCompleted):
        return Ignore(_PASSIVE[type(event)])
    screened = screen_actor(event.actor, own_login=own_login, allowed_bots=allowed_bots)
    if screened is not None and not _ends_a_run(event, screened):
        return Ignore(screened.reason)
    why_not = _irrelevant(event, own_login, app_id, label)
    return Ignore(why_not) if why_not else None


_PASSIVE: Mapping[type, str] = {
    Ping: "GitHub tried the address; nothing to do",
    InstallationChanged: "recorded; nothing to do",
    PullClosed: "closing a pull request changes no run in this version",
    CheckCompleted: "results of checks start nothing in this version",
}


def _ends_a_run(event: Event, screened: Deny) -> bool:
    """Whoever closed the issue or took the label off, a bot or a ghost: its run has to end."""
    ends = isinstance(event, IssueClosed | IssueUnlabeled)
    return ends and screened.kind is not DenyKind.OWN_EVENT


def _irrelevant(event: Event, own_login: str | None, app_id: int | None, label: str) -> str | None:
    match event:
        case IssueLabeled() | IssueUnlabeled():
            same = event.label.lower() == label.lower()
            return None if same else f"the label is not {label}"
        case IssueAssigned():
            ours = own_login is not None and event.assignee.lower() == own_login.lower()
            return None if ours else "assigned to somebody else"
        case CommentCreated() | ReviewSubmitted() | ReviewCommentCreated():
            return None if parse_commands(event.body) else "no /aider command in it"
        case CheckRerequested() | CheckActionRequested():
            ours = app_id is not None and event.check.app_id == app_id
            return None if ours else "another app's check"
        case _:
            return None


def decide(event: Event, facts: Facts) -> tuple[Intent, ...]:
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


def _on_label(event: IssueLabeled, facts: Facts) -> _Intents:
    return _like_label(event, facts, Trigger.LABEL)


def _on_assignment(event: IssueAssigned, facts: Facts) -> _Intents:
    return _like_label(event, facts, Trigger.ASSIGNMENT)


def _like_label(event: IssueLabeled | IssueAssigned, facts: Facts, trigger: Trigger) -> _Intents:
    number = event.issue.number
    target = Target(TargetKind.ISSUE, number)
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        return _refuse(target, allowed)
    if event.issue.is_pull_request:
        return (Reply(number, MessageKey.NOT_ON_PULL_REQUESTS, f"{trigger} on a pull request"),)
    run = StartRun(number, event.actor, trigger, f"{trigger} by {event.actor.login}")
    return _start(run, target, event.issue.state, facts.active_run)


def _on_unlabel(event: IssueUnlabeled, facts: Facts) -> _Intents:
    return _cancel(event.actor, facts, f"label removed by {event.actor.login}")


def _on_closed(event: IssueClosed, facts: Facts) -> _Intents:
    return _cancel(event.actor, facts, f"issue {event.how} by {event.actor.login}")


def _cancel(actor: Actor, facts: Facts, reason: str) -> _Intents:
    """Whoever could remove the label or close the issue may end its run."""
    if facts.active_run is None:
        return (Ignore(f"{reason}; no run was active"),)
    return (CancelRun(facts.active_run.run_id, actor.login, reason),)


def _on_comment(event: CommentCreated, facts: Facts) -> _Intents:
    target = Target(TargetKind.COMMENT, event.comment_id)
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        return _refuse(target, allowed)
    if event.issue.is_pull_request:
        return _not_on_pulls(event.issue.number, target)
    return _follow(parse_commands(event.body), event, facts)


def _on_review_comment(event: ReviewCommentCreated, facts: Facts) -> _Intents:
    target = Target(TargetKind.REVIEW_COMMENT, event.comment_id)
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        return _refuse(target, allowed)
    return _not_on_pulls(event.pull.number, target)


def _on_review(event: ReviewSubmitted, facts: Facts) -> _Intents:
    """A review cannot be reacted to, so a refusal of one stays in our records."""
    allowed = _may(event.actor, facts)
    if isinstance(allowed, Deny):
        return (Ignore(allowed.reason),)
    return _not_on_pulls(event.pull.number, None)


def _not_on_pulls(number: int, target: Target | None) -> _Intents:
    reason = "commands on pull requests are not followed in this version"
    reply = Reply(number, MessageKey.NOT_ON_PULL_REQUESTS, reason)
    return (React(target, Reaction.CONFUSED, reason), reply) if target else (reply,)


def _follow(
    commands: Sequence[Command | CommandError], event: CommentCreated, facts: Facts
) -> _Intents:
    """Follow several commands in order, each seeing what the ones before it did."""
    intents: list[Intent] = []
    for command in commands:
        new = _follow_one(command, event, facts)
        intents += new
        facts = _after(new, event, facts)
    return tuple(intents)


def _after(intents: _Intents, event: CommentCreated, facts: Facts) -> Facts:
    for intent in intents:
        if isinstance(intent, CancelRun):
            facts = replace(facts, active_run=None, last_run=facts.active_run)
        if isinstance(intent, AllowPath):
            facts = replace(facts, active_run=RunFacts("", event.issue.number, "queued"))
        if isinstance(intent, StartRun):
            run = RunFacts("", event.issue.number, "queued", event.actor.login, intent.instruction)
            facts = replace(facts, active_run=run)
    return facts


def _follow_one(command: Command | CommandError, event: CommentCreated, facts: Facts) -> _Intents:
    if isinstance(command, CommandError):
        return _reply_error(command, event)
    error = _option_error(command, facts)
    if error is not None:
        return _reply_error(error, event)
    return _COMMANDS[command.kind](command, event, facts)


def _option_error(command: Command, facts: Facts) -> CommandError | None:
    options = command.options
    if options.model is not None and options.model not in facts.models:
        known = ", ".join(facts.models) or "none"
        return CommandError(f"model= can be one of: {known}", line=command.line)
    if options.attempts is not None and options.attempts > facts.max_attempts:
        limit = facts.max_attempts
        return CommandError(f"attempts= can be {limit} at most here", line=command.line)
    return None


def _reply_error(error: CommandError, event: CommentCreated) -> _Intents:
    reason = f"the command in line {error.line} is wrong: {error.reason}"
    target = Target(TargetKind.COMMENT, event.comment_id)
    reply = Reply(event.issue.number, MessageKey.COMMAND_ERROR, reason, error=error)
    return (React(target, Reaction.CONFUSED, reason), reply)


def _run_command(command: Command, event: CommentCreated, facts: Facts) -> _Intents:
    run = StartRun(
        issue_number=event.issue.number,
        asked_by=event.actor,
        trigger=Trigger.COMMAND,
        reason=f"/aider by {event.actor.login}",
        instruction=command.text,
        options=command.options,
        comment_id=event.comment_id,
    )
    target = Target(TargetKind.COMMENT, event.comment_id)
    return _start(run, target, event.issue.state, facts.active_run)


def _retry_command(command: Command, event: CommentCreated, facts: Facts) -> _Intents:
    number, last = event.issue.number, facts.last_run
    if facts.active_run is None and last is None:
        return (Reply(number, MessageKey.NOTHING_TO_RETRY, "retry, but there was no run"),)
    target = Target(TargetKind.COMMENT, event.comment_id)
    run = _again(last, event.actor, number, command, event.comment_id)
    return _start(run, target, event.issue.state, facts.active_run)


def _again(
    last: RunFacts | None, actor: Actor, number: int, command: Command, comment_id: int | None
) -> StartRun:
    """The last run once more from a fresh base; what the retry says comes on top."""
    said = (last.instruction if last else "", command.text)
    return StartRun(
        issue_number=number,
        asked_by=actor,
        trigger=Trigger.RETRY,
        reason=f"retry by {actor.login}",
        instruction="\n\n".join(text for text in said if text),
        options=_merge(last.options if last else CommandOptions(), command.options),
        comment_id=comment_id,
        retry_of=last.run_id if last else None,
    )


def _merge(old: CommandOptions, new: CommandOptions) -> CommandOptions:
    return CommandOptions(
        model=new.model or old.model,
        base=new.base or old.base,
        attempts=new.attempts or old.attempts,
    )


def _stop_command(_command: Command, event: CommentCreated, facts: Facts) -> _Intents:
    run, login = facts.active_run, event.actor.login
    if run is None:
        return (
            Reply(event.issue.number, MessageKey.NOTHING_RUNNING, "stop, but no run is active"),
        )
    reason = f"/aider stop by {login}"
    target = Target(TargetKind.COMMENT, event.comment_id)
    return (React(target, Reaction.EYES, reason), CancelRun(run.run_id, login, reason))


def _status_command(_command: Command, event: CommentCreated, facts: Facts) -> _Intents:
    run = facts.active_run or facts.last_run
    key = MessageKey.STATUS if run else MessageKey.NOTHING_RUNNING
    return (Reply(event.issue.number, key, "status was asked for", run=run),)


def _help_command(_command: Command, event: CommentCreated, _facts: Facts) -> _Intents:
    return (Reply(event.issue.number, MessageKey.HELP, "help was asked for"),)


def _undo_command(_command: Command, event: CommentCreated, _facts: Facts) -> _Intents:
    return (Reply(event.issue.number, MessageKey.NO_UNDO_HERE, "undo on an issue"),)


def _allow_command(command: Command, event: CommentCreated, facts: Facts) -> _Intents:
    number, login, last = event.issue.number, event.actor.login, facts.last_run
    if facts.active_run is not None:
        reason = "allow, but a run is active"
        return (Reply(number, MessageKey.ALREADY_RUNNING, reason, run=facts.active_run),)
    if last is None or last.state != RunState.REFUSED or not last.refused_paths:
        return (Reply(number, MessageKey.NOTHING_TO_ALLOW, "allow, but nothing was refused"),)
    target = Target(TargetKind.COMMENT, event.comment_id)
    if not _may_allow(event.actor, facts):
        reason = f"allow by {login}, who has {facts.permission}, needs {facts.allow_permission}"
        reply = Reply(number, MessageKey.MAY_NOT_ALLOW, reason)
        return (React(target, Reaction.CONFUSED, reason), reply)
    if command.text not in last.refused_paths:
        return _reply_error(_unknown_path(command, last.refused_paths), event)
    reason = f"{command.text} allowed by {login}"
    allow = AllowPath(last.run_id, number, command.text, event.actor, reason, event.comment_id)
    return (React(target, Reaction.EYES, reason), allow)


def _may_allow(actor: Actor, facts: Facts) -> bool:
    """A person only: being listed lets a bot start runs, not bend a rule."""
    needed = permission_rank(facts.allow_permission)
    return not actor.is_bot and permission_rank(facts.permission) >= needed > 0


def _unknown_path(command: Command, paths: Sequence[str]) -> CommandError:
    near = difflib.get_close_matches(command.text, paths, 1, 0.0)
    nearest = f"/aider allow {near[0]}" if near else None
    return CommandError("the last run was not refused for that path", nearest, command.line)


_COMMANDS: Mapping[CommandKind, Callable[[Command, CommentCreated, Facts], _Intents]] = {
    CommandKind.RUN: _run_command,
    CommandKind.RETRY: _retry_command,
    CommandKind.STOP: _stop_command,
    CommandKind.STATUS: _status_command,
    CommandKind.HELP: _help_command,
    CommandKind.UNDO: _undo_command,
    CommandKind.ALLOW: _allow_command,
}


def _on_rerequest(event: CheckRerequested, facts: Facts) -> _Intents:
    return _by_button("retry", event, facts)


def _on_button(event: CheckActionRequested, facts: Facts) -> _Intents:
    return _by_button(event.identifier, event, facts)


def _by_button(
    identifier: str, event: CheckRerequested | CheckActionRequested, facts: Facts
) -> _Intents:
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


def _retry_by_button(run: RunFacts, actor: Actor, facts: Facts) -> _Intents:
    if facts.active_run is not None:
        return (Ignore("retry pressed, but a run is active"),)
    return (_again(run, actor, run.issue_number, Command(CommandKind.RETRY), None),)


def _may(actor: Actor, facts: Facts) -> Allow | Deny:
    return may_run(
        actor,
        facts.permission,
        min_permission=facts.min_permission,
        own_login=facts.own_login,
        allowed_bots=facts.allowed_bots,
    )


def _refuse(target: Target, denied: Deny) -> _Intents:
    """One quiet reaction and no run."""
    return (React(target, Reaction.CONFUSED, denied.reason),)


def _start(run: StartRun, target: Target, state: str, active: RunFacts | None) -> _Intents:
    number = run.issue_number
    if active is not None:
        reason = f"{run.reason}, but a run is active"
        return (Reply(number, MessageKey.ALREADY_RUNNING, reason, run=active),)
    if state != "open":
        return (Reply(number, MessageKey.NOT_OPEN, f"{run.reason}, but the issue is {state}"),)
    return (React(target, Reaction.EYES, run.reason), run)


# Each decider takes its own event; `decide` looks it up by that very type.
_DECIDERS: Mapping[type, Callable[..., _Intents]] = {
    IssueLabeled: _on_label,
    IssueUnlabeled: _on_unlabel,
    IssueClosed: _on_closed,
    IssueAssigned: _on_assignment,
    CommentCreated: _on_comment,
    ReviewCommentCreated: _on_review_comment,
    ReviewSubmitted: _on_review,
    CheckRerequested: _on_rerequest,
    CheckActionRequested: _on_button,
}
