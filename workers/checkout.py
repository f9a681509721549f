"""The host's copies of repositories, and the bundles that are made of them.

One bare mirror per repository id under `<state>/mirrors/<host>/<repository id>.git`. Whoever
touches one holds its lock, shown by a `MirrorLock` that the functions demand. A mirror appears by
rename only, so that half of one is never taken for whole; one that git finds broken is removed and
fetched again, once. The token is given to git's environment for the fetch and to nothing else.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from workers.git import Git, GitFailed, HttpAuth, tolerate_historical_flaws
from workers.locks import locked
from workers.objects import full_name

# What a machine is told to clone; the name is ours, so no branch name ever reaches it by a file.
BASE_REF = "refs/drydock/base"
FETCH_TIMEOUT_S = 1_800.0
LOCK_TIMEOUT_S = 900.0
MAX_PACKS = 50


class CheckoutTrouble(StrEnum):
    """Why a checkout failed; the message to the person depends on it."""

    ACCESS = "access"
    NOT_FOUND = "not_found"
    UNREACHABLE = "unreachable"
    DISK_FULL = "disk_full"
    TIMED_OUT = "timed_out"
    BUSY = "busy"
    BROKEN = "broken"


class CheckoutFailed(Exception):
    """The host could not have the repository. The text is for an operator; `trouble` says whose."""

    def __init__(self, trouble: CheckoutTrouble, text: str) -> None:
        super().__init__(text)
        self.trouble = trouble


@dataclass(frozen=True)
class EmptyRepository:
    """The repository has no branch at all: there is nothing to work on."""


@dataclass(frozen=True)
class NoSuchBranch:
    """The repository has branches, but not this one."""

    name: str


@dataclass(frozen=True)
class Source:
    """Where a repository is fetched from. `url` holds no credential; `repo_id` is GitHub's."""

    url: str
    repo_id: int
    auth: HttpAuth | None = None

    @property
    def host(self) -> str:
        """The host and port as a folder name; `local` for a path on this machine."""
        netloc = urlsplit(self.url).netloc.rpartition("@")[2].lower()
        return re.sub(r"[^a-z0-9.-]", "_", netloc).strip(".") or "local"


@dataclass(frozen=True)
class MirrorLock:
    """Proof that this process alone touches the mirror at `path`."""

    path: Path
    source: Source


@dataclass(frozen=True)
class Bundle:
    """A bundle for a machine: `base_sha` under `BASE_REF`.

    `shallow` are commits whose parents are left out; whoever unpacks it must note them.
    """

    path: Path
    base_sha: str
    shallow: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkout:
    """A fetched mirror and the bundle of its base; the mirror is only safe under its lock."""

    mirror: Path
    base_sha: str
    bundle: Bundle


@contextmanager
def lock_mirror(
    state_dir: Path, source: Source, timeout_s: float = LOCK_TIMEOUT_S
) -> Iterator[MirrorLock]:
    """Hold one mirror's lock; the kernel frees it when this process ends, however it ends.

    CheckoutFailed (BUSY) when another run holds it for longer than `timeout_s`.
    """
    path = state_dir / "mirrors" / source.host / f"{source.repo_id}.git"
    with ExitStack() as held:
        with _clear_words_for_full_disk():
            is_ours = held.enter_context(locked(path.with_suffix(".lock"), timeout_s))
        if not is_ours:
            raise CheckoutFailed(
                CheckoutTrouble.BUSY, "another run is fetching this repository for too long"
            )
        yield MirrorLock(path, source)


def check_out(
    git: Git, lock: MirrorLock, branch: str, into: Path, *, sha: str | None = None, depth: int = 0
) -> Checkout | EmptyRepository | NoSuchBranch:
    """Fetch, find the base and bundle it into the file `into`.

    `sha` asks for one commit instead of the branch's tip; `depth` 0 is the whole history.
    CheckoutFailed names the trouble. A mirror found broken is fetched anew, once.
    """
    try:
        return _check_out(git, lock, branch, into, sha, depth)
    except GitFailed as error:
        _raise_unless_broken(error)
    remove_mirror(lock)
    try:
        return _check_out(git, lock, branch, into, sha, depth)
    except GitFailed as error:
        _raise_unless_broken(error)
        raise CheckoutFailed(
            CheckoutTrouble.BROKEN, f"the repository cannot be mirrored: {error}"
        ) from error


def fetch_mirror(git: Git, lock: MirrorLock, *, depth: int = 0) -> Path:
    """Bring every branch of the repository into its mirror; returns the mirror's path.

    Errors: GitFailed as git gave it (`check_out` turns it into words).
    """
    if lock.path.is_dir():
        _remove_litter(lock.path)
        _fetch(git, lock, lock.path, depth)
        _repack(git, lock.path)
        return lock.path
    fresh = lock.path.with_suffix(".new")
    _remove_tree(fresh)
    git.run(["init", "--quiet", "--bare", "--template=", str(fresh)])
    _fetch(git, lock, fresh, depth)
    fresh.rename(lock.path)
    return lock.path


def remove_mirror(lock: MirrorLock) -> None:
    """Remove the mirror; the next fetch makes it anew."""
    _remove_tree(lock.path)


def base_of(git: Git, mirror: Path, branch: str) -> str | EmptyRepository | NoSuchBranch:
    """Return the sha of the branch's tip in the mirror, or what is missing."""
    found = git.attempt(
        ["rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}"],
        git_dir=mirror,
    )
    if found.exit_code == 0:
        return found.stdout.decode().strip()
    any_branch = git.run(["for-each-ref", "--count=1", "refs/heads/"], git_dir=mirror)
    return NoSuchBranch(branch) if any_branch else EmptyRepository()


