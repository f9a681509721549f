"""What the scripted model says: scenarios as values, and which reply a request gets.

Pure. The reply is chosen from the conversation that the request carries, not from a counter: the
model counts which of its own replies are already in it. So a run that is started again from its
beginning is answered from the beginning.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

FOREVER = 24 * 3600.0


class Fault(StrEnum):
    """An error that the vendors publish; each wire has its own shape for it."""

    AUTH = "auth"
    PERMISSION = "permission"
    QUOTA = "quota"
    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    OVERLOADED = "overloaded"
    OVERFLOW = "overflow"
    NOT_FOUND = "not_found"


@dataclass(frozen=True)
class Text:
    """A whole answer."""

    text: str


@dataclass(frozen=True)
class Edit:
    """One search/replace block as Aider's `diff` format wants it; an empty search makes a file.

    `commit` is the message that the model gives for this edit when it is asked for one.
    """

    path: str
    search: str
    replace: str
    say: str = "Here is the change."
    commit: str = ""


@dataclass(frozen=True)
class HttpError:
    """A published error. With `times`, only so many equal requests get it, then the next reply."""

    fault: Fault
    times: int | None = None
    retry_after: int | None = None


@dataclass(frozen=True)
class Hang:
    """Take the request and say nothing for so long (seconds), then hang up."""

    seconds: float = FOREVER


@dataclass(frozen=True)
class Truncated:
    """Begin this answer and break off in its middle."""

    text: str


@dataclass(frozen=True)
class Reset:
    """Reset the connection instead of an answer."""


Reply = Text | Edit | HttpError | Hang | Truncated | Reset


@dataclass(frozen=True)
class Message:
    role: str
    text: str


@dataclass(frozen=True)
class Scenario:
    """Replies in order; the last one again and again. `when`: a pattern in the user's words."""

    name: str
    replies: tuple[Reply, ...]
    when: str = ""

    def __post_init__(self) -> None:
        if not self.replies:
            raise ValueError(f"scenario {self.name!r} has no replies")


Script = Callable[[Sequence[Message]], Reply]

_COMMIT_PROMPT = "one-line Git commit messages"
_SUMMARY_PROMPT = "*Briefly* summarize this partial conversation"
_SUMMARY_MARK = re.compile(r"\(replies so far: (\d+)\)")
_LANGUAGES = {".py": "python", ".js": "javascript", ".md": "markdown", ".toml": "toml"}


@dataclass
class Chooser:
    """Chooses the reply to a request. Remembers only how often a limited error was given."""

    script: Sequence[Scenario] | Script
    _given: dict[str, int] = field(default_factory=dict)

    def choose(self, messages: Sequence[Message]) -> Reply:
        """Return the reply. LookupError when no scenario is meant for this conversation."""
        if callable(self.script):
            return self.script(messages)
        scenario = pick_scenario(self.script, messages)
        if _mentions(messages, _COMMIT_PROMPT):
            return Text(commit_message(scenario, messages))
        if _mentions(messages, _SUMMARY_PROMPT):
            return Text(f"I asked you for a change. (replies so far: {count(scenario, messages)})")
        return self._next(scenario, messages)

    def _next(self, scenario: Scenario, messages: Sequence[Message]) -> Reply:
        """Skip the replies that were given; errors with `times` count by equal requests."""
        given = count(scenario, messages)
        for place, reply in enumerate(scenario.replies):
            if isinstance(reply, Text | Edit):
                if given == 0:
                    return reply
                given -= 1
            elif given == 0 and self._still_fails(reply, place, messages):
                return reply
        return scenario.replies[-1]

    def _still_fails(self, reply: Reply, place: int, messages: Sequence[Message]) -> bool:
        times = reply.times if isinstance(reply, HttpError) else None
        if times is None:
            return True
        whole = json.dumps([(each.role, each.text) for each in messages])
        key = f"{place}:{hashlib.sha256(whole.encode()).hexdigest()}"
        self._given[key] = self._given.get(key, 0) + 1
        return self._given[key] <= times


def pick_scenario(scenarios: Sequence[Scenario], messages: Sequence[Message]) -> Scenario:
    """Return the first scenario whose `when` is in the user's words. LookupError for none."""
    words = "\n".join(each.text for each in messages if each.role == "user")
    for scenario in scenarios:
        if re.search(scenario.when, words):
            return scenario
    raise LookupError("no scenario is meant for this conversation")


def count(scenario: Scenario, messages: Sequence[Message]) -> int:
    """Return how many of the scenario's replies the conversation holds, summarised ones included.

    Aider's prompt has example answers of its own, which are none of ours.
    """
    own = {render(reply).strip() for reply in scenario.replies if isinstance(reply, Text | Edit)}
    told = [each.text for each in messages if each.role == "assistant" and each.text.strip() in own]
    if _mentions(messages, _SUMMARY_PROMPT):
        told = [text for text in own for _ in range(_whole(messages).count(text))]
    marks = [int(found) for found in _SUMMARY_MARK.findall(_whole(messages))]
    return len(told) + max(marks, default=0)


def render(reply: Text | Edit | Truncated) -> str:
    """Return the words of a reply."""
    if not isinstance(reply, Edit):
        return reply.text
    language = _LANGUAGES.get(PurePosixPath(reply.path).suffix, "")
    return (
        f"{reply.say}\n\n{reply.path}\n```{language}\n<<<<<<< SEARCH\n{_lines(reply.search)}"
        f"=======\n{_lines(reply.replace)}>>>>>>> REPLACE\n```\n"
    )


