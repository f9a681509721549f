"""What a repository's object database holds: files of trees, sizes, contents. Nothing is run.

Every answer comes from one git process and is bounded by `output_cap` bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workers.git import DEFAULT_OUTPUT_CAP, Git, GitFailed, Limits, printable

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REGULAR = frozenset({0o100644, 0o100755})


@dataclass(frozen=True)
class TreeEntry:
    """One file of a commit's tree. `size` is in bytes, None for a submodule; `path` is raw."""

    mode: int
    kind: str
    sha: str
    size: int | None
    path: bytes


@dataclass(frozen=True, slots=True)
class PathChange:
    """One path at which two trees differ. Modes are git's, 0 where there is nothing.

    `path` is raw; a side that has nothing is named by zeros.
    """

    path: bytes
    old_mode: int
    mode: int
    old_sha: str
    sha: str

    @property
    def is_gone(self) -> bool:
        return self.mode == 0


class UnreadableBlob(Exception):
    """That path exists, but is no regular file or is longer than allowed."""


def full_name(sha: str) -> str:
    """Return `sha` as it is. ValueError for anything but an object's full name."""
    if not _SHA.fullmatch(sha):
        raise ValueError(f"not a full object name: {printable(sha)}")
    return sha


def list_tree(git: Git, repo: Path, sha: str) -> tuple[TreeEntry, ...]:
    """Return every file of that commit's tree, in git's order. Errors: GitFailed."""
    argv = ["ls-tree", "-r", "-z", "--long", "--full-tree", full_name(sha)]
    listing = git.run(argv, git_dir=repo)
    return tuple(_parse_entry(record) for record in listing.split(b"\0") if record)


def list_paths(
    git: Git, repo: Path, sha: str, output_cap: int = DEFAULT_OUTPUT_CAP
) -> tuple[bytes, ...]:
    """Return every path of a commit's or a tree's files, in git's order. Errors: GitFailed."""
    argv = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", full_name(sha)]
    listing = git.run(argv, git_dir=repo, output_cap=output_cap)
    return tuple(path for path in listing.split(b"\0") if path)


def list_changes(
    git: Git,
    repo: Path,
    before: str,
    after: str,
    output_cap: int = DEFAULT_OUTPUT_CAP,
    timeout_s: float | None = None,
    limits: Limits | None = None,
) -> tuple[PathChange, ...]:
    """Return every path at which two commits or trees differ, in git's order. Errors: GitFailed.

    git collects all of them before it writes the first. Nothing is taken for renamed.
    https://git-scm.com/docs/git-diff-tree#_raw_output_format
    """
    argv = _diff_tree(before, after, "--raw", "--no-abbrev")
    listing = git.run(argv, git_dir=repo, output_cap=output_cap, timeout_s=timeout_s, limits=limits)
    fields = listing.split(b"\0")
    return tuple(map(_parse_change, fields[:-1:2], fields[1::2]))


def list_changed_paths(
    git: Git, repo: Path, before: str, after: str, output_cap: int = DEFAULT_OUTPUT_CAP
) -> tuple[bytes, ...]:
    """Return the paths of `list_changes`, and ask git for nothing else. Errors: GitFailed."""
    argv = _diff_tree(before, after, "--name-only")
    listing = git.run(argv, git_dir=repo, output_cap=output_cap)
    return tuple(path for path in listing.split(b"\0") if path)


def _diff_tree(before: str, after: str, *what: str) -> list[str]:
    named = (full_name(before), full_name(after))
    return ["diff-tree", "-r", "-z", *what, "--no-renames", *named]


def tree_of(git: Git, repo: Path, sha: str) -> str:
    """Return the name of a commit's tree. Errors: GitFailed."""
    argv = ["rev-parse", "--verify", f"{full_name(sha)}^{{tree}}"]
    return git.run(argv, git_dir=repo).decode().strip()


def read_commit(git: Git, repo: Path, sha: str) -> tuple[bytes, bytes]:
    """Return a commit's headers and its message, both raw. Errors: GitFailed."""
    raw = git.run(["cat-file", "commit", full_name(sha)], git_dir=repo)
    head, _, message = raw.partition(b"\n\n")
    return head, message


def read_blob(git: Git, repo: Path, sha: str, path: str, cap: int) -> bytes | None:
    """Return one regular file of that commit's tree, None when it is not there.

    UnreadableBlob when it is a symlink, a submodule, a folder, or longer than `cap` bytes.
    """
    argv = ["ls-tree", "-z", "--long", "--full-tree", full_name(sha), "--", path]
    listing = git.run(argv, git_dir=repo)
    if not listing:
        return None
    entry = _parse_entry(listing.split(b"\0")[0])
    if entry.mode not in _REGULAR or entry.size is None:
        raise UnreadableBlob(f"{printable(path)} is not a regular file")
    if entry.size > cap:
        raise UnreadableBlob(f"{printable(path)} is longer than {cap} bytes")
    return git.run(["cat-file", "blob", entry.sha], git_dir=repo, output_cap=cap)


def read_sizes(
    git: Git, repo: Path, shas: Iterable[str], output_cap: int = DEFAULT_OUTPUT_CAP
) -> dict[str, int]:
    """Return how many bytes each of these objects has, unpacked. Errors: GitFailed."""
    told = git.run(
        ["cat-file", "--batch-check=%(objectname) %(objectsize)"],
        git_dir=repo,
        stdin=_asked(dict.fromkeys(shas)),
        output_cap=output_cap,
    )
    pairs = (line.split(" ") for line in told.decode("ascii").splitlines())
    return {sha: int(size) for sha, size in pairs}


def read_contents(
    git: Git, repo: Path, shas: Iterable[str], output_cap: int = DEFAULT_OUTPUT_CAP
) -> dict[str, bytes]:
    """Return the content of these objects, all of them at once.

    Errors: GitFailed, also where one of them is not there.
    """
    wanted = dict.fromkeys(shas)
    argv = ["cat-file", "--batch"]
    told = git.run(argv, git_dir=repo, stdin=_asked(wanted), output_cap=output_cap)
    found, at = {}, 0
    for sha in wanted:
        begin = told.index(b"\n", at) + 1
        head = told[at : begin - 1].decode("ascii").split(" ")
        if head[0] != sha or len(head) != 3:
            raise GitFailed(argv, 0, f"gave something else than {sha}")
        at = begin + int(head[2])
        found[sha] = told[begin:at]
        at += 1
    return found


def _asked(shas: Iterable[str]) -> bytes:
    return "".join(f"{sha}\n" for sha in shas).encode()


def _parse_change(facts: bytes, path: bytes) -> PathChange:
    old_mode, mode, old_sha, sha, _ = facts.removeprefix(b":").decode("ascii").split(" ")
    return PathChange(path, int(old_mode, 8), int(mode, 8), old_sha, sha)


def _parse_entry(record: bytes) -> TreeEntry:
    head, _, path = record.partition(b"\t")
    mode, kind, sha, size = head.decode("ascii").split()
    return TreeEntry(int(mode, 8), kind, sha, None if size == "-" else int(size), path)
