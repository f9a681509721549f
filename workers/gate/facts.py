"""What git says about the commits in a quarantine; nothing is checked out, memory is bounded.

The two versions of every changed file are read in batches, looked at, and let go again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.commit_message import clean_message, compose_message, split_commit
from workers.gate.contents import as_text, look_at, look_at_message, look_at_name, look_for_canaries
from workers.gate.secrets import canary_forms
from workers.gate.values import (
    GITLINK,
    MIB,
    SYMLINK,
    Change,
    Content,
    GateRules,
    Quarantine,
    TestFile,
    TreeFacts,
    TreeLinks,
)
from workers.gate.weakening import count_tests, is_test_config, is_test_file
from workers.git import Git, GitFailed, Limits
from workers.objects import (
    PathChange,
    list_changes,
    list_paths,
    list_tree,
    read_contents,
    read_sizes,
)

BATCH_BYTES = 8 * MIB
_MAX_TARGET = 4_096
# For each of `max_changes` git needs some 300 bytes.
_LISTING_BYTES = 256 * MIB
_NO_ROOM = re.compile("out of memory", re.IGNORECASE)


def read_facts(
    git: Git, taken: Quarantine, rules: GateRules | None = None, canaries: Sequence[str] = ()
) -> TreeFacts:
    """Ask git what every commit and the whole changed. Errors: GitFailed.

    `canaries` are values that only this run's machine was given: they must not come out of it. What
    is too much to be read whole is told as `overflow`.
    """
    rules = rules or GateRules()
    try:
        changes = _read_all(git, taken, rules)
    except _TooMuch as too_much:
        return TreeFacts(len(taken.commits), (), overflow=str(too_much))
    return _Reader(git, taken, rules, canary_forms(canaries)).facts(changes)


class _TooMuch(Exception):
    """The change is beyond what is looked through."""


def _read_all(git: Git, taken: Quarantine, rules: GateRules) -> tuple[Change, ...]:
    found: list[tuple[str, PathChange]] = []
    for commit, before, after in (*_spans(taken), ("", taken.base_sha, taken.head_sha)):
        listed = _changes(git, taken.git_dir, before, after, rules)
        found += ((commit, each) for each in listed)
        # Each file is in a commit and in the whole.
        if len(found) > 2 * rules.max_changes:
            raise _TooMuch(f"more than {rules.max_changes} files were changed")
    return _with_sizes(git, taken.git_dir, found)


def _changes(
    git: Git, git_dir: Path, before: str, after: str, rules: GateRules
) -> tuple[PathChange, ...]:
    """Return what differs. _TooMuch where git cannot list it within bounds: a few small trees can
    name one another's files a hundred million times."""
    limits = Limits(data_bytes=_LISTING_BYTES)
    try:
        return list_changes(git, git_dir, before, after, timeout_s=rules.max_seconds, limits=limits)
    except GitFailed as error:
        if error.exit_code is not None and not _NO_ROOM.search(error.stderr):
            raise
        raise _TooMuch("the trees unfold to more files than can be looked through") from error


def _spans(taken: Quarantine) -> Iterator[tuple[str, str, str]]:
    for before, sha in zip((taken.base_sha, *taken.commits), taken.commits, strict=False):
        yield sha, before, sha


def _with_sizes(
    git: Git, git_dir: Path, found: Sequence[tuple[str, PathChange]]
) -> tuple[Change, ...]:
    sizes = read_sizes(git, git_dir, {each.sha for _, each in found if _is_blob(each.mode)})
    return tuple(
        Change(commit, at.path, at.old_mode, at.mode, at.sha, sizes.get(at.sha), at.old_sha)
        for commit, at in found
    )


def _is_blob(mode: int) -> bool:
    return mode not in {0, GITLINK}


@dataclass(frozen=True)
class _Pair:
    """One change whose contents are looked at: for what it adds, and for its tests.

    Of what `is_large` nothing but canaries is looked for: people do not read it either.
    """

    change: Change
    bytes: int
    old_is_read: bool
    is_large: bool

    @property
    def shas(self) -> tuple[str, ...]:
        old, new = (
            (self.change.old_mode, self.change.old_sha),
            (self.change.new_mode, self.change.new_sha),
        )
        sides = (old, new) if self.old_is_read else (new,)
        return tuple(sha for mode, sha in sides if _is_blob(mode))


