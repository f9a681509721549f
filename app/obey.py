"""Commands + facts → intents: what follows from what a person said, wherever it was said. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.brakes import Brake, reached
from app.commands import Command, CommandError, CommandKind, CommandOptions
from app.events import Actor
from app.intents import (
    AllowPath,
    CancelRun,
    Facts,
    Intent,
    Intents,
    MessageKey,
    PullFacts,
    React,
    Reactable,
    Reaction,
    Remark,
    Reply,
    RunFacts,
    StartRun,
    Trigger,
    UndoPush,
)
from app.policy import permission_rank
from app.states import RunState


@dataclass(frozen=True)
class Said:
    """Where something was said, by whom, and what it is about.

    `number` is the issue's or pull request's. `targets` get the reactions; nothing can be reacted
    to where there are none. `ask_first` is why a run should not simply begin: words, "" for no
    reason. `forced` says that the person knows, and wants it all the same.
    """

    number: int
    actor: Actor
    state: str
    on_pull: bool
    targets: tuple[Reactable, ...] = ()
    comment_id: int | None = None
    remarks: tuple[Remark, ...] = ()
    ask_first: str = ""
    forced: bool = False


def follow(commands: Sequence[Command | CommandError], said: Said, facts: Facts) -> Intents:
    """Follow several commands in order, each seeing what the ones before it did."""
    intents: list[Intent] = []
    for command in commands:
        new = _follow_one(command, said, facts)
        intents += new
        facts = _after(new, said, facts)
    return tuple(intents)


def react(said: Said, content: Reaction, reason: str) -> Intents:
    """React to everything that was said there."""
    return tuple(React(target, content, reason) for target in said.targets)


def start(run: StartRun, said: Said, facts: Facts) -> Intents:
    """Begin a run unless something speaks against it, which is then said."""
    intents = _begin(run, said, facts)
    started = next((intent for intent in intents if isinstance(intent, StartRun)), None)
    brake = _brake(started, facts) if started is not None else None
    return _held(brake, run, said) if brake is not None else intents


def _brake(run: StartRun, facts: Facts) -> Brake | None:
    by_machine = run.trigger is Trigger.CHECK or run.asked_by.is_bot
    opens = run.pull is None
    return reached(facts.counts, facts.limits, by_machine=by_machine, opens_pull=opens)


def _held(brake: Brake, run: StartRun, said: Said) -> Intents:
    reason = f"{run.reason}, but {brake.kind} ({brake.limit}) is reached"
    refused = react(said, Reaction.CONFUSED, reason)
    return (*refused, Reply(said.number, MessageKey.BRAKE, reason, brake=brake))


def _begin(run: StartRun, said: Said, facts: Facts) -> Intents:
    if facts.active_run is not None:
        reason = f"{run.reason}, but a run is active"
        return (Reply(said.number, MessageKey.ALREADY_RUNNING, reason, run=facts.active_run),)
    if said.on_pull:
        return _on_pull(run, said, facts)
    if facts.pull is not None:
        return _where_it_is(run, said, facts.pull)
    return _hindrance(run, said) or (*react(said, Reaction.EYES, run.reason), run)


def _hindrance(run: StartRun, said: Said) -> Intents:
    if said.forced:
        return ()
    if said.state != "open":
        reason = f"{run.reason}, but the issue is {said.state}"
        return (Reply(said.number, MessageKey.NOT_OPEN, reason),)
    if said.ask_first:
        reason = f"{run.reason}, but {said.ask_first}"
        return (Reply(said.number, MessageKey.ASK_FIRST, reason, detail=said.ask_first),)
    return ()


def _on_pull(run: StartRun, said: Said, facts: Facts) -> Intents:
    pull = facts.pull
    if pull is None or said.state != "open":
        reason = f"{run.reason}, but the pull request is not open"
        return (Reply(said.number, MessageKey.PULL_NOT_OPEN, reason),)
    if pull.is_fork:
        reason = f"{run.reason}, but the head lies in another repository"
        refused = react(said, Reaction.CONFUSED, reason)
        return (*refused, Reply(said.number, MessageKey.FORK, reason, pull=pull))
    if pull.is_base:
        reason = f"{run.reason}, but others start from {pull.head_ref}"
        refused = react(said, Reaction.CONFUSED, reason)
        return (*refused, Reply(said.number, MessageKey.BASE_HEAD, reason, pull=pull))
    return (*react(said, Reaction.EYES, run.reason), replace(run, pull=pull))


def _where_it_is(run: StartRun, said: Said, pull: PullFacts) -> Intents:
    """Go on in the issue's open pull request, if something new was said; else say where it is."""
    if pull.active_run is not None:
        reason = f"{run.reason}, but a run is active on #{pull.number}"
        return (Reply(said.number, MessageKey.ALREADY_RUNNING, reason, run=pull.active_run),)
    if run.trigger is not Trigger.COMMAND or not run.instruction.strip():
        reason = f"{run.reason}, but there is #{pull.number} already"
        return (Reply(said.number, MessageKey.HAS_PULL, reason, pull=pull),)
    reason = f"{run.reason}, on #{pull.number}"
    there = replace(run, issue_number=pull.number, pull=pull, reason=reason)
    said_where = Reply(said.number, MessageKey.CONTINUES_THERE, reason, pull=pull)
    return (*react(said, Reaction.EYES, reason), there, said_where)


