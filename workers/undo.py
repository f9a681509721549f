"""`/aider undo`: a commit on a pull request's head that takes back what a run pushed there.

It is made on this host from trees that the repository has held before, so there is no machine, no
model, and nothing for the gate to judge.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from app.store import Run
from workers.checkout import MirrorLock, base_of, fetch_mirror
from workers.commit_message import Message, compose_message
from workers.git import Git
from workers.inspection import Passed, summarise
from workers.rebase import Conflict, revert
from workers.recreate import Signature
from workers.run_folder import QUARANTINE

_NAMES = {"head": "refs/drydock/base", "before": "refs/drydock/before", "after": "refs/drydock/in"}


@dataclass(frozen=True)
class CannotUndo:
    """Why a push cannot be taken back; `reason` is a sentence for a person."""

    reason: str


@dataclass(frozen=True)
class Undone:
    """The commit that takes it back, in a repository of its own, made on `head`."""

    passed: Passed
    head: str


def take_back(
    git: Git, lock: MirrorLock, branch: str, undone: Run, folder: Path, by: Signature
) -> Undone | CannotUndo:
    """Revert on the branch's present tip what a run pushed. Errors: GitFailed."""
    mirror = fetch_mirror(git, lock)
    head, before, after = base_of(git, mirror, branch), undone.base_sha, undone.head_sha
    if not isinstance(head, str):
        return CannotUndo("The branch is not there any more.")
    if before is None or after is None or not _holds(git, mirror, head, after):
        return CannotUndo("The branch does not hold those commits any more.")
    into = _copies(git, mirror, folder, {"head": head, "before": before, "after": after})
    made = revert(git, into, head, (before, after), _message(undone, by), by)
    if isinstance(made, Conflict):
        return CannotUndo("The same lines were changed since, so it cannot be taken back cleanly.")
    return Undone(summarise(git, into, head, made, _subject(undone)), head)


def _holds(git: Git, mirror: Path, head: str, sha: str) -> bool:
    argv = ["merge-base", "--is-ancestor", sha, head]
    return git.attempt(argv, git_dir=mirror).exit_code == 0


def _copies(git: Git, mirror: Path, folder: Path, commits: dict[str, str]) -> Path:
    """Bring these commits with their trees, and no history, into a repository of the run's own."""
    into = folder / QUARANTINE
    shutil.rmtree(into, ignore_errors=True)
    git.run(["init", "--quiet", "--bare", "--template=", str(into)])
    for name, sha in commits.items():
        git.run(
            [
                *("fetch", "--quiet", "--no-tags", "--depth=1", "--no-write-fetch-head"),
                *("--end-of-options", mirror.resolve().as_uri(), f"{sha}:{_NAMES[name]}"),
            ],
            git_dir=into,
            protocols=("file",),
            config={"fetch.fsckObjects": "false", "transfer.fsckObjects": "false"},
        )
    return into


def _subject(undone: Run) -> str:
    return f"Revert what run {undone.id} pushed"


def _message(undone: Run, by: Signature) -> str:
    body = f"This takes back {undone.base_sha}..{undone.head_sha}."
    return compose_message(Message(_subject(undone), body), by.all_trailers())
