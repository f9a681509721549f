"""Globs with many wildcards: the same answers as a regular expression's, and soon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.effort import effort
from workers.gate import GateRules, Level, PathRule, paths
from workers.gate.globs import fits, is_heavy
from workers.gate.paths import compiled, judge_path, matches

GLOBS = st.lists(st.sampled_from(["a", "B", "/", "*", "**", "**/", "/**", "?", "."]), max_size=9)
PATHS = st.text(alphabet="aAb/.\n", max_size=12)


@given(GLOBS.map("".join), PATHS)
def test_both_ways_give_the_same_answer(pattern: str, path: str) -> None:
    assert fits(pattern, path) == (compiled(pattern).fullmatch(path) is not None)


@pytest.mark.parametrize("piece", ["**a", "*a", "**/a/", "a/**/", "*?a", "**"])
def test_no_glob_of_a_repository_holds_the_gate(piece: str) -> None:
    pattern = f"{piece * 50}z"
    rules = GateRules(paths=(PathRule(pattern, Level.REFUSE),))

    def judge() -> None:
        for path in (b"a" * 250, b"a/" * 2000, b"a" * 250 + b"/" + b"a" * 250, b"a~1/" * 900):
            assert not matches(path, pattern)
            judge_path(path, True, rules)

    assert effort(judge, 5, fresh=forget) < 5


def forget() -> None:
    """Have every pattern and path be looked at as if for the first time."""
    for kept in (paths.canonical, paths.compiled, paths._reach, paths._any_of):
        kept.cache_clear()


def test_a_rule_with_many_wildcards_is_about_what_it_names() -> None:
    pattern = "**/generated/**/*.py*"
    assert is_heavy(pattern)
    rules = GateRules(paths=(PathRule(pattern, Level.REFUSE),))
    for path in (b"generated/a.py", b"x/GENERATED/y/a.pyi", b"src/genera~1/a.py"):
        assert judge_path(path, True, rules) == (Level.REFUSE, pattern), path
    assert judge_path(b"x/general/a.py", True, rules)[0] is Level.ALLOW
