"""The gate: what a machine gave back is judged here, on the applied tree, before anything leaves.

A bundle is unpacked into a quarantine, a bare repository that this host made, with `fsck` strict
and time, memory and disk bounded. `read_facts` asks git what every commit did; `judge` is pure and
returns every finding, not the first. What passed is re-created by `workers.recreate` and leaves by
`workers.push`.

Patch text is never judged and git's parsing never runs where the machine wrote.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from workers.checkout import list_tree
from workers.git import Git, GitFailed, Limits, printable
from workers.guest_repo import OUT_REF

IN_REF = "refs/drydock/in"
BASE_REF = "refs/drydock/base"
MIB = 1024 * 1024
_MAX_HEADER = 64 * 1024
_MAX_LINKS_FOLLOWED = 40
_MAX_TARGET = 4_096
_SHA_LINE = re.compile(rb"(-?)([0-9a-f]{40}|[0-9a-f]{64})(?: (.*))?")

SYMLINK = 0o120000
GITLINK = 0o160000


# ---- values ----------------------------------------------------------------------------------


class Level(StrEnum):
    REFUSE = "refuse"
    WARN = "warn"


class Rule(StrEnum):
    """The names under which findings are reported and, later, allowed."""

    BUNDLE = "bundle"
    FSCK = "fsck"
    ANCESTRY = "ancestry"
    MERGE = "merge"
    COMMIT_COUNT = "commit_count"
    PROTECTED_PATH = "protected_path"
    AGENT_FILE = "agent_file"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    LARGE_FILE = "large_file"
    PATH_NAME = "path_name"


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
class GateRules:
    """The operator's floor. Patterns are globs over whole paths, `**` crossing folders."""

    max_bundle_bytes: int = 256 * MIB
    max_unpacked_bytes: int = 512 * MIB
    max_memory_bytes: int = 2048 * MIB
    max_seconds: float = 120.0
    max_commits: int = 50
    max_file_bytes: int = 5 * MIB
    protected: tuple[str, ...] = (
        ".github/workflows/**",
        ".github/actions/**",
        ".github/drydock.yml",
        ".github/drydock.yaml",
    )


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


@dataclass(frozen=True)
class TreeLinks:
    """Every symlink of one commit's tree, path to target, both raw."""

    commit: str
    links: Mapping[bytes, bytes]


@dataclass(frozen=True)
class TreeFacts:
    """What git says about the commits. `links` holds a tree only where symlinks changed.

    `base_links` are the base's own symlinks: what was wrong before is not this run's doing.
    """

    commits: int
    changes: tuple[Change, ...]
    base_links: Mapping[bytes, bytes] = field(default_factory=dict)
    links: tuple[TreeLinks, ...] = ()


@dataclass(frozen=True)
class BundleHeader:
    """What a bundle says of itself before its pack, which starts at byte `length`."""

    prerequisites: tuple[str, ...]
    refs: tuple[tuple[str, str], ...]
    length: int


# ---- in: the quarantine ----------------------------------------------------------------------


def quarantine(
    git: Git, bundle: Path, base_sha: str, mirror: Path, into: Path, rules: GateRules | None = None
) -> Quarantine | GateRefusal:
    """Unpack a machine's bundle into the new bare repository `into`, or say why not.

    Only the base commit and its tree are brought from the mirror, as copies. Errors: GitFailed when
    the host's own side (mirror, disk) failed.
    """
    rules = rules or GateRules()
    header = check_bundle(bundle, base_sha, rules)
    if isinstance(header, Finding):
        return GateRefusal((header,))
    _make_repository(git, into, base_sha, mirror)
    tip = header.refs[0][0]
    taken = (
        _unpack(git, bundle, header.length, into, rules)
        or _check_tip(git, into, tip)
        or _walk(git, into, base_sha, tip, rules)
    )
    if isinstance(taken, Quarantine):
        return taken
    shutil.rmtree(into)
    return GateRefusal((taken,))


def check_bundle(bundle: Path, base_sha: str, rules: GateRules) -> BundleHeader | Finding:
    """Judge a bundle file by its size and header, before git sees it."""
    size = bundle.stat().st_size
    if size > rules.max_bundle_bytes:
        return _bad_bundle(f"is {_mib(size)}, more than {_mib(rules.max_bundle_bytes)}")
    with bundle.open("rb") as file:
        header = parse_bundle_header(file.read(_MAX_HEADER))
    if isinstance(header, str):
        return _bad_bundle(header)
    if [name for _, name in header.refs] != [OUT_REF]:
        names = ", ".join(printable(name, 80) for _, name in header.refs[:5]) or "none"
        return _bad_bundle(f"should carry exactly {OUT_REF} and carries {names}")
    if header.prerequisites != (base_sha,):
        return Finding(Rule.ANCESTRY, "", "does not build on the commit that was sent")
    return header


