"""The gate: what comes out of a machine, from honest commits to hostile objects."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from hashlib import sha1
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.conftest import OUT, Files, Node, Repo, link, new_repo, submodule
from workers.gate import (
    BundleHeader,
    Change,
    Finding,
    GateRefusal,
    GateRules,
    Level,
    Quarantine,
    Rule,
    TreeFacts,
    TreeLinks,
    check_ancestry,
    is_refused,
    judge,
    leaves_tree,
    matches,
    parse_bundle_header,
    quarantine,
    read_facts,
)
from workers.git import Git

BASE: Files = {
    b"a.txt": b"one\n",
    b"src/app.py": b"x = 1\n",
    b".github/workflows/ci.yml": b"on: push\n",
    b".github/drydock.yml": b"test: make\n",
    b"docs/link": link(b"../a.txt"),
}


class Yard:
    """A mirror, a machine's repository that grew from it, and the gate between them."""

    def __init__(self, git: Git, root: Path, base: Files = BASE) -> None:
        self.git, self.root = git, root
        self.mirror = new_repo(root / "mirror.git")
        first = self.mirror.commit({b"old": b"history"})
        self.base = self.mirror.commit(base, parents=[first], ref="refs/heads/main")
        self.guest = new_repo(root / "guest.git")
        self.guest.git("fetch", "-q", str(self.mirror.path), "main:main")
        self.files = dict(base)
        self.tip = self.base

    def change(
        self, files: Files, message: str | bytes = "Change", drop: Sequence[bytes] = ()
    ) -> str:
        self.files = {path: what for path, what in self.files.items() if path not in drop}
        self.files |= files
        self.tip = self.guest.commit(self.files, parents=[self.tip], message=message)
        return self.tip

    def bundle(self, *args: str, tip: str | None = None) -> Path:
        self.guest.git("update-ref", OUT, tip or self.tip)
        path = self.root / "out.bundle"
        self.guest.git("bundle", "create", "-q", str(path), *(args or (f"^{self.base}", OUT)))
        return path

    def take(self, bundle: Path | None = None, **rules: int) -> Quarantine | GateRefusal:
        return quarantine(
            self.git,
            bundle or self.bundle(),
            self.base,
            self.mirror.path,
            self.root / "quarantine.git",
            GateRules(**rules),
        )

    def verdict(self, **rules: int) -> list[tuple[Rule, str, Level]]:
        taken = self.take()
        if isinstance(taken, GateRefusal):
            return [(each.rule, each.path, each.level) for each in taken.findings]
        found = judge(read_facts(self.git, taken), GateRules(**rules))
        return [(each.rule, each.path, each.level) for each in found]


@pytest.fixture
def yard(git: Git, tmp_path: Path) -> Yard:
    return Yard(git, tmp_path)


def refused(result: Quarantine | GateRefusal) -> Finding:
    assert isinstance(result, GateRefusal)
    assert is_refused(result.findings)
    return result.findings[0]


# ---- honest work -----------------------------------------------------------------------------


def test_honest_commits_pass_in_their_order(yard: Yard) -> None:
    one = yard.change({b"src/app.py": b"x = 2\n"})
    two = yard.change({b"new/deep/file.py": b"y = 1\n"}, drop=[b"a.txt"])
    taken = yard.take()
    assert isinstance(taken, Quarantine)
    assert (taken.base_sha, taken.head_sha, taken.commits) == (yard.base, two, (one, two))
    facts = read_facts(yard.git, taken)
    assert judge(facts, GateRules()) == ()
    assert {(c.path, c.size) for c in facts.changes if not c.commit} == {
        (b"src/app.py", 6),
        (b"new/deep/file.py", 6),
        (b"a.txt", None),
    }


def test_a_quarantine_stands_alone(yard: Yard) -> None:
    yard.change({b"a.txt": b"two\n"})
    taken = yard.take()
    assert isinstance(taken, Quarantine)
    assert not (taken.git_dir / "objects" / "info" / "alternates").exists()
    assert not (taken.git_dir / "hooks").exists()
    yard.git.run(["fsck", "--strict"], git_dir=taken.git_dir)


