"""Our commits on a branch that moved on: put on its new head, or taken back, where that is clean.

All of it in a bare repository, without a working tree: no filter, hook or attribute of the
repository can run. A merge is git's own `merge-tree`, given three trees by way of commits that
nothing refers to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.report import CommitSummary
from workers.git import Git, GitFailed, HttpAuth
from workers.landed import LOOK_BACK
from workers.objects import list_changed_paths, read_commit
from workers.recreate import Signature, signed_env

MOVED_REF = "refs/drydock/moved"
FETCH_TIMEOUT_S = 600.0
_LISTING_CAP = 256 * 1024 * 1024
# https://git-scm.com/docs/git-merge-tree#_exit_status
_CONFLICTS = 1
# Whoever makes them is nobody: they are thrown away.
_NOBODY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "x"), ("EMAIL", "x@x.invalid"), ("DATE", "@0 +0000"))
}


@dataclass(frozen=True)
class Conflict:
    """The merge is not clean, or this git cannot tell (before 2.38)."""


def fetch_head(git: Git, git_dir: Path, url: str, auth: HttpAuth | None, branch: str) -> str | None:
    """Bring a branch's present tip, and what is shortly before it, into `git_dir`; None when it
    is gone.

    Errors: GitFailed.
    """
    ref = f"refs/heads/{branch}"
    try:
        git.run(
            [
                *("fetch", "--quiet", "--no-tags", f"--depth={LOOK_BACK}"),
                *("--no-write-fetch-head", "--force"),
                *("--end-of-options", url, f"{ref}:{MOVED_REF}"),
            ],
            git_dir=git_dir,
            auth=auth,
            protocols=("http", "https", "file"),
            timeout_s=FETCH_TIMEOUT_S,
        )
    except GitFailed as error:
        if "couldn't find remote ref" in error.stderr:
            return None
        raise
    return git.run(["rev-parse", "--verify", MOVED_REF], git_dir=git_dir).decode().strip()


def rebase(
    git: Git, git_dir: Path, base: str, commits: Sequence[CommitSummary], onto: str
) -> dict[str, str] | Conflict:
    """Make our commits again on `onto`, in order; returns the new sha of each old one.

    `base` is what the first of them was made on. Messages and signatures stay; a commit that
    changes nothing any more stays too, so that each keeps its counterpart. Errors: GitFailed.
    """
    before, head = base, onto
    made: dict[str, str] = {}
    for commit in commits:
        tree = merge_trees(git, git_dir, base=before, ours=head, theirs=commit.sha)
        if isinstance(tree, Conflict):
            return tree
        # A merge follows files to other names; the gate has judged our changes under their own.
        if not _changed(git, git_dir, head, tree) <= _changed(git, git_dir, before, commit.sha):
            return Conflict()
        made[commit.sha] = head = _again(git, git_dir, commit.sha, tree, head)
        before = commit.sha
    return made


def _changed(git: Git, git_dir: Path, old: str, new: str) -> set[bytes]:
    return set(list_changed_paths(git, git_dir, old, new, output_cap=_LISTING_CAP))


def revert(
    git: Git, git_dir: Path, head: str, pushed: tuple[str, str], message: str, by: Signature
) -> str | Conflict:
    """Commit on `head` what takes back everything between the two commits of `pushed`.

    Errors: GitFailed.
    """
    before, after = pushed
    tree = merge_trees(git, git_dir, base=after, ours=head, theirs=before)
    if isinstance(tree, Conflict):
        return tree
    return _commit(git, git_dir, tree, [head], message.encode(), signed_env(by))


def merge_trees(git: Git, git_dir: Path, *, base: str, ours: str, theirs: str) -> str | Conflict:
    """Merge the trees of two commits that both come from the tree of `base`. Errors: GitFailed."""
    root = _commit(git, git_dir, f"{base}^{{tree}}", [], b"base", _NOBODY)
    sides = [
        _commit(git, git_dir, f"{side}^{{tree}}", [root], b"side", _NOBODY)
        for side in (ours, theirs)
    ]
    done = git.attempt(["merge-tree", "--write-tree", "--no-messages", *sides], git_dir=git_dir)
    if done.exit_code == 0:
        return done.stdout.split(b"\n", 1)[0].decode().strip()
    if done.exit_code == _CONFLICTS or "usage: git merge-tree" in done.stderr:
        return Conflict()
    raise GitFailed(["merge-tree"], done.exit_code, done.stderr)


def _again(git: Git, git_dir: Path, source: str, tree: str, parent: str) -> str:
    head, message = read_commit(git, git_dir, source)
    return _commit(git, git_dir, tree, [parent], message, _people_of(head))


def _people_of(head: bytes) -> Mapping[str, str]:
    """Read who made one of our own commits, and when; ours have plain headers."""
    env: dict[str, str] = {}
    for line in head.decode().split("\n"):
        role, _, rest = line.partition(" ")
        if role in {"author", "committer"}:
            name, _, dated = rest.rpartition(" <")
            email, _, date = dated.partition("> ")
            upper = role.upper()
            env |= {f"GIT_{upper}_NAME": name, f"GIT_{upper}_EMAIL": email}
            env[f"GIT_{upper}_DATE"] = date
    return env


def _commit(
    git: Git, git_dir: Path, tree: str, parents: list[str], message: bytes, env: Mapping[str, str]
) -> str:
    argv = ["commit-tree", tree, *(part for each in parents for part in ("-p", each))]
    return git.run(argv, git_dir=git_dir, stdin=message, env=env).decode().strip()
