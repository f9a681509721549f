"""What is taken from a machine: one line of commits from the base, into a repository of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.conftest import OUT, Repo
from tests.workers.gate.conftest import Yard, refused
from workers.gate import (
    BundleHeader,
    GateRules,
    Quarantine,
    Rule,
    check_ancestry,
    judge,
    parse_bundle_header,
    parse_pack_count,
    read_facts,
)


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


def test_the_mirror_is_not_touched(yard: Yard, make_repo: Callable[[str], Repo]) -> None:
    yard.change({b"x": b"1"})
    before = sorted(yard.mirror.path.rglob("*"))
    assert isinstance(yard.take(), Quarantine)
    assert sorted(yard.mirror.path.rglob("*")) == before


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


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"PACK\0\0\0\2\0\0\1\0", 256),
        (b"PACK\0\0\0\2\0\0\0\0", 0),
        (b"PACK\0\0\0\2\xff\xff\xff\xff", 0xFFFFFFFF),
        (b"PUCK\0\0\0\2\0\0\1\0", 0),
        (b"PACK\0\0\0\2", 0),
        (b"", 0),
    ],
)
def test_a_packs_count_is_read_from_its_header(data: bytes, count: int) -> None:
    assert parse_pack_count(data) == count