def commit_message(scenario: Scenario, messages: Sequence[Message]) -> str:
    """Return one line for the diff that the request shows: the edit's own, or the file's name."""
    diff = _whole(messages)
    added = {line[1:].strip() for line in diff.splitlines() if line.startswith("+")}
    for reply in scenario.replies:
        if isinstance(reply, Edit) and reply.commit and _new_lines(reply) <= added:
            return reply.commit
    names = re.findall(r"^\+\+\+ b/(.+)$", diff, re.MULTILINE)
    return f"fix: Update {names[-1]}"[:72] if names else "fix: Update the code"


def scenarios_from_json(text: str) -> tuple[Scenario, ...]:
    """Read one scenario or a list: `{"name", "when"?, "replies": [{"kind": "edit", …}, …]}`.

    ValueError names what is wrong.
    """
    data = json.loads(text)
    entries = data if isinstance(data, list) else [data]
    try:
        return tuple(
            Scenario(
                name=str(entry["name"]),
                replies=tuple(_reply_from(each) for each in entry["replies"]),
                when=str(entry.get("when", "")),
            )
            for entry in entries
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a scenario: {error}") from error


def fix_after_failing_test(
    path: str, wrong_edit: tuple[str, str], right_edit: tuple[str, str], *, when: str = ""
) -> Scenario:
    """A first edit after which the tests still fail, and a second one that is right.

    Each edit is (search, replace); the second one searches what the first one left. Let their
    lengths differ: Python takes a module of the same size and second for unchanged, and would run
    the first edit's bytecode again.
    """
    wrong = Edit(
        path,
        *wrong_edit,
        say=f"The fault is in `{path}`. This changes it.",
        commit=f"fix: Change the faulty line in {PurePosixPath(path).name}",
    )
    right = Edit(
        path,
        *right_edit,
        say="The test still fails, so my first change was wrong. This one follows the test.",
        commit=f"fix: Correct the result in {PurePosixPath(path).name}",
    )
    return Scenario("fix_after_failing_test", (wrong, right), when)


def follow_up(when: str, path: str, search: str, replace: str, commit: str = "") -> Scenario:
    """One edit, for conversations whose words match `when` (a reviewer's request)."""
    edit = Edit(path, search, replace, say="I made the requested change.", commit=commit)
    return Scenario("follow_up", (edit,), when)


def prose_only(text: str = "The code is right as it is; nothing needs to change.") -> Scenario:
    return Scenario("prose_only", (Text(text),))


def malformed_edits(path: str = "calc.py") -> Scenario:
    """Blocks whose search text is nowhere in the file."""
    edit = Edit(path, "no such line in this file\n", "another line\n")
    return Scenario("malformed_edits", (edit,))


def no_change(path: str = "calc.py", line: str = "    return a - b\n") -> Scenario:
    """An edit that replaces a line by itself."""
    return Scenario("no_change", (Edit(path, line, line),))


def big_edit(path: str = "generated.py", lines: int = 5000) -> Scenario:
    """A new file of many lines."""
    body = "".join(f"VALUE_{number} = {number}\n" for number in range(lines))
    return Scenario("big_edit", (Edit(path, "", body, commit="feat: Add generated values"),))


def failing(fault: Fault, times: int | None = None, then: Sequence[Reply] = ()) -> Scenario:
    """A published error: always, or `times` times and `then` the rest."""
    retry_after = 1 if fault is Fault.RATE_LIMIT else None
    return Scenario(f"{fault}_error", (HttpError(fault, times, retry_after), *then))


def hang(seconds: float = FOREVER) -> Scenario:
    return Scenario("hang", (Hang(seconds),))


def truncated(text: str = "This answer is cut off before it has come to its end.") -> Scenario:
    return Scenario("truncated", (Truncated(text),))


def reset() -> Scenario:
    return Scenario("reset", (Reset(),))


BUILT_IN: Mapping[str, Callable[[], Scenario]] = {
    "fix_after_failing_test": lambda: fix_after_failing_test(
        "calc.py",
        ("    return a - b\n", "    return abs(a - b)\n"),
        ("    return abs(a - b)\n", "    return a + b\n"),
    ),
    "prose_only": prose_only,
    "malformed_edits": malformed_edits,
    "no_change": no_change,
    "big_edit": big_edit,
    "auth_error": lambda: failing(Fault.AUTH),
    "quota": lambda: failing(Fault.QUOTA),
    "rate_limit": lambda: failing(Fault.RATE_LIMIT),
    "server_error": lambda: failing(Fault.SERVER),
    "overflow": lambda: failing(Fault.OVERFLOW),
    "hang": hang,
    "truncated": truncated,
    "reset": reset,
}

_KINDS: Mapping[str, type[Any]] = {
    "text": Text,
    "edit": Edit,
    "error": HttpError,
    "hang": Hang,
    "truncated": Truncated,
    "reset": Reset,
}


def _reply_from(entry: Mapping[str, Any]) -> Reply:
    values = dict(entry)
    kind = values.pop("kind")
    if kind not in _KINDS:
        raise ValueError(f"reply kind {kind!r} is none of {', '.join(_KINDS)}")
    unknown = set(values) - {each.name for each in fields(_KINDS[kind])}
    if unknown:
        raise ValueError(f"a reply of kind {kind!r} has no {', '.join(sorted(unknown))}")
    if kind == "error":
        values["fault"] = Fault(values["fault"])
    reply: Reply = _KINDS[kind](**values)
    return reply


def _mentions(messages: Sequence[Message], words: str) -> bool:
    return any(words in each.text for each in messages)


def _whole(messages: Sequence[Message]) -> str:
    return "\n".join(each.text for each in messages)


def _lines(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _new_lines(edit: Edit) -> set[str]:
    old = {line.strip() for line in edit.search.splitlines()}
    return {line.strip() for line in edit.replace.splitlines()} - old
