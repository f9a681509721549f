"""Other spellings of a protected name: case, Unicode, and what NTFS makes of a name."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.gate.conftest import HFS_DOTGIT
from workers.gate import Change, GateRules, Level, PathRule, Rule, TreeFacts, judge, leaves_tree
from workers.gate.paths import DEFAULT_PATHS, judge_path
from workers.gate.short_names import short_names_of


def added(path: bytes) -> set[Rule]:
    """Return the rules that refuse a new file at `path`."""
    change = Change("c", path, 0, 0o100644, "0" * 40, 1)
    found = judge(TreeFacts(1, (change,)), GateRules())
    return {each.rule for each in found if each.level is Level.REFUSE}


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        (b"HUSKY~1/pre-commit", "**/.husky/**"),
        (b"a/husky~2/pre-commit", "**/.husky/**"),
        (b"HUSKY~12/pre-commit", "**/.husky/**"),
        (b"HU1A2B~1/pre-commit", "**/.husky/**"),
        (b"HUSKY~1", "**/.husky/**"),
        (b"HUSKY~1./x", "**/.husky/**"),
        (b"GITHUB~1/workflows/ci.yml", ".github/workflows/**"),
        (b"GITHUB~1/WORKFL~1/ci.yml", ".github/workflows/**"),
        (b".github/WORKFL~3/ci.yml", ".github/workflows/**"),
        (b"GITHU~10/workflows/ci.yml", ".github/workflows/**"),
        (b"GI7E4B~1/workflows/ci.yml", ".github/workflows/**"),
        (b"GITHUB~1/drydock.yml", ".github/drydock.yml"),
        (b"GITHUB~1", ".github/workflows/**"),
        (b"GITHOO~1/x", "**/.githooks/**"),
        (b"GIT-HO~1/x", "**/.git-hooks/**"),
        (b"CODEOW~1", "CODEOWNERS"),
        (b"x/ENV~1", "**/.env"),
        (b"ENV~1.LOC", "**/.env.*"),
        (b"DEVCON~1/devcontainer.json", "**/.devcontainer/**"),
        (b"VSCODE~1/TASKS~1.JSO", "**/.vscode/tasks.json"),
        (b"PRE-CO~1.YAM", "**/.pre-commit-config.yaml"),
        (b"CARGO~1/CONFIG~1.TOM", "**/.cargo/config.toml"),
    ],
)
def test_a_short_name_is_refused_like_the_long_one(path: bytes, pattern: str) -> None:
    assert judge_path(path, True, GateRules()) == (Level.REFUSE, pattern)


@pytest.mark.parametrize(
    "path",
    [
        b"notes~1.txt",
        b"husky/pre-commit",
        b"HUSKY~/x",
        b"HUSKY~0/x",
        b"HUSKYX~1/x",
        b"src/main.py~1~",
        b"docs~1/x",
        b"GITHUB~1.txt",
    ],
)
def test_a_name_that_is_no_short_one_of_ours_passes(path: bytes) -> None:
    assert judge_path(path, True, GateRules()) == (Level.ALLOW, "")


def test_what_lets_a_folder_through_does_not_let_its_short_name_through() -> None:
    rules = GateRules(paths=(PathRule(".husky/**", Level.ALLOW),))
    assert judge_path(b".husky/x", True, rules)[0] is Level.ALLOW
    assert judge_path(b"HUSKY~1/x", True, rules)[0] is Level.REFUSE


def test_the_repositorys_own_folders_have_short_names_too() -> None:
    rules = GateRules(paths=(PathRule("deployment/**", Level.REFUSE),))
    assert judge_path(b"DEPLOY~1/x", True, rules) == (Level.REFUSE, "deployment/**")


def test_a_link_in_the_place_of_a_folder_that_may_stand_anywhere_is_refused() -> None:
    assert judge_path(b"a/.cargo", True, GateRules()) == (Level.REFUSE, "**/.cargo/config")
    assert judge_path(b"CARGO~1", True, GateRules()) == (Level.REFUSE, "**/.cargo/config")
    assert judge_path(b"a/.cargo", False, GateRules()) == (Level.ALLOW, "")


def test_a_glob_that_stands_for_any_folder_is_about_no_file_beside_them() -> None:
    rules = GateRules(floor=(PathRule("*/private/**"),))
    assert judge_path(b"README", True, rules) == (Level.ALLOW, "")


@pytest.mark.parametrize("name", ["docs", "a.py", "README.md", "**", "*.code-workspace", ".env-*"])
def test_a_name_that_is_short_or_a_glob_has_no_short_name(name: str) -> None:
    assert not short_names_of(name)


@given(st.sampled_from(DEFAULT_PATHS), st.integers(1, 99_999))
def test_every_number_of_a_protected_name_is_known(rule: PathRule, number: int) -> None:
    for name in rule.pattern.split("/"):
        bare, _, extension = name.lstrip(".").partition(".")
        known = short_names_of(name)
        if not known or "." in extension or "*" in extension:
            continue
        tail = f"~{number}"
        short = bare[: min(6, 8 - len(tail))] + tail + ("." + extension[:3] if extension else "")
        assert re.fullmatch(known, short.lower()), short


@pytest.mark.parametrize("path", [b"GIT~1/config", b"git~10/config", b"a/GIT~123"])
def test_a_short_name_of_gits_folder_is_unsafe(path: bytes) -> None:
    assert Rule.PATH_UNSAFE in added(path)


@pytest.mark.parametrize("path", [b"GITMOD~1", b"GITMO~10", b"GI7EBA~1", b"MAILMA~2", b"GITATT~1"])
def test_a_short_name_of_a_file_that_git_obeys_is_unsafe(path: bytes) -> None:
    assert Rule.PATH_UNSAFE in added(path)


@pytest.mark.parametrize(
    "path",
    [b"AIDER~1.YML", b"AIDERC~1.YML", b"a/AIDERI~1", b"AI12CD~1.YML", ".a\u200cider.x".encode()],
)
def test_a_file_of_the_agent_is_known_by_its_other_names(path: bytes) -> None:
    assert Rule.AGENT_FILE in added(path)


@pytest.mark.parametrize("path", [b"binding.gyp", b"packages/native/binding.gyp", b"Binding.GYP"])
def test_a_build_file_that_npm_runs_is_refused(path: bytes) -> None:
    assert judge_path(path, True, GateRules()) == (Level.REFUSE, "**/binding.gyp")


def test_what_a_build_file_may_include_is_mentioned() -> None:
    assert judge_path(b"src/common.gypi", True, GateRules())[0] is Level.WARN


@pytest.mark.parametrize(
    "target",
    [
        b".git/hooks",
        b".GIT/hooks",
        b"GIT~1/hooks",
        b"git~10/hooks",
        b".git./hooks",
        b".git /hooks",
        b".git::$INDEX_ALLOCATION/hooks",
        HFS_DOTGIT + b"/hooks",
        ".git\ufeff".encode(),
        b"..\\.git",
        b"a\\..\\.git",
        b"vendor/.git/hooks",
        b".. /x",
        b"..\\..\\x",
        b"C:/x",
    ],
)
def test_a_link_to_another_spelling_of_what_is_outside_leaves(target: bytes) -> None:
    assert leaves_tree(b"l", {b"l": target})


@pytest.mark.parametrize("target", [b".github", b".gitignore", b"git", b"x.git", b"a/..b", b"..."])
def test_a_link_to_what_only_looks_alike_stays(target: bytes) -> None:
    assert not leaves_tree(b"l", {b"l": target})


@pytest.mark.parametrize("spelling", [b"Up/x", b"UP/x", "u\u200cp/x".encode(), b"up./x"])
def test_a_link_through_another_spelling_of_a_link_leaves(spelling: bytes) -> None:
    assert leaves_tree(b"l", {b"l": spelling, b"up": b".."})


def test_a_long_chain_of_links_is_followed_as_far_as_any_system_does() -> None:
    chain = {b"%d" % n: b"%d" % (n + 1) for n in range(60)} | {b"60": b"/x"}
    assert leaves_tree(b"0", chain)
