"""Blobs, trees and commits made at GitHub from those in a quarantine, each compared with ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from app.github.objects import CommitInfo, GitObjects, TreeChange
from app.repo_config import CONFIG_PATH
from workers.git import Git, printable
from workers.objects import PathChange, list_paths, read_contents, read_sizes
from workers.push import PushTrouble
from workers.signed.given import Given
from workers.signed.plan import MAX_TEXT_BYTES, as_text, batches, new_content, steps_of
from workers.signed.read import EMPTY_TREE, LISTING_CAP, OurCommit

# Less than the 40 MiB from which on GitHub refuses a blob.
MAX_BLOB_BYTES = 40_000_000
# GitHub lets one App create content about 500 times an hour:
# https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
MAX_REQUESTS = 400
# More than the line that git puts before each object.
_HEADER_BYTES = 100
_WAY_ON = f"ask for less at a time, or set `signed_commits: false` in {CONFIG_PATH}"


class Unfit(Exception):
    """These commits cannot be made by GitHub, or were made differently; the text says why."""

    def __init__(self, why: str, trouble: PushTrouble = PushTrouble.UNFIT) -> None:
        super().__init__(f"{why}; {_WAY_ON}" if trouble is PushTrouble.UNFIT else why)
        self.trouble = trouble


def make_commits(
    git: Git, objects: GitObjects, git_dir: Path, ours: Sequence[OurCommit]
) -> tuple[CommitInfo, ...]:
    """Have GitHub make our commits, in order. No ref is touched.

    Errors: Unfit, GitFailed, GitHubError.
    """
    _check_paths(ours)
    maker = _Maker(git, objects, git_dir, ours)
    made: list[CommitInfo] = []
    parent = ours[0].parent
    for commit in ours:
        there = maker.commit(commit, parent)
        made.append(there)
        parent = there.sha
    return tuple(made)


def _check_paths(ours: Sequence[OurCommit]) -> None:
    """GitHub's API speaks of paths in JSON, which has no bytes."""
    for change in (change for commit in ours for change in commit.changes):
        try:
            change.path.decode()
        except UnicodeDecodeError:
            name = printable(change.path, 200)
            raise Unfit(f"the name {name} is not UTF-8, so GitHub cannot be told of it") from None


class _Maker:
    """Keeps what GitHub has been given, and how often it was asked."""

    def __init__(
        self, git: Git, objects: GitObjects, git_dir: Path, ours: Sequence[OurCommit]
    ) -> None:
        self._git = git
        self._objects = objects
        self._git_dir = git_dir
        self._requests = 0
        self._given = Given(git_dir)
        changes = [change for commit in ours for change in commit.changes]
        # What a commit changes is there before it.
        self._known = {change.old_sha for change in ours[0].changes}
        self._sizes = read_sizes(
            git, git_dir, new_content(changes, self._known), output_cap=LISTING_CAP
        )
        self._check_sizes(changes)

    def commit(self, ours: OurCommit, parent: str) -> CommitInfo:
        self._known.update(change.old_sha for change in ours.changes)
        tree = self._tree(ours)
        if tree != ours.tree:
            detail = f"GitHub made the tree {tree} where ours is {ours.tree}"
            raise Unfit(detail, PushTrouble.MISMATCH)
        self._count()
        made = self._objects.create_commit(ours.message, tree, parent)
        if (made.tree, made.parents) != (ours.tree, (parent,)):
            raise Unfit(f"GitHub made {made.sha} of something else", PushTrouble.MISMATCH)
        return made

    def _check_sizes(self, changes: Sequence[PathChange]) -> None:
        for change in changes:
            size = self._sizes.get(change.sha, 0)
            if size > MAX_BLOB_BYTES:
                name = printable(change.path, 200)
                raise Unfit(f"{name} has {size:,} bytes, and GitHub's API takes {MAX_BLOB_BYTES:,}")

    def _count(self) -> None:
        self._requests += 1
        if self._requests > MAX_REQUESTS:
            raise Unfit(f"it takes more than the {MAX_REQUESTS} requests that GitHub lets us make")

    def _tree(self, ours: OurCommit) -> str:
        if ours.tree == EMPTY_TREE or ours.tree in self._given:
            return ours.tree
        base = ours.parent_tree if ours.parent_tree != EMPTY_TREE else None
        for step in steps_of(ours.changes):
            if self._leaves_nothing(base, step):
                base = None
                continue
            for batch in batches(step, self._sizes):
                base = self._add(base, batch)
        return base or EMPTY_TREE

    def _leaves_nothing(self, base: str | None, step: Sequence[PathChange]) -> bool:
        """GitHub makes no empty tree; the next step begins from nothing instead."""
        if base is None or not all(change.is_gone for change in step):
            return False
        paths = list_paths(self._git, self._git_dir, base, output_cap=LISTING_CAP)
        return set(paths) <= {change.path for change in step}

    def _add(self, base: str | None, batch: Sequence[PathChange]) -> str:
        new = self._given.without(new_content(batch, self._known))
        most = _HEADER_BYTES + sum(self._sizes[sha] + _HEADER_BYTES for sha in new)
        data = read_contents(self._git, self._git_dir, new, output_cap=most)
        texts = self._give(data)
        self._count()
        tree = self._objects.create_tree(base, [_told(change, texts) for change in batch])
        self._given.add(*new, tree)
        return tree

    def _give(self, data: Mapping[str, bytes]) -> dict[str, str]:
        """Return what can be told as text within the tree; bring in what cannot."""
        texts = {}
        for sha, content in data.items():
            text = as_text(content) if len(content) <= MAX_TEXT_BYTES else None
            if text is not None:
                texts[sha] = text
                continue
            self._count()
            made = self._objects.create_blob(content)
            if made != sha:
                raise Unfit(f"GitHub made {made} of the file {sha}", PushTrouble.MISMATCH)
            self._given.add(sha)
        return texts


def _told(change: PathChange, texts: Mapping[str, str]) -> TreeChange:
    path = change.path.decode()
    if change.is_gone:
        return TreeChange(path, _octal(change.old_mode))
    mode = _octal(change.mode)
    if change.sha in texts:
        return TreeChange(path, mode, content=texts[change.sha])
    return TreeChange(path, mode, change.sha)


def _octal(mode: int) -> str:
    return f"{mode:06o}"
