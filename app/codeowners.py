"""CODEOWNERS: who owns a path, by GitHub's rules. Pure.

The last pattern that fits counts. Patterns are those of gitignore without `!`, without `[…]` and
without an escaped `#` at the beginning; such a line, as any that GitHub cannot read, is passed
over. Matching takes time in proportion to pattern and path, whatever a repository writes here.

https://docs.github.com/en/repositories/managing-your-repositorys-settings-and-features/customizing-your-repository/about-code-owners
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

# The first that is there counts; GitHub reads none that is larger.
LOCATIONS = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
MAX_BYTES = 3 * 1024 * 1024
MAX_RULES = 5_000
_MAX_LINE = 1_000
_OWNER = re.compile(r"@[A-Za-z0-9][A-Za-z0-9-]*(?:/[A-Za-z0-9_.-]+)?|[^@\s]+@[^@\s]+\.[^@\s]+")
_PATTERN = re.compile(r"(?:\\.|[^\\\s])+")
_PIECE = re.compile(r"\\(.)|(\*+)|(\?)|(.)", re.DOTALL)
_COMMENT = re.compile(r"(?:^|\s)#")
_FOLDERS = "**"


class _Wild(Enum):
    ANY = "*"
    ONE = "?"


# One part of a path, character by character.
_Part = tuple[str | _Wild, ...]


class _Below(Enum):
    """Whether a pattern is about what lies below that which it names, too or alone."""

    TOO = "too"
    ALONE = "alone"
    NOT = "not"


@dataclass(frozen=True)
class Pattern:
    """A pattern in parts; None stands for any number of folders."""

    parts: tuple[_Part | None, ...]
    below: _Below

    def fits(self, path: str) -> bool:
        names = path.split("/")
        ends = {0}
        for part in self.parts:
            ends = _next_ends(part, ends, names)
        if self.below is _Below.TOO:
            return bool(ends)
        if self.below is _Below.ALONE:
            return any(end < len(names) for end in ends)
        return len(names) in ends


@dataclass(frozen=True)
class OwnerRule:
    """One line: what it fits, and its owners as they are written; () takes owners away."""

    pattern: Pattern
    owners: tuple[str, ...]


def read_codeowners(text: str) -> tuple[OwnerRule, ...]:
    """Return the lines that can be read, in their order; of too many the last."""
    return tuple(_rules(text))[-MAX_RULES:]


def owners_of(rules: Sequence[OwnerRule], path: str) -> tuple[str, ...]:
    """Return the owners of a path; () for nobody."""
    return next((rule.owners for rule in reversed(rules) if rule.pattern.fits(path)), ())


def _rules(text: str) -> Iterator[OwnerRule]:
    for line in text.splitlines():
        stripped = line.strip()
        if len(stripped) > _MAX_LINE or stripped.startswith(("#", "\\#", "!")):
            continue
        found = _PATTERN.match(stripped)
        if found is None:
            continue
        pattern, owners = read_pattern(found[0]), _owners(stripped[found.end() :])
        if pattern is not None and owners is not None:
            yield OwnerRule(pattern, owners)


def _owners(rest: str) -> tuple[str, ...] | None:
    """Return what follows a pattern, up to a comment; None where a word is no owner."""
    words = _COMMENT.split(rest, maxsplit=1)[0].split()
    return tuple(words) if all(map(_OWNER.fullmatch, words)) else None


def read_pattern(text: str) -> Pattern | None:
    """Return a pattern; None for one that GitHub does not take."""
    if re.search(r"(?<!\\)\[", text):
        return None
    words = text.strip("/").split("/")
    if "" in words:
        return None
    below = _below(text, words)
    if words[-1] == _FOLDERS:
        words.pop()
    # Without a slash before its end a pattern is about every folder.
    rooted = "/" in text.rstrip("/")
    parts = tuple(None if word == _FOLDERS else _read_part(word) for word in words)
    return Pattern(parts if rooted else (None, *parts), below)


def _below(text: str, words: Sequence[str]) -> _Below:
    if text.endswith("/") or words[-1] == _FOLDERS:
        return _Below.ALONE
    return _Below.NOT if words[-1] == "*" and "/" in text else _Below.TOO


def _read_part(word: str) -> _Part:
    return tuple(map(_piece, _PIECE.finditer(word)))


def _piece(found: re.Match[str]) -> str | _Wild:
    escaped, stars, mark, plain = found.groups()
    if stars:
        return _Wild.ANY
    return _Wild.ONE if mark else str(escaped or plain)


def _next_ends(part: _Part | None, ends: set[int], names: Sequence[str]) -> set[int]:
    """Return how many names may have been used up after this part."""
    if part is None:
        return set(range(min(ends), len(names))) if ends else set()
    return {end + 1 for end in ends if end < len(names) and _fits(part, names[end])}


def _fits(part: _Part, name: str) -> bool:
    """Match one name: only the last star ever has to be tried again, one character later."""
    at = begin = 0
    star: int | None = None
    for_now = 0
    while begin < len(name):
        if at < len(part) and part[at] is _Wild.ANY:
            star, for_now, at = at, begin, at + 1
        elif at < len(part) and part[at] in (_Wild.ONE, name[begin]):
            at, begin = at + 1, begin + 1
        elif star is not None:
            for_now += 1
            at, begin = star + 1, for_now
        else:
            return False
    return all(piece is _Wild.ANY for piece in part[at:])
