"""What the gate speaks in: facts that git told, rules that somebody set, and findings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

MIB = 1024 * 1024
SYMLINK = 0o120000
GITLINK = 0o160000
EXECUTABLE = 0o100755


class Level(StrEnum):
    REFUSE = "refuse"
    WARN = "warn"
    ALLOW = "allow"


_STRENGTH = (Level.ALLOW, Level.WARN, Level.REFUSE)


def strongest(*levels: Level) -> Level:
    """Return the level that lets the least through."""
    return max(levels, key=_STRENGTH.index)


class Rule(StrEnum):
    """The names under which findings are reported, set to a level, and allowed."""

    BUNDLE = "bundle"
    FSCK = "fsck"
    ANCESTRY = "ancestry"
    MERGE = "merge"
    COMMIT_COUNT = "commit_count"
    EXTRA_OBJECTS = "extra_objects"
    CHANGE_SIZE = "change_size"
    PROTECTED_PATH = "protected_path"
    AGENT_FILE = "agent_file"
    PATH_UNSAFE = "path_unsafe"
    PATH_NAME = "path_name"
    NAME_COLLISION = "name_collision"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    LARGE_FILE = "large_file"
    EXECUTABLE = "executable"
    BINARY = "binary"
    LOCK_FILE = "lock_file"
    INSTALL_SCRIPT = "install_script"
    ATTRIBUTE_FILTER = "attribute_filter"
    ATTRIBUTE_HIDES = "attribute_hides"
    CANARY = "canary"
    SECRET = "secret"  # noqa: S105 -- a rule's name
    SECRET_LIKE = "secret_like"  # noqa: S105 -- a rule's name
    TEST_DELETED = "test_deleted"
    TEST_SKIPPED = "test_skipped"
    TEST_WEAKENED = "test_weakened"


TEST_RULES = frozenset({Rule.TEST_DELETED, Rule.TEST_SKIPPED, Rule.TEST_WEAKENED})

# What only a broken or hostile machine sends: nobody's setting and nobody's word lets it through.
STRUCTURAL = frozenset(
    {
        Rule.BUNDLE,
        Rule.FSCK,
        Rule.ANCESTRY,
        Rule.MERGE,
        Rule.COMMIT_COUNT,
        Rule.EXTRA_OBJECTS,
        Rule.CHANGE_SIZE,
        Rule.PATH_UNSAFE,
        Rule.CANARY,
    }
)

DEFAULT_LEVELS: Mapping[Rule, Level] = {
    **dict.fromkeys(Rule, Level.REFUSE),
    Rule.PATH_NAME: Level.WARN,
    Rule.EXECUTABLE: Level.WARN,
    Rule.BINARY: Level.WARN,
    Rule.LOCK_FILE: Level.WARN,
    Rule.ATTRIBUTE_HIDES: Level.WARN,
    Rule.SECRET_LIKE: Level.WARN,
    **dict.fromkeys(TEST_RULES, Level.WARN),
}


@dataclass(frozen=True)
class Finding:
    """One thing the gate saw. `path` is cleaned for display, empty where no file is meant."""

    rule: Rule
    path: str
    reason: str
    level: Level = Level.REFUSE
    commit: str = ""


@dataclass(frozen=True)
class GateRefusal:
    """The bundle could not even be taken apart; nothing of it is kept in a repository."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class PathRule:
    """A glob over whole paths (`**` crosses folders) and what a change there is worth."""

    pattern: str
    level: Level = Level.REFUSE


@dataclass(frozen=True)
class Allowance:
    """`by` has said that this run's change of `path` may go through."""

    path: str
    by: str


