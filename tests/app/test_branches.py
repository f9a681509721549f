from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.branches import alternative_branch, branch_name, flat_branch, is_valid_branch

NAMES = st.text(
    alphabet=st.one_of(st.sampled_from(list("ab/.@{}~^:?*[\\ -#()\u202e\x7f")), st.characters()),
    max_size=30,
)


def git_takes(name: str) -> bool:
    done = subprocess.run(
        ["git", "check-ref-format", "--branch", name], capture_output=True, check=False, env={}
    )
    return done.returncode == 0


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Crash when the list is empty", "aider/issue-7-crash-when-the-list-is-empty"),
        ("  Überraschung!  ", "aider/issue-7-uberraschung"),
        ("修复解析器", "aider/issue-7"),
        ("", "aider/issue-7"),
        ("../../etc/passwd.lock", "aider/issue-7-etc-passwd-lock"),
        ("@{-1} ~^:?*[\\", "aider/issue-7-1"),
        ("x" * 100, "aider/issue-7-" + "x" * 40),
        ("a word " * 20, "aider/issue-7-a-word-a-word-a-word-a-word-a-word-a"),
    ],
)
def test_a_branch_is_named_after_the_issue(title: str, name: str) -> None:
    assert branch_name(7, title) == name


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=1, max_value=10**9), st.text(max_size=200))
def test_git_takes_every_name_that_we_make(number: int, title: str) -> None:
    name = branch_name(number, title)
    for made in (name, alternative_branch(name, 1), flat_branch(name)):
        assert git_takes(made)
        assert is_valid_branch(made)


@settings(max_examples=100, deadline=None)
@given(NAMES)
def test_git_takes_every_name_that_we_call_valid(name: str) -> None:
    if is_valid_branch(name):
        assert git_takes(name)


@pytest.mark.parametrize("name", ["main", "release/1.2", "feat/#12-a(b)", "user@host", "é", "a,b"])
def test_odd_names_that_git_takes_are_valid(name: str) -> None:
    assert git_takes(name)
    assert is_valid_branch(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-x",
        "a..b",
        "a b",
        "a~b",
        "a/",
        "/a",
        "a//b",
        ".a",
        "a/.b",
        "a.lock",
        "a.lock/b",
        "a.",
        "@",
        "HEAD",
        "a@{b",
        "a\\b",
        "a\nb",
        "a\u202eb",
        "x" * 201,
    ],
)
def test_names_that_git_refuses_or_that_mislead_are_not_valid(name: str) -> None:
    assert not is_valid_branch(name)


def test_alternatives_are_counted_from_two() -> None:
    assert alternative_branch("aider/issue-7-x", 1) == "aider/issue-7-x-2"
    with pytest.raises(ValueError, match="counted from 1"):
        alternative_branch("a", 0)
