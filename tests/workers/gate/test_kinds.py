"""What the gate says of what a path is: its size, a submodule, a link and where that leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.conftest import link, submodule
from tests.workers.gate.conftest import Yard
from workers.gate import Level, Rule, leaves_tree
from workers.git import Git

NAMES = st.sampled_from([b"a", b"b", b"c", b"..", b".", b""])
PATHS = st.lists(NAMES, min_size=1, max_size=6).map(b"/".join)


def test_a_file_of_just_the_limit_passes_and_one_byte_more_does_not(yard: Yard) -> None:
    yard.change({b"ok": b"x" * 100, b"big": b"x" * 101})
    assert yard.verdict(max_file_bytes=100) == [(Rule.LARGE_FILE, "big", Level.REFUSE)]


def test_submodules_refuse(yard: Yard) -> None:
    yard.change({b"mod": submodule(), b".gitmodules": b'[submodule "mod"]\n\tpath = mod\n'})
    assert {(rule, path) for rule, path, _ in yard.verdict()} == {
        (Rule.SUBMODULE, "mod"),
        (Rule.SUBMODULE, ".gitmodules"),
    }


@pytest.mark.parametrize(
    ("path", "target"),
    [
        (b"l", b"/etc/passwd"),
        (b"l", b"../x"),
        (b"docs/l", b"../../x"),
        (b"docs/l", b"./../../x"),
        (b"l", b".git/hooks"),
        (b"docs/l", b"../.GIT/config"),
        (b"l", b"docs/../.."),
        (b"l", b""),
        (b"l", b"a/" * 4_000),
    ],
)
def test_a_symlink_out_of_the_tree_refuses(yard: Yard, path: bytes, target: bytes) -> None:
    yard.change({path: link(target)})
    found = yard.verdict()
    if target == b"":
        assert found == []  # it leads nowhere
    else:
        assert (Rule.SYMLINK, path.decode(), Level.REFUSE) in found


@pytest.mark.parametrize("target", [b"a.txt", b"./docs/../a.txt", b"docs", b"missing", b"l"])
def test_a_symlink_inside_the_tree_passes(yard: Yard, target: bytes) -> None:
    yard.change({b"l": link(target)})
    assert yard.verdict() == []


def test_a_symlink_through_another_symlink_refuses(yard: Yard) -> None:
    yard.change({b"p/q/up": link(b".."), b"out": link(b"p/q/up/../../x")})
    assert (Rule.SYMLINK, "out", Level.REFUSE) in yard.verdict()


def test_an_old_link_that_a_new_one_leads_out_refuses(git: Git, tmp_path: Path) -> None:
    yard = Yard(git, tmp_path, {b"d/e/f": b"1", b"old": link(b"d/e/../../x")})
    yard.change({b"d/e": link(b".")}, drop=[b"d/e/f"])
    assert (Rule.SYMLINK, "old", Level.REFUSE) in yard.verdict()


def test_a_link_that_always_led_out_is_not_this_runs_doing(git: Git, tmp_path: Path) -> None:
    yard = Yard(git, tmp_path, {b"old": link(b"/usr/share/x"), b"a": b"1"})
    yard.change({b"fine": link(b"a")})
    assert yard.verdict() == []


def test_links_in_a_circle_lead_nowhere() -> None:
    assert not leaves_tree(b"a", {b"a": b"b", b"b": b"a"})


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([b"a", b"b", b"a/c", b"b/a"]), PATHS, min_size=1))
def test_a_link_that_stays_resolves_inside_by_another_reckoning(links: dict[bytes, bytes]) -> None:
    for path in links:
        if not leaves_tree(path, links):
            assert resolve(path.split(b"/"), links)


def resolve(todo: list[bytes], links: dict[bytes, bytes]) -> bool:
    """Follow a path step by step, plainly; False as soon as it is above the root."""
    at: list[bytes] = []
    for _ in range(2_000):
        if not todo:
            return True
        part, *todo = todo
        target = links.get(b"/".join([*at, part]))
        if target is not None and part not in {b"", b".", b".."}:
            todo = target.split(b"/") + todo
            if target.startswith(b"/"):
                return False
        elif part == b"..":
            if not at:
                return False
            at.pop()
        elif part not in {b"", b"."}:
            at.append(part)
    return True