def parse_bundle_header(data: bytes) -> BundleHeader | str:
    """Parse a version 2 bundle's header; a text says what is wrong. Pure.

    Source: gitformat-bundle(5).
    """
    head, found, _ = data.partition(b"\n\n")
    lines = head.split(b"\n")
    if not found or lines[0] != b"# v2 git bundle":
        return "is not a complete git bundle of version 2"
    prerequisites, refs = [], []
    for line in lines[1:]:
        match = _SHA_LINE.fullmatch(line)
        if match is None:
            return "has a header that git does not write"
        name = (match[3] or b"").decode("utf-8", "backslashreplace")
        if match[1]:
            prerequisites.append(match[2].decode())
        else:
            refs.append((match[2].decode(), name))
    return BundleHeader(tuple(prerequisites), tuple(refs), len(head) + 2)


def _make_repository(git: Git, into: Path, base_sha: str, mirror: Path) -> None:
    git.run(["init", "--quiet", "--bare", "--template=", str(into)])
    # One commit with its tree is enough to judge, re-create and push; no alternates, only copies.
    git.run(
        [
            *("fetch", "--quiet", "--no-tags", "--depth=1", "--no-write-fetch-head"),
            *("--end-of-options", mirror.resolve().as_uri(), f"{base_sha}:{BASE_REF}"),
        ],
        git_dir=into,
        protocols=("file",),
        config={"fetch.fsckObjects": "false", "transfer.fsckObjects": "false"},
    )


def _unpack(git: Git, bundle: Path, start: int, into: Path, rules: GateRules) -> Finding | None:
    """Index the bundle's pack with every object checked; None is no objection.

    `git fetch` of a bundle does not check objects, whatever `fetch.fsckObjects` says (git 2.39), so
    the pack is given to `index-pack --strict` directly: it makes git's warnings errors as well.
    """
    with bundle.open("rb") as file:
        file.seek(start)
        try:
            done = git.attempt(
                ["index-pack", "--stdin", "--strict", "--fix-thin", "--threads=1"],
                git_dir=into,
                stdin=file,
                timeout_s=rules.max_seconds,
                limits=_limits(rules),
            )
        except GitFailed as error:
            return _bad_bundle(f"could not be unpacked within its limits ({error.stderr})")
    if "No space left on device" in done.stderr:
        raise GitFailed(["index-pack"], done.exit_code, done.stderr)
    return None if done.exit_code == 0 else _name_fault(done.stderr)


def _name_fault(stderr: str) -> Finding:
    flaw = re.search(r"object [0-9a-f]{40,64}: (\w+): ([^\n]*)", stderr)
    if flaw is not None:
        return Finding(Rule.FSCK, "", f"git refuses an object: {flaw[1]} ({flaw[2]})")
    last = stderr.rpartition("\n")[2] or "ended by its memory or time limit"
    return _bad_bundle(f"could not be unpacked ({last})")


def _check_tip(git: Git, into: Path, tip: str) -> Finding | None:
    """Require the named tip to be a commit whose objects are all here."""
    kind = git.attempt(["cat-file", "-t", tip], git_dir=into)
    if kind.stdout.strip() != b"commit":
        return _bad_bundle("names a head that it does not carry as a commit")
    reach = ["rev-list", "--objects", "--quiet", tip, "--not", BASE_REF]
    if git.attempt(reach, git_dir=into).exit_code != 0:
        return _bad_bundle("lacks objects that its commits need")
    git.run(["update-ref", IN_REF, tip], git_dir=into)
    return None


def _limits(rules: GateRules) -> Limits:
    return Limits(
        memory_bytes=rules.max_memory_bytes,
        file_bytes=rules.max_unpacked_bytes,
        cpu_s=int(rules.max_seconds),
    )


def _walk(git: Git, into: Path, base_sha: str, tip: str, rules: GateRules) -> Quarantine | Finding:
    argv = ["rev-list", "--parents", "--reverse", "--topo-order", tip, f"^{base_sha}"]
    lines = [line.split() for line in git.run(argv, git_dir=into).decode().splitlines()]
    if len(lines) > rules.max_commits:
        few = f"{len(lines)} commits are more than the {rules.max_commits} allowed"
        return Finding(Rule.COMMIT_COUNT, "", few)
    fault = check_ancestry(lines, base_sha)
    return fault or Quarantine(into, base_sha, tip, tuple(line[0] for line in lines))


