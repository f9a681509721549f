"""What git says about a pull request: its commits, its diff, whether it merges."""

from __future__ import annotations

from demo.github.diffs import DiffFile, diff
from demo.github.git import EMPTY_TREE, Commit
from demo.github.records import Pull

MAX_COMMITS = 250


def fork_point(pull: Pull) -> str:
    """Return the commit (or the empty tree) that the pull request's diff starts from."""
    return pull.repo.git.merge_base(pull.base_sha, pull.head_sha) or EMPTY_TREE


def diff_files(pull: Pull) -> tuple[DiffFile, ...]:
    return diff(pull.repo.git, fork_point(pull), pull.head_sha)


def pull_commits(pull: Pull) -> list[Commit]:
    """Return its commits, oldest first, at most 250 as on GitHub."""
    return pull.repo.git.commits(fork_point(pull), pull.head_sha, MAX_COMMITS)


def merge_state(pull: Pull) -> tuple[bool | None, str]:
    """Return GitHub's (mergeable, mergeable_state)."""
    if pull.merged_at is not None:
        return None, "unknown"
    base = pull.repo.git.head(pull.base_ref)
    if base is None or pull.repo.git.merge_tree(base, pull.head_sha) is None:
        return False, "dirty"
    if pull.draft:
        return True, "draft"
    failed = any(run.conclusion in ("failure", "timed_out") for run in pull.checks)
    return True, "unstable" if failed else "clean"
