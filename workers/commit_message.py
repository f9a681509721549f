"""A commit message as the machine gave it, made fit to carry Drydock's name. Pure.

A message is the model's words, and GitHub acts on such words: it notifies people (`@name`), closes
issues (`fixes #1`), links other repositories, credits co-authors by trailer, and leaves checks out
(`[skip ci]`). None of that may come from a machine. Only the last paragraph holds trailers, and it
is always ours.

Sources: GitHub's documentation "Linking a pull request to an issue", "Creating a commit with
multiple authors", "Skipping workflow runs"; git-interpret-trailers(1).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

MAX_SUBJECT = 72
MAX_BODY_CHARS = 4_000
MAX_BODY_LINES = 100
_ENCODINGS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "iso-8859-1": "latin-1",
    "latin-1": "latin-1",
    "latin1": "latin-1",
    "iso-8859-15": "iso-8859-15",
    "windows-1252": "cp1252",
    "cp1252": "cp1252",
    "cp1251": "cp1251",
    "koi8-r": "koi8-r",
    "shift_jis": "shift_jis",
    "euc-jp": "euc-jp",
    "gbk": "gbk",
}
_PLACEHOLDER = re.compile(r"\(no commit message provided\)", re.IGNORECASE)
_MENTION = re.compile(r"(?<![\w/.])@+(?=[\w-])")
_URL = re.compile(r"https?:/{2,}(?=\S+/(?:issues|pull|pulls|discussions|commit)/)", re.IGNORECASE)
_ISSUE = re.compile(r"(?:(?<=\w)|(?<![\w&]))#+(?=\d)|\bGH-(?=\d)", re.IGNORECASE)
_SKIP = re.compile(
    r"\[(skip ci|ci skip|no ci|skip actions|actions skip)\]|\*\*\*no_ci\*\*\*", re.IGNORECASE
)
_TRAILER = re.compile(
    r"^\s*(?:[\w-]+-by|drydock-[\w-]+|co-?author\w*|change-id|skip-checks|request-checks"
    r"|on-behalf-of|cc|acked|author|committer)\s*:",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Message:
    """A cleaned message. `subject` is never empty and at most 72 characters."""

    subject: str
    body: str = ""


def split_commit(raw: bytes) -> str:
    """Return the message of a raw commit object as text, by its declared encoding or as UTF-8.

    Only encodings that people have written commits in are believed; bytes that do not fit become
    replacement characters.
    """
    head, _, message = raw.partition(b"\n\n")
    declared = re.search(rb"^encoding ([\w.-]{1,40})$", head, re.MULTILINE)
    name = declared[1].decode("ascii", "replace").lower() if declared else "utf-8"
    return message.decode(_ENCODINGS.get(name, "utf-8"), "replace")


def clean_message(text: str, fallback: str) -> Message:
    """Return the message without anything that GitHub, git or a terminal would act on.

    `fallback` is the subject where nothing is left; it must be clean itself.
    """
    lines = [_clean_line(line) for line in _PLACEHOLDER.sub("", _plain(text)).split("\n")]
    kept = [line for line in lines if not _TRAILER.match(line)]
    while kept and not kept[0].strip():
        kept.pop(0)
    if not kept:
        return Message(fallback[:MAX_SUBJECT])
    subject = kept[0].strip()
    rest = _cut_body("\n".join(kept[1:]))
    if len(subject) <= MAX_SUBJECT:
        return Message(subject, rest)
    return Message(_shorten(subject), _cut_body(f"{subject}\n\n{rest}".strip()))


def compose_message(message: Message, trailers: Mapping[str, str]) -> str:
    """Return the whole message: subject, body, and our trailers as the last paragraph."""
    own = "\n".join(f"{name}: {_one_line(value)}" for name, value in trailers.items())
    return "\n\n".join(part for part in (message.subject, message.body, own) if part) + "\n"


def clean_name(name: str) -> str:
    """Return a person's name or address fit for an author line or trailer: one line, no `<>`."""
    return re.sub(r"[<>]", "", _one_line(name)).strip() or "unknown"


def _plain(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    return "".join(char for char in text if char == "\n" or not _acts(char))


def _acts(char: str) -> bool:
    # Control, format (bidirectional, zero-width), surrogate, private, unassigned; line separators.
    return unicodedata.category(char)[0] == "C" or unicodedata.category(char) in {"Zl", "Zp"}


def _clean_line(line: str) -> str:
    before = None
    while line != before:  # one removal can lay another bare
        before = line
        line = _SKIP.sub("", line)
        line = _URL.sub("", line)
        line = _MENTION.sub("", line)
        line = _ISSUE.sub(_spaced_issue, line)
    return line.rstrip()


def _spaced_issue(match: re.Match[str]) -> str:
    start = match.string[: match.start()]
    return "issue " if not start or start[-1].isspace() else " issue "


def _cut_body(body: str) -> str:
    lines = re.sub(r"\n{3,}", "\n\n", body).strip("\n").split("\n")
    return "\n".join(lines[:MAX_BODY_LINES])[:MAX_BODY_CHARS].rstrip()


def _shorten(subject: str) -> str:
    head = subject[: MAX_SUBJECT - 1]
    cut = head.rfind(" ")
    return (head[:cut] if cut > MAX_SUBJECT // 2 else head).rstrip() + "…"


def _one_line(text: str) -> str:
    return " ".join(_plain(text).split())
