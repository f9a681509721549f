"""What has to be told to GitHub of our commits, read from the quarantine that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.git import Git
from workers.objects import PathChange, list_changes, read_commit

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LISTING_CAP = 256 * 1024 * 1024


@dataclass(frozen=True)
class OurCommit:
    """A commit of ours: `parent_tree` is the tree before it, `changes` lead from that to `tree`.

    What a change replaces is content that GitHub has.
    """

    sha: str
    parent: str
    parent_tree: str
    tree: str
    message: str
    changes: tuple[PathChange, ...]


def read_commits(git: Git, git_dir: Path, shas: Sequence[str]) -> tuple[OurCommit, ...]:
    """Return our commits with what each changes. Errors: GitFailed."""
    return tuple(_read_commit(git, git_dir, sha) for sha in shas)


def _read_commit(git: Git, git_dir: Path, sha: str) -> OurCommit:
    names = git.run(
        ["rev-parse", f"{sha}^", f"{sha}^^{{tree}}", f"{sha}^{{tree}}"], git_dir=git_dir
    )
    parent, parent_tree, tree = names.decode().split()
    _, message = read_commit(git, git_dir, sha)
    changes = list_changes(git, git_dir, parent_tree, tree, output_cap=LISTING_CAP)
    return OurCommit(sha, parent, parent_tree, tree, message.decode(), changes)
