"""What a case of the corpus is, and how a kind adds its own.

    Tree(name, build, expected)     `build` commits to a yard; the verdict is the set `expected`
    Parcel(name, build, rule)       `build` writes a bundle file; it is refused whole, by `rule`

Every yard begins with the tree `BASE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workers.conftest import Files, Node, link, submodule
from tests.workers.gate.conftest import Yard
from workers.gate import GateRules, Level, Rule

R, W = Level.REFUSE, Level.WARN
Verdict = tuple[Rule, str, Level]

BASE: Files = {
    b"a.txt": b"one\n",
    b"README.md": b"# It\n",
    b"src/app.py": b"x = 1\n",
    b"src/caf\xc3\xa9.py": b"y = 1\n",
    b"docs/link": link(b"../a.txt"),
    b".github/workflows/ci.yml": b"on: push\n",
    b".github/drydock.yml": b"test: make\n",
    b".gitattributes": b"* text=auto\n",
    b"package.json": b'{"name": "it", "scripts": {"test": "jest", "postinstall": "node a.js"}}\n',
    b"package-lock.json": b"{}\n",
    b"run.sh": Node("100644", b"#!/bin/sh\n"),
    b"tests/test_app.py": (
        b"def test_one():\n    assert f(1) == 1\n\n\ndef test_two():\n    assert f(2) == 4\n"
    ),
    b"tests/test_other.py": b"def test_three():\n    assert f(3) == 9\n",
    b"conftest.py": b"import pytest\n",
    b"vendor/mod": submodule(),
}


@dataclass(frozen=True)
class Tree:
    name: str
    build: Callable[[Yard], object]
    expected: frozenset[Verdict]
    rules: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parcel:
    name: str
    build: Callable[[Yard], Path]
    rule: Rule
    rules: Mapping[str, Any] = field(default_factory=dict)


TREES: list[Tree] = []
PARCELS: list[Parcel] = []


def tree(
    name: str, files: Files, *expected: Verdict, drop: tuple[bytes, ...] = (), **rules: Any
) -> None:
    """Add a tree made by one commit on the base."""
    TREES.append(Tree(name, lambda yard: yard.change(files, drop=drop), frozenset(expected), rules))


def commits(name: str, build: Callable[[Yard], object], *expected: Verdict, **rules: Any) -> None:
    """Add a tree made by several commits."""
    TREES.append(Tree(name, build, frozenset(expected), rules))


def parcel(rule: Rule, **rules: Any) -> Callable[[Callable[[Yard], Path]], None]:
    def add(build: Callable[[Yard], Path]) -> None:
        PARCELS.append(Parcel(build.__name__, build, rule, rules))

    return add


def rules_of(case: Tree | Parcel) -> GateRules:
    return GateRules(**case.rules)
