"""What the gate says of a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.conftest import link
from tests.workers.gate.conftest import Yard
from workers.gate import Level, Rule, matches
from workers.git import Git


def test_odd_names_pass_as_bytes_and_are_mentioned(yard: Yard) -> None:
    yard.change({b"caf\xe9.txt": b"1", "日本.txt".encode(): b"2", "a\u200bb".encode(): b"3"})
    assert yard.verdict() == [
        (Rule.PATH_NAME, "a\\u200bb", Level.WARN),
        (Rule.PATH_NAME, "caf\\xe9.txt", Level.WARN),
    ]


def test_a_file_brought_back_from_before_the_base_passes(yard: Yard) -> None:
    yard.change({b"old": b"history"})
    assert yard.verdict() == []


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
