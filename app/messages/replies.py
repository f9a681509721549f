"""Answers to what people said. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from app.commands import CommandError
from app.intents import MessageKey, Reply
from app.messages.brakes import brake_reached
from app.messages.endings import ending_text
from app.messages.status import StatusView, checklist, footer, headline
from app.messages.words import token
from app.repo_config import CONFIG_PATH
from app.states import ENDED
from app.text import code_span, inline


def reply_marker(delivery_id: str, index: int) -> str:
    """The first line of a reply, so that a delivery taken twice is answered once."""
    return f"<!-- drydock:reply to={token(f'{delivery_id}.{index}')} -->"


COMMAND_HELP: tuple[tuple[str, str], ...] = (
    (
        "/aider [what to do]",
        "start a run for this issue, with your words on top of the issue's; on a pull request, add"
        " commits to it",
    ),
    ("/aider stop", "end the active run; nothing is pushed"),
    ("/aider retry", "run once more from a fresh base"),
    ("/aider status", "say where the run is"),
    (
        "/aider allow PATH",
        "let a file through that the last run was refused for (maintainers only)",
    ),
    ("/aider undo", "revert Drydock's last push (on pull requests)"),
    ("/aider force", "start a run although the issue is closed, locked or assigned to others"),
    ("/aider help", "show this"),
)


OPTION_HELP: tuple[tuple[str, str], ...] = (
    ("model=NAME", "another of the models that the operator allows"),
    ("base=BRANCH", "start from this branch"),
    ("attempts=N", "how many attempts to make"),
)


def help_text(label: str, min_permission: str = "write") -> str:
    """Return one screen of help."""
    commands = [f"- {code_span(command)}: {words}" for command, words in COMMAND_HELP]
    options = [f"- {code_span(option)}: {words}" for option, words in OPTION_HELP]
    return "\n".join(
        (
            f"**Drydock** works on an issue when the label {code_span(label)} is added, or when"
            " a line of a comment, on an issue, a pull request or in a review, begins with a"
            " command:",
            "",
            *commands,
            "",
            "Options stand directly behind the command:",
            "",
            *options,
            "",
            "Commands in quotes, code and lists are not followed. They count from people whose"
            f" permission here is at least {code_span(min_permission)}.",
        )
    )


def reply_body(
    reply: Reply, *, label: str, min_permission: str = "write", status: StatusView | None = None
) -> str:
    """Return the words of a reply. `status` is the view of the run that a reply speaks of."""
    match reply.key:
        case MessageKey.HELP:
            return help_text(label, min_permission)
        case MessageKey.COMMAND_ERROR:
            return command_error(reply.error or CommandError("it was not understood"))
        case MessageKey.STATUS:
            return _status_reply(status)
        case MessageKey.ALREADY_RUNNING:
            return _already_running(reply, status)
        case MessageKey.BRAKE if reply.brake is not None:
            return brake_reached(reply.brake)
        case MessageKey.ASK_FIRST | MessageKey.CI_ROUNDS:
            return _DETAILED[reply.key](reply.detail)
        case (
            MessageKey.FORK
            | MessageKey.BASE_HEAD
            | MessageKey.HAS_PULL
            | MessageKey.CONTINUES_THERE
        ):
            there = reply.pull.number if reply.pull is not None else reply.issue_number
            return _POINTERS[reply.key](there)
        case _:
            return _REPLIES[reply.key]


_REPLIES: Mapping[MessageKey, str] = {
    MessageKey.BRAKE: "**Nothing was started:** as much is under way as the operator lets be.",
    MessageKey.NOTHING_RUNNING: "No run is active for this issue. `/aider` starts one.",
    MessageKey.NOTHING_TO_RETRY: "There was no run for this issue yet. `/aider` starts one.",
    MessageKey.NOT_OPEN: "**This issue is not open, so no run was started.** Reopen it and comment"
    " `/aider`; or `/aider force`, if it is meant so.",
    MessageKey.PULL_NOT_OPEN: "**This pull request is not open, so no run was started.** Reopen it"
    " and comment `/aider`, or go on in an issue.",
    MessageKey.NOT_BY_LABEL: "**Labels and assignments start runs on issues only.** Nothing was"
    " started. Say what should change in this pull request: `/aider …`.",
    MessageKey.NOTHING_TO_ALLOW: "**There is nothing to allow.** The last run of this issue was not"
    " refused for a file that a person may let through.",
    MessageKey.MAY_NOT_ALLOW: "**That was not allowed:** your permission here does not reach so"
    " far. Nothing was changed. A maintainer of this repository can say it.",
    MessageKey.BUNDLE_GONE: "**What the refused run had made is no longer kept here**, so it cannot"
    " be judged again. Nothing was changed. `/aider retry` starts over.",
    MessageKey.NOTHING_TO_UNDO: "**There is nothing to undo here:** this is no open pull request"
    " with a push of Drydock's. Nothing was changed. On a pull request, `/aider undo` reverts what"
    " Drydock pushed to it last.",
}


def _ask_first(why: str) -> str:
    return (
        f"**Nothing was started yet: {inline(why, 300)}.** If Drydock should work on it all the"
        " same, comment `/aider force`."
    )


def _ci_rounds(rounds: str) -> str:
    tried = "once" if rounds == "1" else f"{inline(rounds, 10)} times in a row"
    return (
        f"**A check fails here still, and Drydock has tried {tried} to mend that** since a person"
        " last did something, which is as often as `fix_ci_rounds` in"
        f" `{CONFIG_PATH}` lets it. Nothing more was started.\n\n"
        "**Next:** look at the check, then say what to do (`/aider …`) or push a commit: either"
        " starts the count anew."
    )


def _fork(number: int) -> str:
    return (
        "**Drydock cannot push to this pull request:** its branch lies in another repository, and"
        " what that one configures is never run here. Nothing was started.\n\n"
        "**Next:** somebody who may write here brings its commits to a branch of this repository"
        f" (`gh pr checkout {number}`, then `git push origin HEAD:a-new-branch`), opens a pull"
        " request from that, and says `/aider` there."
    )


def _base_head(number: int) -> str:
    return (
        "**Drydock adds nothing to this pull request:** its branch is one that others start from,"
        " and what is pushed there has been reviewed by nobody. Nothing was started.\n\n"
        "**Next:** say in an issue what is to change (`/aider`): that makes a pull request of its"
        f" own, and once it is merged #{number} has it too."
    )


def _has_pull(number: int) -> str:
    return (
        f"**There is a pull request for this already: #{number}.** No second run was started."
        f"\n\n**Next:** say there, or here, what should be different (`/aider …`); it is continued."
        f" To start over, close #{number} and comment `/aider retry`."
    )


def _continues_there(number: int) -> str:
    return f"Drydock goes on in the open pull request for this: #{number}."


_DETAILED: Mapping[MessageKey, Callable[[str], str]] = {
    MessageKey.ASK_FIRST: _ask_first,
    MessageKey.CI_ROUNDS: _ci_rounds,
}

_POINTERS: Mapping[MessageKey, Callable[[int], str]] = {
    MessageKey.FORK: _fork,
    MessageKey.BASE_HEAD: _base_head,
    MessageKey.HAS_PULL: _has_pull,
    MessageKey.CONTINUES_THERE: _continues_there,
}


def command_error(error: CommandError) -> str:
    """Say what is wrong with a command, and the nearest right one."""
    near = f" Did you mean {code_span(error.nearest)}?" if error.nearest else ""
    return (
        f"**That command was not followed:** {inline(error.reason, 400)} (line {error.line})."
        f"{near} Nothing was started; `/aider help` lists what there is."
    )


def _status_reply(view: StatusView | None) -> str:
    if view is None:
        return "The status comment of the last run says how it ended."
    if view.state in ENDED and view.report is not None:
        return f"The last run ended. {ending_text(view.report)}"
    return "\n\n".join((f"**{headline(view)}**", checklist(view), footer(view, "")))


def _already_running(reply: Reply, status: StatusView | None) -> str:
    run = code_span(reply.run.run_id) if reply.run is not None and reply.run.run_id else ""
    where = f"[run page]({status.run_url})" if status is not None and status.run_url else run
    see = f" See the status comment above ({where})." if where else " See the status comment above."
    return (
        f"**Drydock is already working on this**, so no second run was started.{see}"
        " `/aider stop` ends it; ask again afterwards."
    )
