"""The first phase: the repository is fetched, its config read, and the bundle for the machine made.

What counts as configuration comes from the default branch, never from the branch under work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from app.config_words import hints_missing
from app.detect import detect_commands
from app.repo_config import CONFIG_PATH, ConfigError, RepoConfig
from workers.aider import files_named_in, may_be_offered
from workers.checkout import (
    Bundle,
    Checkout,
    EmptyRepository,
    MirrorLock,
    NoSuchBranch,
    check_out,
)
from workers.dock import Commands
from workers.gate.paths import matches
from workers.git import Git
from workers.objects import UnreadableBlob, list_tree, read_blob
from workers.rules import Rules, rules_in_mirror
from workers.run_folder import IN_BUNDLE

DETECT_CAP = 256 * 1024
MAX_HINTED_FILES = 20


@dataclass(frozen=True)
class Wanted:
    """What to fetch: `sha` is the base that was frozen with the command, None for the tip.

    `rules` are the default branch's, or its name, to have them read from what was fetched.
    """

    rules: Rules | str
    base_ref: str
    sha: str | None
    brief: str
    depth: int = 0


@dataclass(frozen=True)
class Prepared:
    """Ready for the dock. `test_source` says where the test command came from, `notes` what a
    reviewer has to know."""

    mirror: Path
    bundle: Bundle
    config: RepoConfig
    commands: Commands
    test_source: str
    files: tuple[str, ...]
    conventions: str = ""
    notes: tuple[str, ...] = ()


def prepare(
    git: Git, lock: MirrorLock, wanted: Wanted, folder: Path
) -> Prepared | EmptyRepository | NoSuchBranch | ConfigError:
    """Fetch under the mirror's lock and return what the dock needs, or what stands in the way.

    Errors: CheckoutFailed.
    """
    found = check_out(
        git, lock, wanted.base_ref, folder / IN_BUNDLE, sha=wanted.sha, depth=wanted.depth
    )
    if not isinstance(found, Checkout):
        return found
    rules = wanted.rules
    if isinstance(rules, str):
        read = rules_in_mirror(git, found.mirror, rules)
        if isinstance(read, ConfigError):
            return read
        rules = read
    return _with_commands(git, found, rules, wanted.brief)


def _with_commands(git: Git, found: Checkout, rules: Rules, brief: str) -> Prepared:
    paths, config = _text_paths(git, found), rules.config
    test, source = config.test, f"test in {CONFIG_PATH}"
    if test is None:
        detected = detect_commands(paths, _reader(git, found))
        test, source = detected.test, detected.why
    hinted, missing = files_hinted_at(config.files, paths)
    return Prepared(
        mirror=found.mirror,
        bundle=found.bundle,
        config=config,
        commands=Commands(setup=config.setup, test=test, lint=config.lint),
        test_source=source,
        files=tuple(dict.fromkeys((*files_named_in(brief, paths), *hinted))),
        conventions=rules.conventions,
        notes=(hints_missing(missing),) if missing else (),
    )


def files_hinted_at(hints: Iterable[str], tree: Iterable[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the files that paths and globs mean, in their order, and what means none.

    Files that configure Aider are never offered.
    """
    paths = [path for path in tree if may_be_offered(path)]
    found: dict[str, None] = {}
    missing = []
    for hint in hints:
        meant = [path for path in paths if path == hint or matches(path.encode(), hint)]
        found |= dict.fromkeys(meant)
        if not meant:
            missing.append(hint)
    return tuple(found)[:MAX_HINTED_FILES], missing


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
