"""The machine's commits, made again by us: same trees, same order; author, date, message ours.

Nothing of the machine's commit objects goes out: no signature, no extra header, no author. With the
same inputs the same hashes come out, so that a publish which is repeated pushes the same commits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.commit_message import clean_message, clean_name, compose_message, split_commit
from workers.gate import Quarantine
from workers.git import Git, GitFailed, printable
from workers.guest_repo import Identity
from workers.objects import list_changed_paths, tree_of

OUR_REF = "refs/drydock/ours"
MAX_COMMIT_BYTES = 1024 * 1024
_LONGEST_ESCAPE = 10


@dataclass(frozen=True)
class NewCommit:
    """One commit as we made it, and the machine's commit it stands for."""

    sha: str
    source: str
    subject: str


@dataclass(frozen=True)
class Signature:
    """What all commits of a run carry. `at` is seconds since 1970, UTC.

    `trailers` come last in each message, after the co-author; values are made one line.
    """

    author: Identity
    at: int
    co_author: Identity | None = None
    trailers: Mapping[str, str] | None = None

    def all_trailers(self) -> dict[str, str]:
        """Return the trailers in their order."""
        first = {}
        if self.co_author is not None:
            name, email = clean_name(self.co_author.name), clean_name(self.co_author.email)
            first["Co-authored-by"] = f"{name} <{email}>"
        return {**first, **(self.trailers or {})}


@dataclass(frozen=True)
class FileStat:
    """Changed lines of one file; None for binary content. `path` is cleaned for display."""

    path: str
    added: int | None
    deleted: int | None


@dataclass(frozen=True)
class Diff:
    """A unified diff as text for a report, cut at a line where it was too long."""

    text: str
    truncated: bool


def recreate_commits(git: Git, taken: Quarantine, signature: Signature) -> tuple[NewCommit, ...]:
    """Make each commit again on the same tree, in order; those that change nothing are dropped.

    An empty result is no change at all. The new head is kept under `OUR_REF`.
    """
    made: list[NewCommit] = []
    parent, parent_tree = taken.base_sha, tree_of(git, taken.git_dir, taken.base_sha)
    for source in taken.commits:
        tree = tree_of(git, taken.git_dir, source)
        if tree == parent_tree:
            continue
        commit = _recreate(git, taken.git_dir, source, tree, parent, signature)
        made.append(commit)
        parent, parent_tree = commit.sha, tree
    git.run(["update-ref", OUR_REF, parent], git_dir=taken.git_dir)
    return tuple(made)


def read_stats(git: Git, git_dir: Path, before: str, after: str) -> tuple[FileStat, ...]:
    """Return the changed files between two commits with their lines."""
    raw = git.run(
        ["diff-tree", "-r", "-z", "--numstat", "--no-renames", before, after], git_dir=git_dir
    )
    return tuple(_parse_stat(record) for record in raw.split(b"\0") if record)


def read_diff(git: Git, git_dir: Path, before: str, after: str, cap: int) -> Diff:
    """Return the diff between two commits, at most `cap` bytes of it, fit to be shown."""
    done = git.attempt(
        ["diff-tree", "-r", "-p", "-M", "-l200", "--no-ext-diff", "--no-textconv", before, after],
        git_dir=git_dir,
        output_cap=cap,
        head_only=True,
    )
    if done.exit_code != 0 and not done.truncated:
        raise GitFailed(["diff-tree", "-p"], done.exit_code, done.stderr)
    raw = done.stdout[: done.stdout.rfind(b"\n") + 1] if done.truncated else done.stdout
    lines = raw.decode("utf-8", "replace").split("\n")
    return Diff("\n".join(_shown(line) for line in lines), done.truncated)


def _shown(line: str) -> str:
    # A tab is ordinary in code; a carriage return at the end says how the line ends.
    parts = line.removesuffix("\r").split("\t")
    return "\t".join(printable(part, _LONGEST_ESCAPE * len(part)) for part in parts)


def _recreate(
    git: Git, git_dir: Path, source: str, tree: str, parent: str, signature: Signature
) -> NewCommit:
    raw = git.run(["cat-file", "commit", source], git_dir=git_dir, output_cap=MAX_COMMIT_BYTES)
    message = clean_message(split_commit(raw), _describe(git, git_dir, parent, tree))
    text = compose_message(message, signature.all_trailers())
    sha = git.run(
        ["commit-tree", tree, "-p", parent],
        git_dir=git_dir,
        stdin=text.encode(),
        env=signed_env(signature),
    )
    return NewCommit(sha.decode().strip(), source, message.subject)


def signed_env(signature: Signature) -> dict[str, str]:
    """Return the environment that has git write a signature into a commit."""
    name, email = clean_name(signature.author.name), clean_name(signature.author.email)
    env = {}
    for role in ("AUTHOR", "COMMITTER"):
        env[f"GIT_{role}_NAME"] = name
        env[f"GIT_{role}_EMAIL"] = email
        env[f"GIT_{role}_DATE"] = f"{signature.at} +0000"
    return env


def _describe(git: Git, git_dir: Path, before: str, after: str) -> str:
    """Return a subject from the change itself, for a commit that says nothing."""
    paths = list_changed_paths(git, git_dir, before, after)
    shown = re.sub(r"[^\w./ -]", "_", printable(paths[0], 60)) if len(paths) == 1 else ""
    return f"Change {shown}" if shown else f"Change {len(paths)} files"


def _parse_stat(record: bytes) -> FileStat:
    added, deleted, path = record.split(b"\t", 2)
    return FileStat(printable(path), _lines(added), _lines(deleted))


def _lines(field: bytes) -> int | None:
    return None if field == b"-" else int(field)