class _Reader:
    def __init__(
        self, git: Git, taken: Quarantine, rules: GateRules, canaries: Sequence[bytes]
    ) -> None:
        self._git = git
        self._taken = taken
        self._rules = rules
        self._canaries = canaries

    def facts(self, changes: tuple[Change, ...]) -> TreeFacts:
        touched = dict.fromkeys(
            each.commit or self._taken.head_sha for each in changes if _touches_link(each)
        )
        base = self._taken.base_sha
        try:
            contents, tests = self._look_through(changes)
        except _TooMuch as too_much:
            return TreeFacts(len(self._taken.commits), changes, overflow=str(too_much))
        return TreeFacts(
            commits=len(self._taken.commits),
            changes=changes,
            base_links=self._links(base) if touched else {},
            links=tuple(TreeLinks(sha, self._links(sha)) for sha in touched),
            base_paths=(
                list_paths(self._git, self._taken.git_dir, base)
                if any(c.old_mode == 0 for c in changes)
                else ()
            ),
            contents=(*self._messages(), *self._names(changes), *contents),
            tests=tests,
        )

    def _links(self, sha: str) -> dict[bytes, bytes]:
        entries = list_tree(self._git, self._taken.git_dir, sha)
        found = [entry for entry in entries if entry.mode == SYMLINK]
        # A target longer than a path can be leads nowhere: judged as leaving, not read.
        short = [entry.sha for entry in found if (entry.size or 0) <= _MAX_TARGET]
        targets = read_contents(self._git, self._taken.git_dir, short)
        return {entry.path: targets.get(entry.sha, b"/") for entry in found}

    def _messages(self) -> Iterator[Content]:
        raw = read_contents(self._git, self._taken.git_dir, self._taken.commits)
        for sha in self._taken.commits:
            seen = look_at_message(sha, _readings(split_commit(raw[sha])), self._canaries)
            if seen is not None:
                yield seen

    def _names(self, changes: Sequence[Change]) -> Iterator[Content]:
        made = {c.path: c for c in reversed(changes) if c.new_mode and not c.old_mode}
        # All at once first: there are thousands, and nearly always nothing in any.
        if look_at_name("", b"\n".join(made), self._canaries) is None:
            return
        for change in made.values():
            seen = look_at_name(change.commit, change.path, self._canaries)
            if seen is not None:
                yield seen

    def _look_through(
        self, changes: Sequence[Change]
    ) -> tuple[tuple[Content, ...], tuple[TestFile, ...]]:
        pairs = self._pairs(changes)
        total = sum(pair.bytes for pair in pairs if not pair.is_large)
        if total > self._rules.max_scan_bytes:
            raise _TooMuch(f"{total // MIB} MiB of changed files are more than is looked through")
        contents: list[Content] = []
        tests: list[TestFile] = []
        # The whole of a single commit is that commit: each pair of versions is looked at once.
        seen: set[tuple[bytes, str, str]] = set()
        deadline = time.monotonic() + self._rules.max_seconds
        for batch in _batches(pairs):
            blobs = read_contents(
                self._git, self._taken.git_dir, [sha for pair in batch for sha in pair.shas]
            )
            for pair in batch:
                if time.monotonic() > deadline:
                    raise _TooMuch("it takes too long to look through what was changed")
                self._look_at(pair, blobs, seen, contents, tests)
        return tuple(contents), tuple(tests)

    def _pairs(self, changes: Sequence[Change]) -> list[_Pair]:
        wanted = [c for c in changes if _is_blob(c.new_mode) or (not c.commit and _of_tests(c))]
        old = {c.old_sha for c in wanted if _is_blob(c.old_mode)}
        sizes = read_sizes(self._git, self._taken.git_dir, old)
        pairs = (self._pair(change, sizes.get(change.old_sha, 0)) for change in wanted)
        return [pair for pair in pairs if self._canaries or not pair.is_large]

    def _pair(self, change: Change, old_size: int) -> _Pair:
        """Without an old version that is too large: then all of the new one counts as added."""
        size, largest = change.size or 0, self._rules.max_file_bytes
        is_read = old_size <= 2 * largest
        return _Pair(change, size + (old_size if is_read else 0), is_read, size > largest)

    def _look_at(
        self,
        pair: _Pair,
        blobs: Mapping[str, bytes],
        seen: set[tuple[bytes, str, str]],
        contents: list[Content],
        tests: list[TestFile],
    ) -> None:
        change = pair.change
        old, new = blobs.get(change.old_sha, b""), blobs.get(change.new_sha, b"")
        key = (change.path, change.old_sha, change.new_sha)
        if _is_blob(change.new_mode) and key not in seen:
            seen.add(key)
            look = look_for_canaries if pair.is_large else look_at
            found = look(change.commit, change.path, old, new, self._canaries)
            if found is not None:
                contents.append(found)
        if not change.commit and _of_tests(change) and pair.old_is_read and not pair.is_large:
            tests.append(_test_file(change, old, new))


def _readings(message: str) -> str:
    """The message as it came, and as it will stand there: cleaning can put a value together."""
    return f"{message}\n{compose_message(clean_message(message, ''), {})}"


def _of_tests(change: Change) -> bool:
    return is_test_file(change.path) or is_test_config(change.path)


def _test_file(change: Change, old: bytes, new: bytes) -> TestFile:
    return TestFile(
        change.path,
        count_tests(change.path, as_text(old)) if _is_blob(change.old_mode) else None,
        count_tests(change.path, as_text(new)) if _is_blob(change.new_mode) else None,
    )


def _batches(pairs: Sequence[_Pair]) -> Iterator[list[_Pair]]:
    batch: list[_Pair] = []
    size = 0
    for pair in pairs:
        if batch and size + pair.bytes > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(pair)
        size += pair.bytes
    if batch:
        yield batch


def _touches_link(change: Change) -> bool:
    return SYMLINK in {change.old_mode, change.new_mode}