def check_ancestry(lines: Sequence[Sequence[str]], base_sha: str) -> Finding | None:
    """Require one line of commits from the base on; each line is a commit and its parents. Pure."""
    for sha, *parents in lines:
        if len(parents) > 1:
            return Finding(Rule.MERGE, "", "merge commits are not taken", commit=sha)
    before = base_sha
    for sha, *parents in lines:
        if parents != [before]:
            return Finding(Rule.ANCESTRY, "", "does not descend from the base sent", commit=sha)
        before = sha
    return None


def _bad_bundle(reason: str) -> Finding:
    return Finding(Rule.BUNDLE, "", f"the bundle {reason}")


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"


# ---- facts -----------------------------------------------------------------------------------


def read_facts(git: Git, taken: Quarantine) -> TreeFacts:
    """Ask git what every commit and the whole changed; nothing is checked out."""
    spans = [*_spans(taken), ("", taken.base_sha, taken.head_sha)]
    changes = [change for span in spans for change in _read_changes(git, taken.git_dir, *span)]
    sizes = _read_sizes(git, taken.git_dir, {each.new_sha for each in changes if _is_blob(each)})
    touched = dict.fromkeys(
        each.commit or taken.head_sha for each in changes if _touches_link(each)
    )
    return TreeFacts(
        commits=len(taken.commits),
        changes=tuple(_with_size(change, sizes) for change in changes),
        base_links=_read_links(git, taken.git_dir, taken.base_sha) if touched else {},
        links=tuple(TreeLinks(sha, _read_links(git, taken.git_dir, sha)) for sha in touched),
    )


def _spans(taken: Quarantine) -> Iterator[tuple[str, str, str]]:
    for before, sha in zip((taken.base_sha, *taken.commits), taken.commits, strict=False):
        yield sha, before, sha


def _read_changes(
    git: Git, git_dir: Path, commit: str, before: str, after: str
) -> Iterator[Change]:
    raw = git.run(
        ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", before, after],
        git_dir=git_dir,
    )
    fields = raw.split(b"\0")
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        old_mode, new_mode, _, new_sha, _ = head.decode("ascii").lstrip(":").split()
        yield Change(commit, path, int(old_mode, 8), int(new_mode, 8), new_sha)


def _read_sizes(git: Git, git_dir: Path, shas: Iterable[str]) -> dict[str, int]:
    asked = "".join(f"{sha}\n" for sha in sorted(shas)).encode()
    told = git.run(
        ["cat-file", "--batch-check=%(objectname) %(objectsize)"], git_dir=git_dir, stdin=asked
    )
    return {sha: int(size) for sha, size in (line.split() for line in told.decode().splitlines())}


def _read_links(git: Git, git_dir: Path, sha: str) -> dict[bytes, bytes]:
    entries = [entry for entry in list_tree(git, git_dir, sha) if entry.mode == SYMLINK]
    # A target longer than a path can be leads nowhere: judged as leaving, not read.
    short = [entry for entry in entries if (entry.size or 0) <= _MAX_TARGET]
    targets = read_blobs(git, git_dir, [entry.sha for entry in short])
    return {entry.path: targets.get(entry.sha, b"/") for entry in entries}


