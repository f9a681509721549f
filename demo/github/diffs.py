"""A unified diff as values: files, hunks, lines with their numbers on both sides.

Names and counts come from git's NUL-separated output, never from parsing a patch's header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from demo.github.git import GitRepo

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_STATUS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "T": "changed"}


@dataclass(frozen=True)
class DiffLine:
    """One line of a hunk. `position` counts from the file's first hunk header, as GitHub does."""

    kind: str  # "add", "del" or "same"
    old: int | None
    new: int | None
    text: str
    position: int


@dataclass(frozen=True)
class Hunk:
    header: str
    lines: tuple[DiffLine, ...]

    def up_to(self, line: DiffLine) -> str:
        """Return the hunk's text from its header to a line: GitHub's `diff_hunk`."""
        marks = {"add": "+", "del": "-", "same": " "}
        shown = [f"{marks[li.kind]}{li.text}" for li in self.lines if li.position <= line.position]
        return "\n".join([self.header, *shown])


@dataclass(frozen=True)
class DiffFile:
    path: str
    old_path: str | None
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str | None
    hunks: tuple[Hunk, ...]

    def find(self, line: int, side: str) -> tuple[Hunk, DiffLine] | None:
        """Return where a line number of a side (LEFT or RIGHT) stands in this diff, if it does."""
        for hunk in self.hunks:
            for candidate in hunk.lines:
                number = candidate.new if side == "RIGHT" else candidate.old
                if number == line:
                    return hunk, candidate
        return None

    def at_position(self, position: int) -> tuple[Hunk, DiffLine] | None:
        for hunk in self.hunks:
            for candidate in hunk.lines:
                if candidate.position == position:
                    return hunk, candidate
        return None


def diff(repo: GitRepo, old: str, new: str) -> tuple[DiffFile, ...]:
    """Return what changed between two commits or trees. GitFailed when one does not exist."""
    return _diff(repo.path, old, new)


def diff_text(repo: GitRepo, old: str, new: str) -> str:
    return repo.run("diff", *_OPTIONS, "-p", old, new).decode("utf-8", "replace")


_OPTIONS = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--full-index")


@lru_cache(maxsize=256)
def _diff(path: Path, old: str, new: str) -> tuple[DiffFile, ...]:
    repo = GitRepo(path)
    facts = _facts(repo.run("diff", *_OPTIONS, "--raw", "-z", old, new))
    counts = _counts(repo.run("diff", *_OPTIONS, "--numstat", "-z", old, new))
    pieces = iter(_split(diff_text(repo, old, new)))
    patches = (_patch_of(fact, pieces) for fact in facts)
    rows = zip(facts, counts, patches, strict=True)
    return tuple(_file(fact, count, patch) for fact, count, patch in rows)


def _patch_of(fact: tuple[str, str, str | None, str], pieces: Iterator[str]) -> str:
    """Return a file's patch. A change of type is written as a deletion and an addition."""
    return next(pieces) + next(pieces) if fact[0] == "T" else next(pieces)


def _facts(raw: bytes) -> list[tuple[str, str, str | None, str]]:
    """Return (status letter, new blob, old path when renamed, path) of each file."""
    parts = iter(raw.decode("utf-8", "replace").split("\0"))
    found = []
    for header in parts:
        if not header:
            continue
        _, _, old_sha, new_sha, status = header.split()
        first = next(parts)
        second = next(parts) if status[0] in "RC" else None
        sha = old_sha if status == "D" else new_sha
        found.append((status[0], sha, first if second else None, second or first))
    return found


def _counts(numstat: bytes) -> list[tuple[int, int]]:
    parts = iter(numstat.decode("utf-8", "replace").split("\0"))
    found = []
    for record in parts:
        if not record:
            continue
        added, deleted, path = record.split("\t", 2)
        if not path:  # a rename: the two paths follow as records of their own
            next(parts), next(parts)
        found.append((_number(added), _number(deleted)))
    return found


def _number(text: str) -> int:
    return 0 if text == "-" else int(text)


def _split(text: str) -> list[str]:
    """Cut a patch into one piece per file. Content lines never start with `diff`."""
    return re.split(r"^(?=diff --git )", text, flags=re.MULTILINE)[1:]


def _file(fact: tuple[str, str, str | None, str], count: tuple[int, int], patch: str) -> DiffFile:
    letter, sha, old_path, path = fact
    start = re.search(r"^@@ ", patch, re.MULTILINE)
    body = patch[start.start() :].rstrip("\n") if start else None
    return DiffFile(
        path=path,
        old_path=old_path,
        status=_STATUS.get(letter, "changed"),
        sha=sha,
        additions=count[0],
        deletions=count[1],
        patch=body,
        hunks=_hunks(body) if body else (),
    )


def _hunks(body: str) -> tuple[Hunk, ...]:
    hunks: list[tuple[str, list[DiffLine]]] = []
    old = new = 0
    for position, text in enumerate(body.split("\n")):
        if match := _HUNK.match(text):
            old, new = int(match[1]), int(match[2])
            hunks.append((text, []))
            continue
        line = _line(text, old, new, position)
        if line is None:
            continue
        hunks[-1][1].append(line)
        old += line.old is not None
        new += line.new is not None
    return tuple(Hunk(header, tuple(lines)) for header, lines in hunks)


def _line(text: str, old: int, new: int, position: int) -> DiffLine | None:
    """Return one content line, or None for git's note about a missing last newline."""
    mark, rest = text[:1], text[1:]
    if mark == "\\":
        return None
    if mark == "+":
        return DiffLine("add", None, new, rest, position)
    if mark == "-":
        return DiffLine("del", old, None, rest, position)
    return DiffLine("same", old, new, rest, position)