def test_odd_names_pass_as_bytes_and_are_mentioned(yard: Yard) -> None:
    yard.change({b"caf\xe9.txt": b"1", "日本.txt".encode(): b"2", "a\u200bb".encode(): b"3"})
    assert yard.verdict() == [
        (Rule.PATH_NAME, "a\\u200bb", Level.WARN),
        (Rule.PATH_NAME, "caf\\xe9.txt", Level.WARN),
    ]


def test_a_change_of_three_thousand_files_is_judged(yard: Yard) -> None:
    stream = b"commit refs/heads/many\ncommitter A <a@b.c> 1 +0000\ndata 0\n"
    stream += b"from refs/heads/main^0\n"
    for number in range(3_000):
        stream += b"M 100644 inline d%d/f%d\ndata 1\nx\n" % (number % 40, number)
    yard.guest.git("fast-import", "--quiet", stdin=stream)
    yard.tip = yard.guest.read("many")
    assert yard.verdict() == []


# ---- paths -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        b".github/workflows/ci.yml",
        b".github/workflows/new/deep.yml",
        b".GitHub/Workflows/x.yml",
        b".github/actions/setup/action.yml",
        b".github/drydock.yml",
    ],
)
def test_a_protected_path_refuses(yard: Yard, path: bytes) -> None:
    yard.change({path: b"changed\n"})
    assert (Rule.PROTECTED_PATH, path.decode(), Level.REFUSE) in yard.verdict()


def test_removing_a_protected_file_refuses_too(yard: Yard) -> None:
    yard.change({}, drop=[b".github/workflows/ci.yml"])
    assert [rule for rule, _, _ in yard.verdict()] == [Rule.PROTECTED_PATH]


def test_a_change_that_a_later_commit_takes_back_still_refuses(yard: Yard) -> None:
    yard.change({b".github/workflows/evil.yml": b"x"})
    yard.change({}, drop=[b".github/workflows/evil.yml"])
    assert yard.verdict() == [(Rule.PROTECTED_PATH, ".github/workflows/evil.yml", Level.REFUSE)]


def test_replacing_the_workflow_folder_by_a_link_refuses(yard: Yard) -> None:
    yard.change({b".github/workflows": link(b"../docs")}, drop=[b".github/workflows/ci.yml"])
    rules = {rule for rule, _, _ in yard.verdict()}
    assert Rule.PROTECTED_PATH in rules


def test_a_link_in_the_place_of_a_folder_above_refuses(git: Git, tmp_path: Path) -> None:
    yard = Yard(git, tmp_path, {b"a": b"1"})
    yard.change({b"x/workflows/ci.yml": b"1", b".github": link(b"x")})
    assert yard.verdict() == [(Rule.PROTECTED_PATH, ".github", Level.REFUSE)]


@pytest.mark.parametrize("path", [b".aider.conf.yml", b"x/.aider.tags.cache.v4/d", b".AIDERignore"])
def test_files_of_the_agent_refuse(yard: Yard, path: bytes) -> None:
    yard.change({path: b"test-cmd: id\n"})
    assert [rule for rule, _, _ in yard.verdict()] == [Rule.AGENT_FILE]


def test_all_findings_are_reported(yard: Yard) -> None:
    yard.change({b".github/workflows/a.yml": b"1", b"big": b"x" * 2_000, b"out": link(b"/etc")})
    yard.change({b"mod": submodule(), b".aider.conf.yml": b"1"})
    found = yard.verdict(max_file_bytes=1_000)
    assert {rule for rule, _, _ in found} == {
        Rule.AGENT_FILE,
        Rule.LARGE_FILE,
        Rule.PROTECTED_PATH,
        Rule.SUBMODULE,
        Rule.SYMLINK,
    }


