"""What a person asked for, out of the Markdown of a comment. Pure.

`/aider` counts at the start of a line of ordinary text, never in quotes, code, HTML, links or
lists; what GitHub shows as a quote is a quote, also where a line of it lacks its `>`.
Everything from the command up to the next command or the end of the comment is its text:

    /aider [key=value …] [free text]
    /aider stop | retry | status | undo | help | force
    /aider allow PATH

A subcommand stands alone on its line (politeness apart): `/aider stop using globals` is a wish.
Nothing stands below `allow PATH`. Invisible characters at the ends of a command's words, which come
along when text is copied, are ignored.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.branches import is_valid_branch
from app.text import is_invisible, strip_invisible

MAX_COMMANDS = 10
MAX_ATTEMPTS = 8


class CommandKind(StrEnum):
    RUN = "run"
    STOP = "stop"
    RETRY = "retry"
    STATUS = "status"
    UNDO = "undo"
    HELP = "help"
    ALLOW = "allow"
    FORCE = "force"


# Those that stand alone on their line; `allow` takes a path, and a run takes anything.
SUBCOMMANDS = tuple(
    kind.value for kind in CommandKind if kind not in {CommandKind.RUN, CommandKind.ALLOW}
)
OPTIONS = ("model", "base", "attempts")


@dataclass(frozen=True)
class CommandOptions:
    """What `key=value` asked for; None where nothing was."""

    model: str | None = None
    base: str | None = None
    attempts: int | None = None


@dataclass(frozen=True)
class Command:
    """One command. `text` is raw Markdown, untrusted; `line` is 1-based in the comment."""

    kind: CommandKind
    text: str = ""
    options: CommandOptions = field(default_factory=CommandOptions)
    line: int = 1


@dataclass(frozen=True)
class CommandError:
    """A command that cannot be followed, why in words, and the nearest right spelling if any.

    `reason` may quote the person's own word: render it with `app.text.inline`.
    """

    reason: str
    nearest: str | None = None
    line: int = 1


_COMMAND_LINE = re.compile(r"^ {0,3}/aider(?=\s|$)", re.IGNORECASE)
_MAYBE = re.compile(r"/aider", re.IGNORECASE)
_OPTION_WORD = r"([A-Za-z][A-Za-z_-]*)=(\S*)"
_OPTION = re.compile(rf"{_OPTION_WORD}(?:\s+|$)")
_ONLY_OPTIONS = re.compile(rf"(?:\s+{_OPTION_WORD})+\s*")
_POLITE = re.compile(r"(?:[\s,]+(?:please|now|it|this|that|thanks))*\s*[.!]*", re.IGNORECASE)
_QUOTES = "`\"'"
_ALLOW = re.compile(
    r"""allow[ \t]+(?P<word>`(?P<ticks>[^`]+)`|"(?P<double>[^"]+)"|'(?P<single>[^']+)'"""
    r"|(?P<bare>\S+))"
    r"(?P<tail>.*)",
    re.IGNORECASE,
)
# Words have neither inside, unless they are a path; full stops and commas at the end say nothing.
_PATH_SIGN = re.compile(r"/|\.(?=[^.,;:!?\s])")
# A private character cannot be Markdown, so it marks a place without changing how it is read.
_MARK = "\ue000"
_MARKED = re.compile(rf"/aider{_MARK}(\d+){_MARK}", re.IGNORECASE)
_NEAR = 0.75
_ONE_PATH = "allow is followed by one path of the refusal, and nothing else"
_WORD = re.compile(r"[A-Za-z]{3,}")


@functools.lru_cache(maxsize=8)
def parse_commands(text: str) -> tuple[Command | CommandError, ...]:
    """Return every command of one comment in order, the wrong ones as errors in their place.

    Each step of one delivery asks again, and a long comment takes a quarter of a second to read.
    """
    lines = re.split(r"\r\n?|\n", text)
    starts = _command_lines(lines)
    found = [_parse_one(lines, start, end) for start, end in _spans(starts, len(lines))]
    if len(found) <= MAX_COMMANDS:
        return tuple(found)
    too_many = CommandError(
        f"only the first {MAX_COMMANDS} commands of a comment are followed",
        line=starts[MAX_COMMANDS] + 1,
    )
    return (*found[:MAX_COMMANDS], too_many)


def _spans(starts: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    return zip(starts, (*starts[1:], end), strict=True) if starts else iter(())


def _command_lines(lines: Sequence[str]) -> list[int]:
    """Return the indices of the lines that are commands, by marking candidates and parsing."""
    trimmed = {i: _trim_words(line) for i, line in enumerate(lines) if _MAYBE.search(line)}
    candidates = {i: line for i, line in trimmed.items() if _COMMAND_LINE.match(line)}
    if not candidates:
        return []
    marked = [line.replace(_MARK, "") for line in lines]
    for i, line in candidates.items():
        marked[i] = _COMMAND_LINE.sub(lambda m, i=i: f"{m.group()}{_MARK}{i}{_MARK}", line)  # type: ignore[misc]
    return [int(index) for index in _marks_in_text("\n".join(marked))]


def _trim_words(line: str) -> str:
    return re.sub(r"\S+", lambda found: _trim_word(found.group()), line)


def _trim_word(word: str) -> str:
    """Return a word without the invisible characters that it begins and ends with."""
    return word.strip("".join(filter(is_invisible, set(word))))


def _marks_in_text(markdown: str) -> Iterator[str]:
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    for before, token in itertools.pairwise(tokens):
        top = before.level == 0 and before.type in {"paragraph_open", "heading_open"}
        if top and token.type == "inline":
            yield from _marks_at_line_starts(token.children or [])


def _marks_at_line_starts(children: Sequence[Token]) -> Iterator[str]:
    at_start, links = True, 0
    for child in children:
        links += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        found = _MARKED.match(child.content) if child.type == "text" else None
        if found and at_start and not links:
            yield found.group(1)
        at_start = child.type in {"softbreak", "hardbreak"}


def _parse_one(lines: Sequence[str], start: int, end: int) -> Command | CommandError:
    first = _COMMAND_LINE.sub("", _trim_words(lines[start]))
    rest = "\n".join((first, *lines[start + 1 : end])).strip()
    try:
        return _parse_text(rest, start + 1)
    except _Wrong as wrong:
        return CommandError(str(wrong), wrong.nearest, start + 1)


class _Wrong(Exception):
    def __init__(self, reason: str, nearest: str | None = None) -> None:
        super().__init__(reason)
        self.nearest = nearest


def _parse_text(rest: str, line: int) -> Command:
    given: dict[str, str] = {}
    rest = _take_options(rest, given)
    kind, rest = _take_subcommand(rest)
    if kind is CommandKind.ALLOW:
        return _allow(rest, given, line)
    if kind is not CommandKind.RUN:
        rest = _take_options(rest, given)
    return Command(kind, rest, _options(given), line)


def _allow(path: str, given: dict[str, str], line: int) -> Command:
    """`path` is one path, as the refusal shows it; it takes no option."""
    if not path or given:
        raise _Wrong(_ONE_PATH)
    return Command(CommandKind.ALLOW, path, line=line)


def _take_options(rest: str, given: dict[str, str]) -> str:
    while found := _OPTION.match(rest):
        key = found.group(1).lower()
        if key not in OPTIONS:
            near = difflib.get_close_matches(key, OPTIONS, 1)
            raise _Wrong(f"there is no option {key}=", f"{near[0]}=" if near else None)
        if key in given:
            raise _Wrong(f"the option {key}= is given twice")
        given[key] = found.group(2).strip(_QUOTES)
        rest = rest[found.end() :]
    return rest


def _take_subcommand(rest: str) -> tuple[CommandKind, str]:
    """Split a subcommand from the rest. A lone word that nearly is one is a mistake."""
    first, _, later = rest.partition("\n")
    path = _allowed_path(first.rstrip(), later)
    if path is not None:
        return CommandKind.ALLOW, path
    for name in SUBCOMMANDS:
        head, tail = first[: len(name)].lower(), first[len(name) :]
        if head == name and _POLITE.fullmatch(tail):
            return CommandKind(name), later.strip()
        if head == name and _ONLY_OPTIONS.fullmatch(tail):
            return CommandKind(name), f"{tail}\n{later}".strip()
    _refuse_near_miss(rest)
    return CommandKind.RUN, rest


def _allowed_path(first: str, later: str) -> str | None:
    """Return the path of an `allow`, "" for a missing one; None if this is something else.

    `allow users to log in` is a wish: what is no path by its look, and has words behind it.
    """
    if first.lower() == CommandKind.ALLOW:
        return ""
    found = _ALLOW.fullmatch(first)
    if found is None:
        return None
    word, tail = found["word"], found["tail"]
    alone = _POLITE.fullmatch(tail) is not None
    if not alone and found["bare"] and not _PATH_SIGN.search(word):
        return None
    if not alone or strip_invisible(later)[0].strip():
        raise _Wrong(_ONE_PATH, f"/aider allow {word}")
    return str(found["ticks"] or found["double"] or found["single"] or found["bare"])


def _refuse_near_miss(rest: str) -> None:
    """Refuse one word that is a subcommand but for a slip, or for what nobody can see in it."""
    word = strip_invisible(rest)[0]
    near = difflib.get_close_matches(word.lower(), SUBCOMMANDS, 1, _NEAR)
    if _WORD.fullmatch(word) and near:
        hidden = "" if word == rest else ": an invisible character is in that word"
        raise _Wrong(f"there is no command /aider {rest}{hidden}", f"/aider {near[0]}")


def _options(given: dict[str, str]) -> CommandOptions:
    for key, value in given.items():
        if not value or not value.isprintable():
            raise _Wrong(f"the option {key}= needs a value")
    base = given.get("base")
    if base is not None and not is_valid_branch(base):
        raise _Wrong("base= is not a name that git takes for a branch")
    return CommandOptions(given.get("model"), base, _attempts(given.get("attempts")))


def _attempts(value: str | None) -> int | None:
    if value is None:
        return None
    if not re.fullmatch(r"[0-9]{1,2}", value) or not 1 <= int(value) <= MAX_ATTEMPTS:
        raise _Wrong(f"attempts= is a number from 1 to {MAX_ATTEMPTS}")
    return int(value)
