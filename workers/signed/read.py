"""What has to be told to GitHub of our commits, read from the quarantine that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.git import Git, GitFailed

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
GONE = "000000"
SUBMODULE = "160000"
_HEADER_BYTES = 100
_LISTING_CAP = 256 * 1024 * 1024


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
        output_cap=_LISTING_CAP,
    )
    message = raw.partition(b"\n\n")[2].decode()
    return OurCommit(sha, parent, parent_tree, tree, message, tuple(parse_changes(listed)))


def parse_changes(raw: bytes) -> Iterable[Change]:
    """Read `diff-tree --raw -z`. Pure. https://git-scm.com/docs/git-diff-tree#_raw_output_format"""
    fields = raw.split(b"\0")
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, mode, old_sha, sha, _ = facts.removeprefix(b":").decode("ascii").split(" ")
        yield Change(path, old_mode, mode, old_sha, sha)


def read_sizes(git: Git, git_dir: Path, shas: Iterable[str]) -> dict[str, int]:
    """Return how many bytes each of these objects has. Errors: GitFailed."""
    wanted = list(dict.fromkeys(shas))
    told = git.run(
        ["cat-file", "--batch-check=%(objectname) %(objectsize)"],
        git_dir=git_dir,
        stdin="".join(f"{sha}\n" for sha in wanted).encode(),
        output_cap=_LISTING_CAP,
    )
    pairs = (line.split(" ") for line in told.decode("ascii").splitlines())
    return {sha: int(size) for sha, size in pairs}


def read_blobs(git: Git, git_dir: Path, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """Return the content of these objects, all of them at once. Errors: GitFailed."""
    told = git.run(
        ["cat-file", "--batch"],
        git_dir=git_dir,
        stdin="".join(f"{sha}\n" for sha in sizes).encode(),
        output_cap=sum(sizes.values()) + _HEADER_BYTES * (len(sizes) + 1),
    )
    found, at = {}, 0
    for sha, size in sizes.items():
        head, begin = told[at : told.index(b"\n", at)], told.index(b"\n", at) + 1
        if head.split(b" ")[0] != sha.encode():
            raise GitFailed(["cat-file", "--batch"], 0, f"gave something else than {sha}")
        found[sha] = told[begin : begin + size]
        at = begin + size + 1
    return found


def read_paths(git: Git, git_dir: Path, tree: str) -> set[bytes]:
    """Return every path of a tree. Errors: GitFailed."""
    listed = git.run(
        ["ls-tree", "-r", "-z", "--name-only", "--full-tree", tree],
        git_dir=git_dir,
        output_cap=_LISTING_CAP,
    )
    return {path for path in listed.split(b"\0") if path}