def test_a_finding_names_the_commit_it_came_with(yard: Yard) -> None:
    yard.change({b"a.txt": b"2"})
    bad = yard.change({b".github/workflows/x.yml": b"1"})
    taken = yard.take()
    assert isinstance(taken, Quarantine)
    (finding,) = judge(read_facts(yard.git, taken), GateRules())
    assert finding.commit == bad


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        (b".github/workflows/a.yml", ".github/workflows/**", True),
        (b".github/workflows", ".github/workflows/**", True),
        (b".github/workflows-old/a", ".github/workflows/**", False),
        (b"x/.github/workflows/a.yml", ".github/workflows/**", False),
        (b"a/b.py", "*.py", False),
        (b"b.py", "*.py", True),
        (b"a/b/c.py", "**/*.py", True),
        (b"c.py", "**/*.py", True),
        (b"a/b", "a/**/b", True),
        (b"a/x/y/b", "a/**/b", True),
        (b"a.c", "a?c", True),
        (b"abc", "a.c", False),
        (b"caf\xe9/x", "caf*/x", True),
        (b"new\nline/x", "**", True),
    ],
)
def test_patterns_match_whole_paths(path: bytes, pattern: str, expected: bool) -> None:
    assert matches(path, pattern) is expected


# ---- kinds and sizes -------------------------------------------------------------------------


def test_a_file_of_just_the_limit_passes_and_one_byte_more_does_not(yard: Yard) -> None:
    yard.change({b"ok": b"x" * 100, b"big": b"x" * 101})
    assert yard.verdict(max_file_bytes=100) == [(Rule.LARGE_FILE, "big", Level.REFUSE)]


def test_submodules_refuse(yard: Yard) -> None:
    yard.change({b"mod": submodule(), b".gitmodules": b'[submodule "mod"]\n\tpath = mod\n'})
    assert {(rule, path) for rule, path, _ in yard.verdict()} == {
        (Rule.SUBMODULE, "mod"),
        (Rule.SUBMODULE, ".gitmodules"),
    }


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (b"l", b"/etc/passwd"),
        (b"l", b"../x"),
        (b"docs/l", b"../../x"),
        (b"docs/l", b"./../../x"),
        (b"l", b".git/hooks"),
        (b"docs/l", b"../.GIT/config"),
        (b"l", b"docs/../.."),
        (b"l", b""),
        (b"l", b"a/" * 4_000),
    ],
)
def test_a_symlink_out_of_the_tree_refuses(yard: Yard, path: bytes, target: bytes) -> None:
    yard.change({path: link(target)})
    found = yard.verdict()
    if target == b"":
        assert found == []  # it leads nowhere
    else:
        assert (Rule.SYMLINK, path.decode(), Level.REFUSE) in found


@pytest.mark.parametrize("target", [b"a.txt", b"./docs/../a.txt", b"docs", b"missing", b"l"])
def test_a_symlink_inside_the_tree_passes(yard: Yard, target: bytes) -> None:
    yard.change({b"l": link(target)})
    assert yard.verdict() == []


def test_a_symlink_through_another_symlink_refuses(yard: Yard) -> None:
    yard.change({b"p/q/up": link(b".."), b"out": link(b"p/q/up/../../x")})
    assert (Rule.SYMLINK, "out", Level.REFUSE) in yard.verdict()


def test_an_old_link_that_a_new_one_leads_out_refuses(git: Git, tmp_path: Path) -> None:
    yard = Yard(git, tmp_path, {b"d/e/f": b"1", b"old": link(b"d/e/../../x")})
    yard.change({b"d/e": link(b".")}, drop=[b"d/e/f"])
    assert (Rule.SYMLINK, "old", Level.REFUSE) in yard.verdict()


def test_a_link_that_always_led_out_is_not_this_runs_doing(git: Git, tmp_path: Path) -> None:
    yard = Yard(git, tmp_path, {b"old": link(b"/usr/share/x"), b"a": b"1"})
    yard.change({b"fine": link(b"a")})
    assert yard.verdict() == []


def test_links_in_a_circle_lead_nowhere() -> None:
    assert not leaves_tree(b"a", {b"a": b"b", b"b": b"a"})


NAMES = st.sampled_from([b"a", b"b", b"c", b"..", b".", b""])
PATHS = st.lists(NAMES, min_size=1, max_size=6).map(b"/".join)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([b"a", b"b", b"a/c", b"b/a"]), PATHS, min_size=1))
def test_a_link_that_stays_resolves_inside_by_another_reckoning(links: dict[bytes, bytes]) -> None:
    for path in links:
        if not leaves_tree(path, links):
            assert resolve(path.split(b"/"), links)


