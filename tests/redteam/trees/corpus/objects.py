"""Trees that no file system should be given: git's own fsck refuses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.redteam.trees.corpus.cases import PARCELS, Parcel
from tests.workers.conftest import Node, link
from tests.workers.gate.conftest import HFS_DOTGIT, Yard
from workers.gate import Rule


def _fsck(name: str, entries: Callable[[Yard], list[tuple[bytes, Node]]]) -> None:
    def build(yard: Yard) -> Path:
        yard.tip = yard.guest.commit(tree=yard.guest.raw_tree(entries(yard)), parents=[yard.base])
        return yard.bundle()

    PARCELS.append(Parcel(name, build, Rule.FSCK))


for bad in (b".git", b".GIT", b"git~1", b".git ", b".git.", b".git::$INDEX_ALLOCATION", b"..", b".",
            b"a/b", HFS_DOTGIT):  # fmt: skip
    _fsck(
        f"a folder called {bad!r}",
        lambda yard, bad=bad: [  # type: ignore[misc]
            (bad, Node("040000", sha=yard.guest.raw_tree([(b"config", Node("100644", b"x"))])))
        ],
    )
_fsck("a name twice", lambda _: [(b"a", Node("100644", b"1")), (b"a", Node("100644", b"2"))])
_fsck("a link for .gitmodules", lambda _: [(b".gitmodules", link(b"a"))])
_fsck("a mode that git does not know", lambda _: [(b"a", Node("100777", b"1"))])