def make_bundle(git: Git, mirror: Path, base_sha: str, into: Path) -> Bundle:
    """Write a bundle of `base_sha` and its history to `into` and have git verify it.

    Errors: GitFailed, and CheckoutFailed (NOT_FOUND) when the mirror has no such commit.
    """
    _require_commit(git, mirror, base_sha)
    git.run(["update-ref", BASE_REF, base_sha], git_dir=mirror)
    part = into.with_suffix(".part")
    git.run(["bundle", "create", "--quiet", str(part), BASE_REF], git_dir=mirror)
    git.run(["bundle", "verify", "--quiet", str(part)], git_dir=mirror)
    part.rename(into)
    return Bundle(into, base_sha, _shallow_of(git, mirror, base_sha))


def _check_out(
    git: Git, lock: MirrorLock, branch: str, into: Path, sha: str | None, depth: int
) -> Checkout | EmptyRepository | NoSuchBranch:
    with _clear_words_for_full_disk():
        mirror = fetch_mirror(git, lock, depth=depth)
        base = base_of(git, mirror, branch) if sha is None else _bring(git, lock, sha, depth)
        if not isinstance(base, str):
            return base
        return Checkout(mirror, base, make_bundle(git, mirror, base, into))


def _bring(git: Git, lock: MirrorLock, sha: str, depth: int) -> str:
    """Have one commit in the mirror, asking the server for it where no branch holds it any more."""
    known = git.attempt(["cat-file", "-e", f"{full_name(sha)}^{{commit}}"], git_dir=lock.path)
    if known.exit_code != 0:
        _fetch(git, lock, lock.path, depth, refspec=sha)
    return sha


def _fetch(
    git: Git,
    lock: MirrorLock,
    into: Path,
    depth: int,
    refspec: str = "+refs/heads/*:refs/heads/*",
) -> None:
    deepen = [f"--depth={depth}"] if depth else _unshallow(into)
    prune = ["--prune"] if ":" in refspec else []
    # Somebody's own clone may be shallow; a server's repository never is.
    shallow = ["--update-shallow"] if lock.source.url.startswith("file:") else []
    git.run(
        [
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force"),
            *prune,
            *deepen,
            *shallow,
            *("--end-of-options", lock.source.url, refspec),
        ],
        git_dir=into,
        auth=lock.source.auth,
        protocols=("http", "https", "file"),
        config=tolerate_historical_flaws(),
        timeout_s=FETCH_TIMEOUT_S,
    )


def _remove_litter(mirror: Path) -> None:
    """Remove what an interrupted fetch left; nobody else can be writing under our lock."""
    for pattern in ("objects/pack/tmp_*", "**/*.lock"):
        for left in mirror.glob(pattern):
            left.unlink()


def _repack(git: Git, mirror: Path) -> None:
    """Join the packs when many fetches have each left one; git's own gc is off."""
    if sum(1 for _ in mirror.glob("objects/pack/*.pack")) > MAX_PACKS:
        git.run(["repack", "-a", "-d", "-q"], git_dir=mirror, timeout_s=FETCH_TIMEOUT_S)


def _unshallow(mirror: Path) -> list[str]:
    return ["--unshallow"] if (mirror / "shallow").exists() else []


def _require_commit(git: Git, mirror: Path, sha: str) -> None:
    known = git.attempt(["cat-file", "-e", f"{full_name(sha)}^{{commit}}"], git_dir=mirror)
    if known.exit_code != 0:
        raise CheckoutFailed(
            CheckoutTrouble.NOT_FOUND, f"commit {sha} is not in the repository any more"
        )


def _shallow_of(git: Git, mirror: Path, base_sha: str) -> tuple[str, ...]:
    listed = mirror / "shallow"
    if not listed.exists():
        return ()
    cut = set(listed.read_text().split())
    history = git.run(["rev-list", base_sha], git_dir=mirror).decode().split()
    return tuple(sha for sha in history if sha in cut)


def _remove_tree(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


_TROUBLES: tuple[tuple[CheckoutTrouble, tuple[str, ...]], ...] = (
    (
        CheckoutTrouble.ACCESS,
        ("Authentication failed", "could not read Username", "error: 401", "error: 403"),
    ),
    (
        CheckoutTrouble.NOT_FOUND,
        (
            "error: 404",
            "' not found",
            "not our ref",
            "couldn't find remote ref",
            "does not appear to be a git repository",
        ),
    ),
    (
        CheckoutTrouble.UNREACHABLE,
        (
            "Could not resolve",
            "Failed to connect",
            "Connection refused",
            "Connection timed out",
            "Connection reset",
            "Operation too slow",
            "SSL certificate problem",
            "server certificate verification failed",
            "unable to access",
            "error: 5",
            "the remote end hung up",
            "RPC failed",
            "early EOF",
        ),
    ),
)


def trouble_of(error: GitFailed) -> CheckoutTrouble | None:
    """Name the trouble that fetching anew would not heal; None means the mirror may be broken."""
    if error.disk_full:
        return CheckoutTrouble.DISK_FULL
    if error.exit_code is None:
        return CheckoutTrouble.TIMED_OUT if error.timed_out else CheckoutTrouble.BROKEN
    for trouble, marks in _TROUBLES:
        if any(mark in error.stderr for mark in marks):
            return trouble
    return None


def _raise_unless_broken(error: GitFailed) -> None:
    trouble = trouble_of(error)
    if trouble is not None:
        raise CheckoutFailed(trouble, f"{trouble}: {error}") from error


@contextmanager
def _clear_words_for_full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise CheckoutFailed(
            CheckoutTrouble.DISK_FULL, f"could not write the mirror: {error.strerror}"
        ) from error