def resolve(todo: list[bytes], links: dict[bytes, bytes]) -> bool:
    """Follow a path step by step, plainly; False as soon as it is above the root."""
    at: list[bytes] = []
    for _ in range(2_000):
        if not todo:
            return True
        part, *todo = todo
        target = links.get(b"/".join([*at, part]))
        if target is not None and part not in {b"", b".", b".."}:
            todo = target.split(b"/") + todo
            if target.startswith(b"/"):
                return False
        elif part == b"..":
            if not at:
                return False
            at.pop()
        elif part not in {b"", b"."}:
            at.append(part)
    return True


@given(
    st.lists(
        st.builds(
            Change,
            commit=st.just("c"),
            path=st.binary(min_size=1, max_size=30),
            old_mode=st.sampled_from([0, 0o100644, 0o120000, 0o160000]),
            new_mode=st.sampled_from([0, 0o100644, 0o100755, 0o120000, 0o160000]),
            new_sha=st.just("0" * 40),
            size=st.none() | st.integers(0, 10**8),
        ),
        max_size=8,
    )
)
def test_no_change_outside_the_rules_passes(changes: list[Change]) -> None:
    rules = GateRules()
    found = judge(TreeFacts(1, tuple(changes)), rules)
    must = [
        change
        for change in changes
        if 0o160000 in {change.old_mode, change.new_mode}
        or (change.size or 0) > rules.max_file_bytes
        or change.path.lower().startswith(b".github/workflows/")
    ]
    assert is_refused(found) or not must
    assert all(each.path.isprintable() for each in found)


def test_a_tree_with_links_is_judged_by_its_own_links() -> None:
    facts = TreeFacts(1, (), links=(TreeLinks("c", {b"l": b"/x"}),))
    assert [each.rule for each in judge(facts, GateRules())] == [Rule.SYMLINK]


# ---- ancestry --------------------------------------------------------------------------------


def test_a_merge_refuses(yard: Yard) -> None:
    left = yard.change({b"l": b"1"})
    right = yard.guest.commit({b"r": b"1"}, parents=[yard.base])
    yard.tip = yard.guest.commit({b"m": b"1"}, parents=[left, right])
    assert refused(yard.take()).rule is Rule.MERGE


def test_commits_on_an_older_base_refuse(yard: Yard) -> None:
    older = yard.guest.read(f"{yard.base}^")
    yard.tip = yard.guest.commit({b"x": b"1"}, parents=[older])
    finding = refused(yard.take(yard.bundle(f"^{older}", OUT)))
    assert finding.rule is Rule.ANCESTRY


def test_a_history_of_its_own_refuses(yard: Yard) -> None:
    root = yard.guest.commit({b"x": b"1"})
    finding = refused(yard.take(yard.bundle(OUT, tip=root)))
    assert finding.rule is Rule.ANCESTRY


def test_a_foreign_root_under_the_right_prerequisite_refuses(yard: Yard) -> None:
    root = yard.guest.commit({b"x": b"1"})
    path = yard.bundle(OUT, tip=root)
    raw = path.read_bytes().split(b"\n", 1)
    path.write_bytes(raw[0] + b"\n-" + yard.base.encode() + b" base\n" + raw[1])
    assert refused(yard.take(path)).rule is Rule.ANCESTRY