@dataclass(frozen=True)
class GateRules:
    """What holds for one run: the operator's floor, the repository's choice, people's allowances.

    `floor` is the least that holds for a path, whatever `paths` (the repository's, looked at in
    its order before the defaults) says. `levels` are the operator's, by rule. `tests_may_go` says
    that the brief itself asks for tests to be removed or skipped.
    """

    max_bundle_bytes: int = 256 * MIB
    max_unpacked_bytes: int = 512 * MIB
    max_total_bytes: int = 256 * MIB
    max_memory_bytes: int = 2048 * MIB
    max_seconds: float = 120.0
    max_gate_seconds: float = 300.0
    max_commits: int = 50
    max_objects: int = 500_000
    max_changes: int = 50_000
    max_file_bytes: int = 5 * MIB
    max_scan_bytes: int = 128 * MIB
    floor: tuple[PathRule, ...] = (
        PathRule(".github/workflows/**"),
        PathRule(".github/actions/**"),
        PathRule(".github/drydock.yml"),
        PathRule(".github/drydock.yaml"),
    )
    paths: tuple[PathRule, ...] = ()
    levels: Mapping[Rule, Level] = field(default_factory=dict)
    allowances: tuple[Allowance, ...] = ()
    tests_may_go: bool = False

    def level_of(self, rule: Rule) -> Level:
        """Return what a finding of this rule is worth."""
        if rule in STRUCTURAL:
            return Level.REFUSE
        if rule in TEST_RULES and self.tests_may_go:
            return Level.ALLOW
        return self.levels.get(rule, DEFAULT_LEVELS[rule])


@dataclass(frozen=True)
class Quarantine:
    """An unpacked bundle: `commits` from the oldest, each with the one before it as parent."""

    git_dir: Path
    base_sha: str
    head_sha: str
    commits: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """One file that one commit (or the whole, with `commit` empty) added, changed or removed.

    Modes are git's (0 where there is no file); `size` is the new content's bytes, if it has any.
    """

    commit: str
    path: bytes
    old_mode: int
    new_mode: int
    new_sha: str
    size: int | None = None
    old_sha: str = ""


@dataclass(frozen=True)
class TreeLinks:
    """Every symlink of one commit's tree, path to target, both raw."""

    commit: str
    links: Mapping[bytes, bytes]


@dataclass(frozen=True)
class Sighting:
    """A secret that was seen: never its value. `sure` is False for what is often an example."""

    kind: str
    line: int
    length: int
    sure: bool = True


@dataclass(frozen=True)
class TestCounts:
    """What a test file holds: its tests by name, its assertions, skips and empty assertions."""

    # pytest would otherwise try to collect this class.
    __test__ = False

    tests: frozenset[str] = frozenset()
    assertions: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()
    hollow: tuple[str, ...] = ()


@dataclass(frozen=True)
class TestFile:
    """A test file before and after the whole change; None where there is none."""

    __test__ = False

    path: bytes
    before: TestCounts | None
    after: TestCounts | None


@dataclass(frozen=True)
class Content:
    """What was seen in the lines that a change added to one file.

    With an empty `path` it is a commit's message; with `name` as well, the name of a new file.
    """

    commit: str
    path: bytes
    binary: bool = False
    secrets: tuple[Sighting, ...] = ()
    canary: bool = False
    scripts: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    hidings: tuple[str, ...] = ()
    name: bytes = b""


@dataclass(frozen=True)
class TreeFacts:
    """What git says about the commits. `links` holds a tree only where symlinks changed.

    `base_links` are the base's own symlinks: what was wrong before is not this run's doing.
    `base_paths` is the base's whole tree where a file was added to it. `overflow` says why the
    facts are not complete: then nothing passes.
    """

    commits: int
    changes: tuple[Change, ...]
    base_links: Mapping[bytes, bytes] = field(default_factory=dict)
    links: tuple[TreeLinks, ...] = ()
    base_paths: tuple[bytes, ...] = ()
    contents: tuple[Content, ...] = ()
    tests: tuple[TestFile, ...] = ()
    overflow: str = ""


@dataclass(frozen=True)
class BundleHeader:
    """What a bundle says of itself before its pack, which starts at byte `length`."""

    prerequisites: tuple[str, ...]
    refs: tuple[tuple[str, str], ...]
    length: int


def in_mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
