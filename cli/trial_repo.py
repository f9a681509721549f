"""What `drydock try` finds at PATH: a repository to work on, or one line that says what to do.

Everything is judged here, before a template is baked or a machine is started.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from cli.errors import fail
from workers.git import Git, GitResult

_SHOWN = 5
_UNSEEN = "Uncommitted changes are not seen: commit first what the work needs."


@dataclass(frozen=True)
class LocalRepository:
    """`git_dir` is fetched from and gets the branch; `base` is the branch to start from.

    `notes` are what its owner may not expect.
    """

    name: str
    git_dir: Path
    base: str
    notes: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return self.git_dir.as_uri()

    @property
    def number(self) -> int:
        """What stands for this repository as its id does on GitHub; the same in each process."""
        return int.from_bytes(hashlib.sha256(os.fsencode(self.git_dir)).digest()[:6])


def look_at(git: Git, path: Path, base: str | None) -> LocalRepository:
    """Return the repository that PATH is, or is in. ClickException with what to do otherwise.

    A bare one, a linked work tree, a shallow clone and a folder of a repository are all fine.
    """
    path = path.resolve()
    head_dir, git_dir = _directories(git, path)
    name = _name_of(git_dir)
    _require_usable(git, git_dir, name)
    branch = base or _checked_out(git, head_dir, name)
    _require_branch(git, git_dir, name, branch)
    return LocalRepository(name, git_dir, branch, _notes(git, path, name))


def _directories(git: Git, path: Path) -> tuple[Path, Path]:
    """Return the git directory that holds HEAD here, and the one that all work trees share."""
    asked = ["rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir"]
    is_git_dir = (path / "HEAD").is_file() and (path / "objects").is_dir()
    found = git.attempt(asked, git_dir=path) if is_git_dir else _inside(git, path, asked)
    if found.exit_code != 0:
        raise fail(_no_repository(path, found.stderr))
    head_dir, common_dir = os.fsdecode(found.stdout).splitlines()
    return Path(head_dir), Path(common_dir)


def _inside(git: Git, path: Path, args: list[str]) -> GitResult:
    return git.attempt(["-C", str(path), *args])


def _no_repository(path: Path, said: str) -> str:
    if "not a git repository" in said:
        return f"{path} is not a git repository: `git init` there, commit, and try again"
    return f"git cannot read the repository at {path}: {said}"


def _name_of(git_dir: Path) -> str:
    own = git_dir.parent.name if git_dir.name == ".git" else git_dir.name.removesuffix(".git")
    return own.encode("utf-8", "replace").decode() or "repository"


def _require_usable(git: Git, git_dir: Path, name: str) -> None:
    if git.run(["rev-parse", "--show-object-format"], git_dir=git_dir).strip() != b"sha1":
        raise fail(
            f"{name} names its objects by SHA-256, which Drydock does not work with, as GitHub does"
            " not: make one with `git init --object-format=sha1` and import it there"
        )
    if _has_promisor(git, git_dir):
        raise fail(
            f"{name} is a partial clone, in which files are missing:"
            " try it on a whole one, made by `git clone` without --filter"
        )
    if not os.access(git_dir / "refs", os.W_OK) or not os.access(git_dir / "objects", os.W_OK):
        raise fail(
            f"{git_dir} cannot be written, and the branch is to be left there: see its owner"
        )


def _has_promisor(git: Git, git_dir: Path) -> bool:
    asked = ["config", "--local", "--get-regexp", r"^remote\..*\.promisor$"]
    return git.attempt(asked, git_dir=git_dir).exit_code == 0


def _checked_out(git: Git, head_dir: Path, name: str) -> str:
    head = git.attempt(["symbolic-ref", "--quiet", "--short", "HEAD"], git_dir=head_dir)
    if head.exit_code != 0:
        raise fail(
            f"no branch is checked out in {name} (HEAD is detached): name one with --base,"
            " or make one with `git switch -c NAME`"
        )
    return head.stdout.decode("utf-8", "replace").strip()


def _require_branch(git: Git, git_dir: Path, name: str, branch: str) -> None:
    asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^0"]
    if git.attempt(asked, git_dir=git_dir).exit_code == 0:
        return
    known = _branches(git, git_dir)
    if not known:
        raise fail(f"{name} has no commit yet: commit something first, for Aider to start from")
    raise fail(f"{name} has no branch {branch} with a commit: name one with --base ({known})")


def _branches(git: Git, git_dir: Path) -> str:
    """Name those that were worked on last; "" when there is none."""
    asked = ["for-each-ref", "--sort=-committerdate", "--format=%(refname:lstrip=2)", "refs/heads/"]
    names = git.run(asked, git_dir=git_dir).decode("utf-8", "replace").splitlines()
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _notes(git: Git, path: Path, name: str) -> tuple[str, ...]:
    shown = _inside(git, path, ["rev-parse", "--show-toplevel"])
    if shown.exit_code != 0:  # a bare one, or the inside of a git directory
        return ()
    notes = []
    top = Path(os.fsdecode(shown.stdout).rstrip("\n"))
    if top != path:
        notes.append(f"{path.name} is a folder of {name}: the whole repository is worked on.")
    asked = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]
    changed = _inside(git, top, [*asked, "--ignore-submodules=all"])
    if changed.exit_code == 0 and changed.stdout:
        notes.append(_UNSEEN)
    return tuple(notes)