def test_the_base_itself_is_no_commit_to_take(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    path.write_bytes(path.read_bytes().replace(yard.tip.encode(), yard.base.encode(), 1))
    assert refused(yard.take(path)).rule is Rule.EXTRA_OBJECTS


def test_too_many_commits_refuse(yard: Yard) -> None:
    for number in range(4):
        yard.change({b"n": b"%d" % number})
    finding = refused(yard.take(max_commits=3))
    assert (finding.rule, "4 commits" in finding.reason) == (Rule.COMMIT_COUNT, True)


def test_ancestry_is_one_line_from_the_base() -> None:
    assert check_ancestry([("b", "a"), ("c", "b")], "a") is None
    assert check_ancestry([], "a") is None
    fault = check_ancestry([("b", "x")], "a")
    assert fault is not None
    assert fault.rule is Rule.ANCESTRY


# ---- hostile bundles -------------------------------------------------------------------------


def test_a_refused_bundle_leaves_no_repository(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    path.write_bytes(path.read_bytes()[:-30])
    assert refused(yard.take(path)).rule is Rule.BUNDLE
    assert not (yard.root / "quarantine.git").exists()


@pytest.mark.parametrize("keep", [0, 1, 16, 60, 100, 200])
def test_a_truncated_bundle_refuses(yard: Yard, keep: int) -> None:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    path.write_bytes(path.read_bytes()[:keep])
    assert refused(yard.take(path)).rule is Rule.BUNDLE


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0" * 4096,
        b"# v2 git bundle\n" * 5000,
        b"# v3 git bundle\n@filter=blob:none\n\n",
        b"-" * 70_000,
        b"#!/bin/sh\n\n",
    ],
)
def test_garbage_refuses(yard: Yard, garbage: bytes) -> None:
    path = yard.root / "garbage"
    path.write_bytes(garbage)
    assert refused(yard.take(path)).rule is Rule.BUNDLE


def test_a_spoiled_pack_refuses(yard: Yard) -> None:
    yard.change({b"x": b"some words to be spoiled" * 9})
    path = yard.bundle()
    raw = bytearray(path.read_bytes())
    raw[-40] ^= 0xFF
    path.write_bytes(raw)
    assert refused(yard.take(path)).rule is Rule.BUNDLE


