from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.workers.conftest import Node
from tests.workers.gate.conftest import Yard
from workers.checkout import MirrorLock, Source
from workers.gate import GateRules, Rule
from workers.gate.values import MIB
from workers.git import Git, GitFailed
from workers.guest_repo import Identity
from workers.inspection import NothingChanged, Passed, Refused, diffstat, inspect
from workers.recreate import FileStat, Signature


@pytest.mark.parametrize(
    ("stats", "words"),
    [
        ((), "0 files changed, +0 -0 lines"),
        ((FileStat("a", 2, 1),), "1 file changed, +2 -1 lines"),
        ((FileStat("a", 2, 1), FileStat("b.png", None, None)), "2 files changed, +2 -1 lines"),
    ],
)
def test_how_much_changed_is_said_in_one_line(stats: tuple[FileStat, ...], words: str) -> None:
    assert diffstat(stats) == words


class Dock:
    """A machine's bundle on its way to the gate, with all that the gate is told."""

    def __init__(self, git: Git, folder: Path) -> None:
        self.yard = Yard(git, folder)
        self.folder = folder / "run"

    def inspect(self, **rules: int) -> Passed | Refused | NothingChanged:
        lock = MirrorLock(self.yard.mirror.path, Source("https://git.example/a/b.git", 1))
        signature = Signature(author=Identity("Drydock", "drydock@example.com"), at=1_750_000_000)
        asked = (self.yard.git, lock, self.yard.bundle(), self.yard.base, self.folder)
        return inspect(*asked, GateRules(**rules), signature)


@pytest.fixture
def dock(git: Git, tmp_path: Path) -> Dock:
    return Dock(git, tmp_path)


def test_an_honest_change_passes(dock: Dock) -> None:
    dock.yard.change({b"src/app.py": b"x = 2\n"})
    passed = dock.inspect()
    assert isinstance(passed, Passed)
    assert [commit.files for commit in passed.commits] == [("src/app.py",)]
    assert passed.git_dir.is_dir()


def test_a_change_that_takes_too_long_to_look_at_is_refused(dock: Dock) -> None:
    """Each pair of lines takes a tenth of a second in one search, which nothing can interrupt."""
    pair = b"[Fact " * 166 + b"]\n" + b"a" * 990 + b"\n"
    dock.yard.change({b"tests/T.cs": pair * 400})
    assert_refused(dock, dock.inspect(max_gate_seconds=3), "longer than 3 s")


def test_a_change_that_takes_too_much_memory_to_look_at_is_refused(dock: Dock) -> None:
    dock.yard.change({b"src/app.py": b"x = 2\n"}, message=b"Change" + b"\n" * 20_000_000)
    assert_refused(dock, dock.inspect(max_memory_bytes=512 * MIB), "512 MiB of memory")


def test_a_tree_that_is_too_deep_for_git_is_refused(dock: Dock) -> None:
    """It calls itself for each level, and there are more than its stack has room for."""
    guest = dock.yard.guest
    sha = guest.raw_tree([(b"f", Node("100644", b"x"))])
    for _ in range(20_000):
        sha = guest.raw_tree([(b"a", Node("040000", sha=sha))])
    base = [(b"deep", Node("040000", sha=sha)), (b"a.txt", Node("100644", b"one"))]
    dock.yard.tip = guest.commit(tree=guest.raw_tree(base), parents=[dock.yard.base])
    assert_refused(dock, dock.inspect(), "exited -11")


def test_what_fails_on_the_hosts_side_is_not_the_changes_fault(
    dock: Dock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dock.yard.change({b"src/app.py": b"x = 2\n"})
    bundle = dock.yard.bundle()
    shutil.rmtree(dock.yard.mirror.path)
    monkeypatch.setattr(dock.yard, "bundle", lambda: bundle)
    with pytest.raises(GitFailed) as caught:
        dock.inspect()
    assert caught.value.ours


def assert_refused(dock: Dock, found: Passed | Refused | NothingChanged, why: str) -> None:
    assert isinstance(found, Refused)
    (finding,) = found.findings
    assert finding.rule == Rule.CHANGE_SIZE
    assert why in finding.reason
    assert not (dock.folder / "quarantine.git").exists()
