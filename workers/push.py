"""The push: exactly one ref, with the old value expected, never forced, and read back.

What a server answers is told apart by meaning, because a person has to act on it. The token is
given to git's environment for this one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.branches import is_git_branch
from workers.checkout import CheckoutTrouble, trouble_of
from workers.git import Git, GitFailed, HttpAuth, printable

PUSH_TIMEOUT_S = 600.0
_HEADS = "refs/heads/"


class PushTrouble(StrEnum):
    """Why a push was not taken: `moved` (the ref is not what was expected, or exists already),
    `ref_conflict` (a branch name stands in the way), `protected` (a rule of the repository),
    `permission`, `gone` (no such repository), `unreachable`, `mismatch` (read back differently),
    `unfit` (more than the way that was chosen can take), `rejected` (anything else the server
    said)."""

    MOVED = "moved"
    REF_CONFLICT = "ref_conflict"
    PROTECTED = "protected"
    PERMISSION = "permission"
    GONE = "gone"
    UNREACHABLE = "unreachable"
    MISMATCH = "mismatch"
    UNFIT = "unfit"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Pushed:
    """The server took it and, read back, holds `sha` under `ref`.

    `made` are the shas of commits that the server made from ours, in their order; () where ours
    went out as they are. `unsigned` is why it does not vouch for them, "" where it does.
    """

    ref: str
    sha: str
    made: tuple[str, ...] = ()
    unsigned: str = ""


@dataclass(frozen=True)
class PushRejected:
    """The server did not take it. `detail` is what it said, cleaned."""

    trouble: PushTrouble
    detail: str


PushResult = Pushed | PushRejected


def push(
    git: Git,
    git_dir: Path,
    url: str,
    auth: HttpAuth | None,
    *,
    sha: str,
    ref: str,
    expected_old: str | None,
) -> PushResult:
    """Push `sha` from the quarantine to `ref` and read it back.

    `expected_old` None means that the ref must not exist yet; otherwise `sha` must descend from it.
    A ref that holds `sha` already counts as pushed, so that a repeated publish is no failure.
    ValueError for a ref that is no branch, or an old value that `sha` does not build on.
    """
    _require_safe(git, git_dir, sha, ref, expected_old)
    try:
        done = git.attempt(
            [
                *("push", "--porcelain", "--atomic", "--no-follow-tags", "--no-signed"),
                *("--recurse-submodules=no", f"--force-with-lease={ref}:{expected_old or ''}"),
                *("--end-of-options", url, f"{sha}:{ref}"),
            ],
            git_dir=git_dir,
            auth=auth,
            protocols=("http", "https", "file"),
            config={"push.negotiate": "true"},
            timeout_s=PUSH_TIMEOUT_S,
        )
    except GitFailed as error:
        return PushRejected(PushTrouble.UNREACHABLE, error.stderr)
    if done.exit_code == 0:
        return _compare(git, url, auth, ref, sha)
    rejected = name_rejection(done.stdout.decode("utf-8", "replace"), done.stderr)
    if rejected.trouble is not PushTrouble.MOVED:
        return rejected
    try:
        return Pushed(ref, sha) if read_back(git, url, auth, ref) == sha else rejected
    except GitFailed as error:
        return PushRejected(PushTrouble.UNREACHABLE, error.stderr)


def read_back(git: Git, url: str, auth: HttpAuth | None, ref: str) -> str | None:
    """Return what the server holds under exactly `ref`, None for nothing. Errors: GitFailed."""
    listed = git.run(
        ["ls-remote", "--quiet", "--end-of-options", url, ref],
        auth=auth,
        protocols=("http", "https", "file"),
        timeout_s=PUSH_TIMEOUT_S,
    )
    for line in listed.decode("utf-8", "replace").splitlines():
        sha, _, name = line.partition("\t")
        if name == ref:
            return sha
    return None


def name_rejection(porcelain: str, stderr: str) -> PushRejected:
    """Say what a failed push means, from git's machine-readable lines and its errors. Pure."""
    told = [line for line in porcelain.splitlines() if line.startswith("!")]
    status = told[0].split("\t")[-1] if told else ""
    detail = printable("; ".join(part for part in (status, _remote_words(stderr)) if part), 1_000)
    words = f"{status}\n{stderr}"
    for trouble, marks in _MEANINGS:
        if any(mark in words for mark in marks):
            return PushRejected(trouble, detail)
    return PushRejected(_trouble_of_transport(stderr), detail or printable(stderr, 1_000))


_MEANINGS: tuple[tuple[PushTrouble, tuple[str, ...]], ...] = (
    (
        PushTrouble.REF_CONFLICT,
        ("directory file conflict", "; cannot create", "refname conflict", "funny refname"),
    ),
    (
        PushTrouble.PERMISSION,
        (
            "without `workflows` permission",
            "without `workflow` scope",
            "Write access to repository not granted",
            "Permission to ",
            "Resource not accessible by integration",
        ),
    ),
    (
        PushTrouble.PROTECTED,
        (
            "GH006",
            "GH013",
            "protected branch",
            "repository rule violations",
            "pre-receive hook declined",
            "hook declined",
            "repository was archived",
        ),
    ),
    (
        PushTrouble.MOVED,
        (
            "stale info",
            "fetch first",
            "non-fast-forward",
            "already exists",
            "reference already exists",
            "cannot lock ref",
            "failed to update ref",
        ),
    ),
)

_TRANSPORT = {
    CheckoutTrouble.ACCESS: PushTrouble.PERMISSION,
    CheckoutTrouble.NOT_FOUND: PushTrouble.GONE,
    CheckoutTrouble.UNREACHABLE: PushTrouble.UNREACHABLE,
    CheckoutTrouble.TIMED_OUT: PushTrouble.UNREACHABLE,
}


def _trouble_of_transport(stderr: str) -> PushTrouble:
    trouble = trouble_of(GitFailed(["push"], 1, stderr))
    return _TRANSPORT.get(trouble, PushTrouble.REJECTED) if trouble else PushTrouble.REJECTED


def _remote_words(stderr: str) -> str:
    said = [line.removeprefix("remote:").strip() for line in stderr.splitlines()]
    return " ".join(
        line for line in said if line and not line.startswith(("hint:", "error: failed to push"))
    )


def _compare(git: Git, url: str, auth: HttpAuth | None, ref: str, sha: str) -> PushResult:
    try:
        held = read_back(git, url, auth, ref)
    except GitFailed as error:
        return PushRejected(PushTrouble.UNREACHABLE, error.stderr)
    if held == sha:
        return Pushed(ref, sha)
    return PushRejected(PushTrouble.MISMATCH, f"the server holds {held or 'nothing'} under {ref}")


def _require_safe(git: Git, git_dir: Path, sha: str, ref: str, expected_old: str | None) -> None:
    if not ref.startswith(_HEADS) or not is_git_branch(ref.removeprefix(_HEADS)):
        raise ValueError(f"not the ref of a branch: {printable(ref)}")
    if expected_old is None:
        return
    ancestor = ["merge-base", "--is-ancestor", expected_old, sha]
    if git.attempt(ancestor, git_dir=git_dir).exit_code != 0:
        raise ValueError(f"{sha} does not build on {expected_old}")
