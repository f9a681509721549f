"""Globs with many wildcards, matched in time that grows with glob and path together. Pure.

A regular expression tries every way to divide a path among its wildcards, and a repository that
names `**a**a**a**a**a**z` as protected would hold a worker for good. Here all the places that can
have been reached are kept at once, as the bits of a number, and each part of the glob moves them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

WILD = re.compile(r"(\*\*/|/\*\*|\*\*|\*|\?)")
# What a regular expression does without trouble on the longest path.
_FEW = 2


def is_heavy(pattern: str) -> bool:
    """Say whether a glob is one for `fits`; both ways give the same answer."""
    return len(WILD.findall(pattern)) - pattern.count("?") > _FEW


def fits(pattern: str, path: str) -> bool:
    """Match a whole path, ignoring case; `**` crosses folders, `*` and `?` do not."""
    text = _Text(path)
    reached = 1
    for part in WILD.split(pattern):
        step = _STEPS.get(part)
        if step is not None:
            reached = step(text, reached)
            continue
        for char in part:
            reached = (reached & text.places_of(char)) << 1
        if not reached:
            return False
    return bool(reached >> len(path) & 1)


class _Text:
    """A path, and where in it something stands: bit n is the character at n."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[str, int] = {}
        self.all = (1 << (len(path) + 1)) - 1
        self.slashes = sum(1 << at for at, char in enumerate(path) if char == "/")
        self.others = (self.all >> 1) & ~self.slashes
        self.length = len(path)

    def places_of(self, char: str) -> int:
        if char not in self._known:
            self._known[char] = sum(
                1 << at for at, there in enumerate(self._path) if _is_same(char, there)
            )
        return self._known[char]


@functools.lru_cache(maxsize=8_192)
def _is_same(char: str, there: str) -> bool:
    return re.fullmatch(re.escape(char), there, re.IGNORECASE) is not None


def _from_lowest(text: _Text, reached: int) -> int:
    """Everything from the first place on; nothing from nothing."""
    return text.all & ~((reached & -reached) - 1) if reached else 0


def _one(text: _Text, reached: int) -> int:
    return (reached & text.others) << 1


def _in_name(text: _Text, reached: int) -> int:
    """Go on within a name: by one, two, four, … characters that are no slash."""
    run, width = text.others, 1
    while width <= text.length:
        reached |= (reached & run) << width
        run &= run >> width
        width *= 2
    return reached


def _anywhere(text: _Text, reached: int) -> int:
    return _from_lowest(text, reached)


def _to_folders(text: _Text, reached: int) -> int:
    return reached | (text.slashes & _from_lowest(text, reached)) << 1


def _below(text: _Text, reached: int) -> int:
    return reached | _from_lowest(text, (reached & text.slashes) << 1)


_STEPS: Mapping[str, Callable[[_Text, int], int]] = {
    "?": _one,
    "*": _in_name,
    "**": _anywhere,
    "**/": _to_folders,
    "/**": _below,
}
