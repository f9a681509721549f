"""The quarantine: a machine's bundle, unpacked into a bare repository that this host made.

Every object is checked by `fsck`, strictly, and must be one that the commits need; time, memory
and disk are bounded.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

from workers.gate.values import (
    BundleHeader,
    Finding,
    GateRefusal,
    GateRules,
    Quarantine,
    Rule,
    in_mib,
)
from workers.git import Git, GitFailed, Limits, printable
from workers.guest_repo import OUT_REF
from workers.objects import read_sizes

IN_REF = "refs/drydock/in"
BASE_REF = "refs/drydock/base"
_MAX_HEADER = 64 * 1024
_PACK_HEADER = struct.Struct(">4sII")
# What git only remarks on, and a server may refuse: a file's mode that git itself never writes.
_STRICT = "--strict=badFilemode=error,zeroPaddedFilemode=error"
_SHA_LINE = re.compile(rb"(-?)([0-9a-f]{40}|[0-9a-f]{64})(?: (.*))?")


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
    try:
        _make_repository(git, into, base_sha, mirror)
    except GitFailed as error:
        error.ours = True
        raise
    tip = header.refs[0][0]
    taken = (
        _unpack(git, bundle, header.length, into, rules)
        or _check_tip(git, into, tip)
        or _check_objects(git, into, rules)
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
        return _bad_bundle(f"is {in_mib(size)}, more than {in_mib(rules.max_bundle_bytes)}")
    with bundle.open("rb") as file:
        header = parse_bundle_header(file.read(_MAX_HEADER))
        if isinstance(header, str):
            return _bad_bundle(header)
        file.seek(header.length)
        count = parse_pack_count(file.read(_PACK_HEADER.size))
    return _check_header(header, base_sha) or _check_count(count, rules) or header


def _check_count(count: int, rules: GateRules) -> Finding | None:
    """git keeps a record of every object in memory, also of those that no commit needs."""
    if count <= rules.max_objects:
        return None
    return Finding(Rule.CHANGE_SIZE, "", f"{count} objects are more than are taken")


def _check_header(header: BundleHeader, base_sha: str) -> Finding | None:
    if [name for _, name in header.refs] != [OUT_REF]:
        names = ", ".join(printable(name, 80) for _, name in header.refs[:5]) or "none"
        return _bad_bundle(f"should carry exactly {OUT_REF} and carries {names}")
    if header.prerequisites != (base_sha,):
        return Finding(Rule.ANCESTRY, "", "does not build on the commit that was sent")
    return None


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


def parse_pack_count(data: bytes) -> int:
    """Return how many objects a pack says it has; 0 for what is no pack, as git will say. Pure.

    Unpacking fails where it is another number. Source: gitformat-pack(5).
    """
    if len(data) < _PACK_HEADER.size:
        return 0
    signature, _, count = _PACK_HEADER.unpack(data)
    return int(count) if signature == b"PACK" else 0


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
                ["index-pack", "--stdin", _STRICT, "--fix-thin", "--threads=1"],
                git_dir=into,
                stdin=file,
                timeout_s=rules.max_seconds,
                limits=_limits(rules),
            )
        except GitFailed as error:
            if error.ours:
                raise
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


def _check_objects(git: Git, into: Path, rules: GateRules) -> Finding | None:
    """Require that what came is what the commits reach, and no more of it than is taken.

    The base's own objects may be here twice: a thin pack is completed with them.
    """
    listed = git.run(
        ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)"],
        git_dir=into,
    )
    objects = set(listed.split())
    new = _reachable(git, into, IN_REF, f"^{BASE_REF}")
    extra = objects - new
    if extra:
        extra -= _reachable(git, into, BASE_REF)
    if extra:
        many = f"carries {len(extra)} objects that no commit needs"
        return Finding(Rule.EXTRA_OBJECTS, "", f"the bundle {many}")
    total = sum(read_sizes(git, into, (sha.decode() for sha in new)).values())
    if total > rules.max_total_bytes:
        limit = in_mib(rules.max_total_bytes)
        return Finding(Rule.CHANGE_SIZE, "", f"unpacks to {in_mib(total)}, more than {limit}")
    return None


def _reachable(git: Git, into: Path, *tips: str) -> set[bytes]:
    argv = ["rev-list", "--objects", "--no-object-names", *tips]
    return set(git.run(argv, git_dir=into).split())


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