def test_another_ref_beside_ours_refuses(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    yard.guest.git("update-ref", "refs/heads/main", yard.tip)
    finding = refused(yard.take(yard.bundle(f"^{yard.base}", OUT, "refs/heads/main")))
    assert (finding.rule, "refs/heads/main" in finding.reason) == (Rule.BUNDLE, True)


def test_another_ref_instead_of_ours_refuses(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    yard.guest.git("update-ref", "refs/tags/v1", yard.tip)
    assert refused(yard.take(yard.bundle(f"^{yard.base}", "refs/tags/v1"))).rule is Rule.BUNDLE


def test_a_bundle_over_the_limit_refuses_before_git_sees_it(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    assert "more than" in refused(yard.take(max_bundle_bytes=100)).reason


def test_a_bundle_whose_head_is_no_commit_refuses(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    tree = yard.guest.read(f"{yard.tip}^{{tree}}")
    path.write_bytes(path.read_bytes().replace(yard.tip.encode(), tree.encode(), 1))
    assert refused(yard.take(path)).rule is Rule.BUNDLE


def pack(objects: Sequence[bytes]) -> bytes:
    body = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
    return body + sha1(body, usedforsecurity=False).digest()


def packed(kind: int, data: bytes, size: int | None = None, extra: bytes = b"") -> bytes:
    size = len(data) if size is None else size
    head, size = [(kind << 4) | (size & 15)], size >> 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head) + extra + zlib.compress(data, 9)


def header(yard: Yard, tip: str) -> bytes:
    return f"# v2 git bundle\n-{yard.base} base\n{tip} {OUT}\n\n".encode()


def test_a_blob_that_unpacks_to_more_than_the_memory_refuses(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    path = yard.root / "bomb"
    bomb = packed(3, b"\0" * (300 * 1024 * 1024))
    assert len(bomb) < 400_000
    path.write_bytes(header(yard, yard.tip) + pack([bomb]))
    # Streamed through and thrown away: no commit leads to it, so the head is missing.
    assert refused(yard.take(path, max_memory_bytes=256 * 1024 * 1024)).rule is Rule.BUNDLE


def test_a_delta_bomb_refuses_in_bounded_memory(yard: Yard) -> None:
    """Each level copies the one below 32 times; nine levels would be terabytes."""
    yard.change({b"x": b"1"})
    base = b"\0" * 1024
    entries, before, size = [packed(3, base)], None, len(base)
    name = sha1(b"blob 1024\0" + base, usedforsecurity=False).digest()
    entries.append(_copying_delta(size, 32, name))
    for _ in range(8):
        before = len(entries[-1])
        size *= 32
        entries.append(_copying_delta(size, 32, _offset(before), by_offset=True))
    path = yard.root / "bomb"
    path.write_bytes(header(yard, yard.tip) + pack(entries))
    limits = {"max_memory_bytes": 512 * 1024 * 1024, "max_seconds": 20}
    finding = refused(yard.take(path, **limits))
    assert "emory" in finding.reason
    assert finding.rule is Rule.BUNDLE


def _copying_delta(size: int, times: int, base: bytes, *, by_offset: bool = False) -> bytes:
    copied = min(size, 0xFFFFFF)
    copy = b"\xf0" + struct.pack("<I", copied)[:3]
    delta = _varint(size) + _varint(copied * times) + copy * times
    return packed(6 if by_offset else 7, delta, extra=base)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _offset(distance: int) -> bytes:
    out = [distance & 0x7F]
    while distance := distance >> 7:
        distance -= 1
        out.insert(0, distance & 0x7F | 0x80)
    return bytes(out)


# ---- fsck ------------------------------------------------------------------------------------

HFS_DOTGIT = ".g\u200cit".encode()


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (b".git", "hasDotgit"),
        (b".GIT", "hasDotgit"),
        (b".Git", "hasDotgit"),
        (b"git~1", "hasDotgit"),
        (b".git ", "hasDotgit"),
        (b".git.", "hasDotgit"),
        (b".git::$INDEX_ALLOCATION", "hasDotgit"),
        (HFS_DOTGIT, "hasDotgit"),
        (b"..", "hasDotdot"),
        (b".", "hasDot"),
        (b"a/b", "fullPathname"),
    ],
)
def test_names_that_git_itself_would_trip_over_refuse(yard: Yard, name: bytes, rule: str) -> None:
    inner = yard.guest.raw_tree([(b"config", Node("100644", b"x"))])
    tree = yard.guest.raw_tree([(name, Node("040000", sha=inner)), (b"z", Node("100644", b"1"))])
    yard.tip = yard.guest.commit(tree=tree, parents=[yard.base])
    finding = refused(yard.take())
    assert (finding.rule, rule in finding.reason) == (Rule.FSCK, True)


def test_a_name_twice_in_one_tree_refuses(yard: Yard) -> None:
    tree = yard.guest.raw_tree([(b"a", Node("100644", b"1")), (b"a", Node("100644", b"2"))])
    yard.tip = yard.guest.commit(tree=tree, parents=[yard.base])
    assert refused(yard.take()).rule is Rule.FSCK


def test_a_hostile_gitmodules_refuses(yard: Yard) -> None:
    text = b'[submodule "x"]\n\turl = --upload-pack=touch /x\n\tpath = ../x\n'
    yard.change({b".gitmodules": text})
    assert refused(yard.take()).rule is Rule.FSCK


def test_a_commit_with_a_forged_header_refuses(yard: Yard) -> None:
    tree = yard.guest.read(f"{yard.base}^{{tree}}")
    raw = f"tree {tree}\nparent {yard.base}\nauthor X\ncommitter Y <y@z> 1 +0000\n\nhi\n".encode()
    yard.tip = yard.guest.git(
        "hash-object", "-w", "-t", "commit", "--literally", "--stdin", stdin=raw
    )
    assert refused(yard.take()).rule is Rule.FSCK


# ---- the header ------------------------------------------------------------------------------


def test_a_header_is_parsed() -> None:
    sha = "a" * 40
    data = f"# v2 git bundle\n-{sha} msg \n{sha} refs/heads/x\n\nPACK".encode()
    assert parse_bundle_header(data) == BundleHeader(
        (sha,), ((sha, "refs/heads/x"),), len(data) - 4
    )


@given(st.binary(max_size=300))
def test_any_bytes_are_a_header_or_a_reason(data: bytes) -> None:
    for head in (b"", b"# v2 git bundle\n"):
        assert isinstance(parse_bundle_header(head + data), BundleHeader | str)


def test_the_mirror_is_not_touched(yard: Yard, make_repo: Callable[[str], Repo]) -> None:
    yard.change({b"x": b"1"})
    before = sorted(yard.mirror.path.rglob("*"))
    assert isinstance(yard.take(), Quarantine)
    assert sorted(yard.mirror.path.rglob("*")) == before


def test_a_file_brought_back_from_before_the_base_passes(yard: Yard) -> None:
    yard.change({b"old": b"history"})
    assert yard.verdict() == []
