"""Our commits in a branch where somebody has pushed since.

The answer to a push may be lost, or the worker that waited for it. When it is repeated, and
somebody was on top of it meanwhile, the commits are there already: to put them there once more
would double them, and to say that they lie elsewhere would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from app.report import CommitSummary
from workers.git import Git
from workers.objects import read_commit, tree_of

# Commits that are looked at, the newest first; `workers.rebase.fetch_head` brings as many.
LOOK_BACK = 50


def landed(
    git: Git, git_dir: Path, tip: str, base: str, commits: Sequence[CommitSummary]
) -> tuple[str, ...] | None:
    """Return the shas under which our commits stand, in their order; None where they do not.

    GitHub, where it makes the commits, gives them shas of its own: they are known by their files,
    their words and what they are made on. Errors: GitFailed.
    """
    there = list(_commits_below(git, git_dir, tip))
    found: list[str] = []
    parent = base
    for commit in commits:
        wanted = (tree_of(git, git_dir, commit.sha), parent)
        made = next((sha for sha, *what in there if tuple(what) == wanted), None)
        if made is None or _words(git, git_dir, made) != _words(git, git_dir, commit.sha):
            return None
        found.append(made)
        parent = made
    return tuple(found)


def _commits_below(git: Git, git_dir: Path, tip: str) -> Iterator[tuple[str, str, str]]:
    """Yield sha, tree and parents of a commit and those before it."""
    listed = git.run(
        [
            *("rev-list", f"--max-count={LOOK_BACK}", "--no-commit-header"),
            *("--format=%H%x09%T%x09%P", tip),
        ],
        git_dir=git_dir,
    )
    for line in listed.decode("ascii").splitlines():
        sha, tree, parents = line.split("\t")
        yield sha, tree, parents


def _words(git: Git, git_dir: Path, sha: str) -> bytes:
    _, message = read_commit(git, git_dir, sha)
    return message.rstrip(b"\n")