def _after(intents: Intents, said: Said, facts: Facts) -> Facts:
    for intent in intents:
        if isinstance(intent, CancelRun):
            facts = replace(facts, active_run=None, last_run=facts.active_run)
        if isinstance(intent, AllowPath | UndoPush):
            facts = replace(facts, active_run=RunFacts("", said.number, "queued"))
        if isinstance(intent, StartRun):
            run = RunFacts("", said.number, "queued", said.actor.login, intent.instruction)
            facts = replace(facts, active_run=run)
    return facts


def _follow_one(command: Command | CommandError, said: Said, facts: Facts) -> Intents:
    if isinstance(command, CommandError):
        return _reply_error(command, said)
    error = _option_error(command, said, facts)
    if error is not None:
        return _reply_error(error, said)
    return _COMMANDS[command.kind](command, said, facts)


def _option_error(command: Command, said: Said, facts: Facts) -> CommandError | None:
    options = command.options
    if options.model is not None and options.model not in facts.models:
        known = ", ".join(facts.models) or "none"
        return CommandError(f"model= can be one of: {known}", line=command.line)
    if options.attempts is not None and options.attempts > facts.max_attempts:
        limit = facts.max_attempts
        return CommandError(f"attempts= can be {limit} at most here", line=command.line)
    if options.base is not None and said.on_pull:
        reason = "base= is for issues; a pull request is continued from its own head"
        return CommandError(reason, line=command.line)
    return None


def _reply_error(error: CommandError, said: Said) -> Intents:
    reason = f"the command in line {error.line} is wrong: {error.reason}"
    reply = Reply(said.number, MessageKey.COMMAND_ERROR, reason, error=error)
    return (*react(said, Reaction.CONFUSED, reason), reply)


def _run(command: Command, said: Said, facts: Facts) -> Intents:
    run = StartRun(
        issue_number=said.number,
        asked_by=said.actor,
        trigger=Trigger.COMMAND,
        reason=f"/aider by {said.actor.login}",
        instruction=command.text,
        options=command.options,
        comment_id=said.comment_id,
        remarks=said.remarks,
    )
    return start(run, said, facts)


def _force(command: Command, said: Said, facts: Facts) -> Intents:
    return _run(command, replace(said, forced=True), facts)


def _retry(command: Command, said: Said, facts: Facts) -> Intents:
    last = facts.last_run
    if facts.active_run is None and last is None:
        return (Reply(said.number, MessageKey.NOTHING_TO_RETRY, "retry, but there was no run"),)
    return retry(last, command, said, facts)


def retry(last: RunFacts | None, command: Command, said: Said, facts: Facts) -> Intents:
    """Do the last run again. What was taken back is done again, what could not be is once more."""
    if last is not None and last.undoes is not None:
        if last.state != RunState.PUBLISHED:
            return _undo(command, said, facts)
        last = last.undoes
    return start(again(last, said, command), said, facts)