def read_blobs(git: Git, git_dir: Path, shas: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of small blobs, in one git process."""
    asked = "".join(f"{sha}\n" for sha in dict.fromkeys(shas)).encode()
    rest = git.run(["cat-file", "--batch"], git_dir=git_dir, stdin=asked)
    blobs = {}
    while rest:
        head, _, rest = rest.partition(b"\n")
        sha, _, size = head.decode("ascii").split()
        blobs[sha], rest = rest[: int(size)], rest[int(size) + 1 :]
    return blobs


def _is_blob(change: Change) -> bool:
    return change.new_mode not in {0, GITLINK}


def _touches_link(change: Change) -> bool:
    return SYMLINK in {change.old_mode, change.new_mode}


def _with_size(change: Change, sizes: Mapping[str, int]) -> Change:
    return replace(change, size=sizes.get(change.new_sha))


# ---- the verdict (pure) ----------------------------------------------------------------------


def judge(facts: TreeFacts, rules: GateRules) -> tuple[Finding, ...]:
    """Return every finding, one per rule and path, with the first commit it is in. Pure."""
    found = [
        finding
        for check in (_check_protected, _check_agent, _check_submodule, _check_size, _check_name)
        for change in facts.changes
        for finding in check(change, rules)
    ]
    found += _check_links(facts)
    first: dict[tuple[Rule, str], Finding] = {}
    for finding in found:
        first.setdefault((finding.rule, finding.path), finding)
    return tuple(sorted(first.values(), key=lambda each: (each.level, each.rule, each.path)))


def is_refused(findings: Iterable[Finding]) -> bool:
    """Return True when any finding refuses the run."""
    return any(finding.level is Level.REFUSE for finding in findings)


def matches(path: bytes, pattern: str) -> bool:
    """Match a whole path, ignoring case; `**` crosses folders, `*` and `?` do not.

    `x/**` is `x` itself too: a file or link may take a folder's place. Case is ignored because the
    file systems of readers do.
    """
    return _compile(pattern).fullmatch(path.decode("utf-8", "surrogateescape")) is not None


def leaves_tree(path: bytes, links: Mapping[bytes, bytes]) -> bool:
    """Return whether following the symlink at `path` leads out of the tree or into `.git`.

    Links on the way are followed too, as the kernel would; one that turns in circles leads nowhere
    and is no escape. Pure.
    """
    todo = path.split(b"/")[::-1]
    at: list[bytes] = []
    followed = 0
    while todo:
        step = _take_step(todo.pop(), at, links)
        if step is None:
            return True
        if step:
            followed += 1
            if followed > _MAX_LINKS_FOLLOWED:
                return False
            todo += step[::-1]
    return False


def _take_step(part: bytes, at: list[bytes], links: Mapping[bytes, bytes]) -> list[bytes] | None:
    """Move `at` by one path component; returns a link's components to walk next, None outside."""
    if part in {b"", b"."}:
        return []
    if part == b"..":
        return None if not at else _drop_last(at)
    if not at and part.lower() == b".git":
        return None
    at.append(part)
    target = links.get(b"/".join(at))
    if target is None:
        return []
    at.pop()
    return None if target.startswith(b"/") else target.split(b"/")


def _drop_last(at: list[bytes]) -> list[bytes]:
    at.pop()
    return []


def _check_protected(change: Change, rules: GateRules) -> Iterator[Finding]:
    for pattern in rules.protected:
        if matches(change.path, pattern) or _stands_above(change, pattern):
            yield _at(change, Rule.PROTECTED_PATH, f"{pattern} is not changed by a run")
            return


def _stands_above(change: Change, pattern: str) -> bool:
    """Return whether a link or file took the place of a folder that the pattern lies in."""
    above = change.path.decode("utf-8", "surrogateescape").lower() + "/"
    return change.new_mode != 0 and pattern.lower().startswith(above)


def _check_agent(change: Change, rules: GateRules) -> Iterator[Finding]:
    parts = change.path.lower().split(b"/")
    if change.new_mode and any(part.startswith(b".aider") for part in parts):
        yield _at(change, Rule.AGENT_FILE, "files that configure the agent are not taken from it")


def _check_submodule(change: Change, rules: GateRules) -> Iterator[Finding]:
    if GITLINK in {change.old_mode, change.new_mode}:
        yield _at(change, Rule.SUBMODULE, "a submodule was added, moved or removed")
    elif change.path.lower() == b".gitmodules":
        yield _at(change, Rule.SUBMODULE, "the list of submodules was changed")


def _check_size(change: Change, rules: GateRules) -> Iterator[Finding]:
    if change.size is not None and change.size > rules.max_file_bytes:
        limit = _mib(rules.max_file_bytes)
        yield _at(change, Rule.LARGE_FILE, f"is {_mib(change.size)}, more than {limit}")


def _check_name(change: Change, rules: GateRules) -> Iterator[Finding]:
    if change.new_mode and printable(change.path, 10_000) != change.path.decode("utf-8", "replace"):
        reason = "the name holds bytes that cannot be shown as they are"
        yield _at(change, Rule.PATH_NAME, reason, Level.WARN)


def _check_links(facts: TreeFacts) -> Iterator[Finding]:
    before = {path for path in facts.base_links if leaves_tree(path, facts.base_links)}
    for tree in facts.links:
        for path in tree.links:
            unchanged = path in before and tree.links[path] == facts.base_links[path]
            if not unchanged and leaves_tree(path, tree.links):
                reason = f"a symlink out of the repository, to {printable(tree.links[path], 200)}"
                yield Finding(Rule.SYMLINK, printable(path), reason, commit=tree.commit)


def _at(change: Change, rule: Rule, reason: str, level: Level = Level.REFUSE) -> Finding:
    return Finding(rule, printable(change.path), reason, level, change.commit)


def _compile(pattern: str) -> re.Pattern[str]:
    swaps = {"**/": "(?:.*/)?", "/**": "(?:/.*)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|/\*\*|\*\*|\*|\?)", pattern)
    return re.compile("".join(swaps.get(p, re.escape(p)) for p in parts), re.IGNORECASE | re.DOTALL)
