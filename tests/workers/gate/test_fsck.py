"""Objects that git itself would trip over."""

from __future__ import annotations

import pytest

from tests.workers.conftest import Node
from tests.workers.gate.conftest import HFS_DOTGIT, Yard, refused
from workers.gate import Rule


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
