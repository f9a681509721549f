"""What has to be told to GitHub of our commits, read from the quarantine that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.git import Git

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
GONE = "000000"
SUBMODULE = "160000"
LISTING_CAP = 256 * 1024 * 1024


@dataclass(frozen=True)
class Change:
    """One path that differs. `mode` is GONE for a path that is taken away; `old_mode` then tells
    what it was. `old_sha` is content that GitHub has."""

    path: bytes
    old_mode: str
    mode: str
    old_sha: str
    sha: str

    @property
    def is_gone(self) -> bool:
        return self.mode == GONE


@dataclass(frozen=True)
class OurCommit:
    """A commit of ours: `parent_tree` is the tree before it, `changes` lead from that to `tree`."""

    sha: str
    parent: str
    parent_tree: str
    tree: str
    message: str
    changes: tuple[Change, ...]


def read_commits(git: Git, git_dir: Path, shas: Sequence[str]) -> tuple[OurCommit, ...]:
    """Return our commits with what each changes. Errors: GitFailed."""
    return tuple(_read_commit(git, git_dir, sha) for sha in shas)


def _read_commit(git: Git, git_dir: Path, sha: str) -> OurCommit:
    names = git.run(
        ["rev-parse", f"{sha}^", f"{sha}^^{{tree}}", f"{sha}^{{tree}}"], git_dir=git_dir
    )
    parent, parent_tree, tree = names.decode().split()
    raw = git.run(["cat-file", "commit", sha], git_dir=git_dir)
    listed = git.run(
        ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", parent_tree, tree],
        git_dir=git_dir,
        output_cap=LISTING_CAP,
    )
    message = raw.partition(b"\n\n")[2].decode()
    return OurCommit(sha, parent, parent_tree, tree, message, tuple(parse_changes(listed)))


def parse_changes(raw: bytes) -> Iterable[Change]:
    """Read `diff-tree --raw -z`. Pure. https://git-scm.com/docs/git-diff-tree#_raw_output_format"""
    fields = raw.split(b"\0")
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, mode, old_sha, sha, _ = facts.removeprefix(b":").decode("ascii").split(" ")
        yield Change(path, old_mode, mode, old_sha, sha)
