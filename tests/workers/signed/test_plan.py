"""How a change is divided into requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.gate import GITLINK
from workers.objects import PathChange
from workers.signed import plan
from workers.signed.plan import as_text, batches, new_content, steps_of


def change(path: bytes, mode: int = 0o100644, sha: str = "b" * 40) -> PathChange:
    return PathChange(path, 0o100644, mode, "a" * 40, sha)


def gone(path: bytes) -> PathChange:
    return change(path, 0, "0" * 40)


def test_only_what_is_new_is_brought_in_and_once() -> None:
    changes = (
        change(b"1", sha="1"),
        change(b"2", sha="1"),
        change(b"3", sha="2"),
        change(b"lib", GITLINK, "3"),
        gone(b"x"),
    )
    assert new_content(changes, {"2"}) == ("1",)


def test_what_stays_is_told_before_what_goes() -> None:
    assert steps_of((gone(b"a"), change(b"b"))) == ((change(b"b"), gone(b"a")),)


@pytest.mark.parametrize(
    ("went", "came"),
    [(b"a", b"a/b"), (b"a", b"a/b/c"), (b"a/b", b"a"), (b"a/b/c", b"a/b")],
)
def test_what_is_in_the_way_goes_in_a_step_before(went: bytes, came: bytes) -> None:
    steps = steps_of((change(came), gone(went)))
    assert steps == ((gone(went),), (change(came),))


@pytest.mark.parametrize(("went", "came"), [(b"a", b"ab/c"), (b"a/b", b"a/bc"), (b"a/b", b"a/c")])
def test_names_that_only_begin_alike_are_not_in_the_way(went: bytes, came: bytes) -> None:
    assert len(steps_of((change(came), gone(went)))) == 1


def test_batches_hold_so_many_changes_and_so_much_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MAX_ENTRIES", 3)
    monkeypatch.setattr(plan, "MAX_TEXT_BYTES", 10)
    changes = [change(str(n).encode(), sha=str(n)) for n in range(6)]
    sizes = {"0": 4, "1": 6, "2": 1, "3": 50}
    found = [[c.path for c in batch] for batch in batches(changes, sizes)]
    assert found == [[b"0", b"1"], [b"2"], [b"3"], [b"4", b"5"]]
    assert [len(batch) for batch in batches(changes, {})] == [3, 3]
    assert list(batches((), {})) == []


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), (b"a\r\n", "a\r\n"), ("é".encode(), "é"), (b"\xe9", None), (b"a\0", None)],
)
def test_text_is_what_comes_back_as_the_same_bytes(data: bytes, text: str | None) -> None:
    assert as_text(data) == text


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map("/".join)
TREES = st.dictionaries(NAMES, st.sampled_from("123"), max_size=8).filter(
    lambda tree: not any(other.startswith(f"{path}/") for path in tree for other in tree)
)


def changes_between(before: dict[str, str], after: dict[str, str]) -> list[PathChange]:
    """Return what git would tell of two trees, in its order."""
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return [change(p.encode(), sha=after[p]) if p in after else gone(p.encode()) for p in paths]


@given(TREES, TREES)
def test_told_step_by_step_any_tree_becomes_any_other(
    before: dict[str, str], after: dict[str, str]
) -> None:
    """No request names a file and a folder of one name, and only a step's end may be empty."""
    tree = dict(before)
    for step in steps_of(changes_between(before, after)):
        for start in range(0, len(step), 2):
            assert tree or not before or start == 0
            for each in step[start : start + 2]:
                tree.pop(each.path.decode(), None)
                if not each.is_gone:
                    tree[each.path.decode()] = each.sha
            assert not any(other.startswith(f"{path}/") for path in tree for other in tree)
    assert tree == after