def again(last: RunFacts | None, said: Said, command: Command) -> StartRun:
    """The last run once more from a fresh base; what the retry says comes on top."""
    words = (last.instruction if last else "", command.text)
    return StartRun(
        issue_number=said.number,
        asked_by=said.actor,
        trigger=Trigger.RETRY,
        reason=f"retry by {said.actor.login}",
        instruction="\n\n".join(text for text in words if text),
        options=_merge(last.options if last else CommandOptions(), command.options),
        comment_id=said.comment_id,
        retry_of=last.run_id if last else None,
    )


def _merge(old: CommandOptions, new: CommandOptions) -> CommandOptions:
    return CommandOptions(
        model=new.model or old.model,
        base=new.base or old.base,
        attempts=new.attempts or old.attempts,
    )


def _stop(_command: Command, said: Said, facts: Facts) -> Intents:
    run, login = facts.active_run, said.actor.login
    if run is None:
        return (Reply(said.number, MessageKey.NOTHING_RUNNING, "stop, but no run is active"),)
    reason = f"/aider stop by {login}"
    return (*react(said, Reaction.EYES, reason), CancelRun(run.run_id, login, reason))


def _status(_command: Command, said: Said, facts: Facts) -> Intents:
    run = facts.active_run or facts.last_run
    key = MessageKey.STATUS if run else MessageKey.NOTHING_RUNNING
    return (Reply(said.number, key, "status was asked for", run=run),)


def _help(_command: Command, said: Said, _facts: Facts) -> Intents:
    return (Reply(said.number, MessageKey.HELP, "help was asked for"),)


def _undo(_command: Command, said: Said, facts: Facts) -> Intents:
    number, pull, run = said.number, facts.pull, facts.undoable
    if facts.active_run is not None:
        reason = "undo, but a run is active"
        return (Reply(number, MessageKey.ALREADY_RUNNING, reason, run=facts.active_run),)
    if not said.on_pull or pull is None or run is None or pull.is_fork or said.state != "open":
        reason = "undo, but there is no push of ours to take back"
        return (Reply(number, MessageKey.NOTHING_TO_UNDO, reason, pull=pull),)
    reason = f"undo by {said.actor.login}"
    undo = UndoPush(run.run_id, pull, said.actor, reason, said.comment_id)
    return (*react(said, Reaction.EYES, reason), undo)


def _allow(command: Command, said: Said, facts: Facts) -> Intents:
    number, login, last = said.number, said.actor.login, facts.last_run
    if facts.active_run is not None:
        reason = "allow, but a run is active"
        return (Reply(number, MessageKey.ALREADY_RUNNING, reason, run=facts.active_run),)
    if last is None or last.state != RunState.REFUSED or not last.refused_paths:
        return (Reply(number, MessageKey.NOTHING_TO_ALLOW, "allow, but nothing was refused"),)
    if not _may_allow(said.actor, facts):
        reason = f"allow by {login}, who has {facts.permission}, needs {facts.allow_permission}"
        reply = Reply(number, MessageKey.MAY_NOT_ALLOW, reason)
        return (*react(said, Reaction.CONFUSED, reason), reply)
    if command.text not in last.refused_paths:
        return _reply_error(_unknown_path(command, last.refused_paths), said)
    reason = f"{command.text} allowed by {login}"
    allow = AllowPath(last.run_id, number, command.text, said.actor, reason, said.comment_id)
    return (*react(said, Reaction.EYES, reason), allow)


def _may_allow(actor: Actor, facts: Facts) -> bool:
    """A person only: being listed lets a bot start runs, not bend a rule."""
    needed = permission_rank(facts.allow_permission)
    return not actor.is_bot and permission_rank(facts.permission) >= needed > 0


def _unknown_path(command: Command, paths: Sequence[str]) -> CommandError:
    near = difflib.get_close_matches(command.text, paths, 1, 0.0)
    nearest = f"/aider allow {near[0]}" if near else None
    return CommandError("the last run was not refused for that path", nearest, command.line)


_COMMANDS: Mapping[CommandKind, Callable[[Command, Said, Facts], Intents]] = {
    CommandKind.RUN: _run,
    CommandKind.FORCE: _force,
    CommandKind.RETRY: _retry,
    CommandKind.STOP: _stop,
    CommandKind.STATUS: _status,
    CommandKind.HELP: _help,
    CommandKind.UNDO: _undo,
    CommandKind.ALLOW: _allow,
}
