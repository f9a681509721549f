"""The first phase: the repository is fetched, its config read, and the bundle for the machine made.

What counts as configuration comes from the default branch, never from the branch under work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.detect import detect_commands
from app.repo_config import (
    CONFIG_PATH,
    MAX_BYTES,
    ConfigError,
    RepoConfig,
    parse_repo_config,
)
from workers.aider import files_named_in
from workers.checkout import (
    Bundle,
    Checkout,
    EmptyRepository,
    MirrorLock,
    NoSuchBranch,
    UnreadableBlob,
    base_of,
    check_out,
    list_tree,
    read_blob,
)
from workers.dock import Commands
from workers.git import Git

DETECT_CAP = 256 * 1024


@dataclass(frozen=True)
class Wanted:
    """What to fetch: `sha` is the base that was frozen with the command, None for the tip."""

    default_branch: str
    base_ref: str
    sha: str | None
    brief: str
    depth: int = 0


@dataclass(frozen=True)
class Prepared:
    """Ready for the dock. `test_source` says where the test command came from."""

    mirror: Path
    bundle: Bundle
    config: RepoConfig
    commands: Commands
    test_source: str
    files: tuple[str, ...]


def prepare(
    git: Git, lock: MirrorLock, wanted: Wanted, folder: Path
) -> Prepared | EmptyRepository | NoSuchBranch | ConfigError:
    """Fetch under the mirror's lock and return what the dock needs, or what stands in the way.

    Errors: CheckoutFailed.
    """
    found = check_out(
        git, lock, wanted.base_ref, folder / "in.bundle", sha=wanted.sha, depth=wanted.depth
    )
    if not isinstance(found, Checkout):
        return found
    config = read_config(git, found.mirror, wanted.default_branch)
    if isinstance(config, ConfigError):
        return config
    return _with_commands(git, found, config, wanted.brief)


def read_config(git: Git, mirror: Path, default_branch: str) -> RepoConfig | ConfigError:
    """Read `.github/drydock.yml` from the tip of the default branch; no file is the defaults."""
    tip = base_of(git, mirror, default_branch)
    if not isinstance(tip, str):
        return parse_repo_config(None)
    try:
        return parse_repo_config(read_blob(git, mirror, tip, CONFIG_PATH, MAX_BYTES))
    except UnreadableBlob as error:
        return ConfigError(str(error))


def _with_commands(git: Git, found: Checkout, config: RepoConfig, brief: str) -> Prepared:
    paths = _text_paths(git, found)
    test, source = config.test, f"test in {CONFIG_PATH}"
    if test is None:
        detected = detect_commands(paths, _reader(git, found))
        test, source = detected.test, detected.why
    return Prepared(
        mirror=found.mirror,
        bundle=found.bundle,
        config=config,
        commands=Commands(setup=config.setup, test=test, lint=config.lint),
        test_source=source,
        files=files_named_in(brief, paths),
    )


def _text_paths(git: Git, found: Checkout) -> tuple[str, ...]:
    """Return the paths of regular files that are UTF-8: others cannot be spoken of."""
    entries = list_tree(git, found.mirror, found.base_sha)
    regular = (entry.path for entry in entries if entry.mode in {0o100644, 0o100755})
    return tuple(path.decode() for path in regular if _is_utf8(path))


def _is_utf8(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reader(git: Git, found: Checkout) -> Callable[[str], bytes | None]:
    def read(path: str) -> bytes | None:
        try:
            return read_blob(git, found.mirror, found.base_sha, path, DETECT_CAP)
        except UnreadableBlob:
            return None

    return read
