"""A small mutation runner: each mutant is a module with one rule taken away.

A rule is an `if` whose body refuses (returns or raises), a comparison or boolean that is returned,
or an operand of an `and`/`or` in such a condition. Taking it away is: the condition becomes False
(the rule never applies), or one operand is dropped.
"""

from __future__ import annotations

import ast
import copy
import importlib.abc
import importlib.machinery
import os
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile(
    "mutants", max_examples=10, derandomize=True, database=None, deadline=None
)


@dataclass(frozen=True)
class Mutant:
    """`source` is the whole module; `what` names the line and the text that was taken away."""

    line: int
    what: str
    source: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a module, in the order of its lines."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    for number, site in enumerate(_sites(tree)):
        changed = copy.deepcopy(tree)
        twin = list(_sites(changed))[number]
        twin.apply()
        text = ast.get_source_segment(source, site.shown) or ast.unparse(site.shown)
        yield Mutant(
            line=site.shown.lineno,
            what=f"{site.kind}: {' '.join(text.split())[:90]}",
            source=ast.unparse(ast.fix_missing_locations(changed)),
        )


@dataclass
class _Site:
    """A place in a tree that can be changed, once."""

    kind: str
    shown: ast.expr
    owner: ast.AST
    field: str
    index: int | None = None

    def apply(self) -> None:
        if self.index is not None:
            values = getattr(self.owner, self.field)
            del values[self.index]
        else:
            setattr(self.owner, self.field, ast.Constant(False))


def _sites(tree: ast.AST) -> Iterator[_Site]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _refuses(node):
            yield _Site("rule", node.test, node, "test")
        if isinstance(node, ast.BoolOp) and not _is_default(node):
            for index, value in enumerate(node.values):
                yield _Site("operand", value, node, "values", index)


def _is_default(node: ast.BoolOp) -> bool:
    """Say whether it is words and not a rule: `reason or "granted"`."""
    return any(isinstance(each, ast.Constant) for each in node.values)


def _refuses(node: ast.If) -> bool:
    return isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue)


class Stand(importlib.abc.Loader, importlib.abc.MetaPathFinder):
    """Imports one module from given source instead of from its file."""

    def __init__(self, name: str, source: str) -> None:
        self._name = name
        self._source = source

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """The default module will do."""

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(self._source, f"<mutant of {self._name}>", "exec"), module.__dict__)  # noqa: S102


def survives(name: str, mutant: Mutant, tests: Sequence[str]) -> bool:
    """Run the tests against a mutant in a forked child; say whether none noticed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _run_tests(name, mutant.source, tests)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _run_tests(name: str, source: str, tests: Sequence[str]) -> int:
    null = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(null, fd)
    for loaded in [each for each in sys.modules if each.partition(".")[0] in ("egress", "tests")]:
        del sys.modules[loaded]
    sys.meta_path.insert(0, Stand(name, source))
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=no"]
    return int(pytest.main([*options, "--hypothesis-profile=mutants", *tests]))
