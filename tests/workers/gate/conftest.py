"""A mirror, a machine's repository and the gate between them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.workers.conftest import OUT, Files, link, new_repo
from workers.gate import (
    Finding,
    GateRefusal,
    GateRules,
    Level,
    Quarantine,
    Rule,
    is_refused,
    judge,
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
# What HFS+ takes for `.git`: it passes over the character in the middle.
HFS_DOTGIT = ".g\u200cit".encode()


class Yard:
    """A mirror, a machine's repository that grew from it, and the gate between them."""

    def __init__(self, git: Git, root: Path, base: Files = BASE) -> None:
        self.git, self.root = git, root
        self.mirror, self.guest = new_repo(root / "mirror.git"), new_repo(root / "guest.git")
        for repo in (self.mirror, self.guest):
            first = repo.commit({b"old": b"history"})
            self.base = repo.commit(base, parents=[first], ref="refs/heads/main")
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
