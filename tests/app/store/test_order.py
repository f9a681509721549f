from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from app.store.order import Waiting, claim_order
from tests.app.store.helpers import at

_WAITING = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), max_size=30).map(
    lambda rows: [Waiting(at(age), f"r{i}", repo) for i, (age, repo) in enumerate(rows)]
)
_BUSY = st.dictionaries(st.integers(1, 4), st.integers(0, 5))


def test_the_oldest_of_the_least_busy_repository_goes_first() -> None:
    waiting = [Waiting(at(0), "a", 1), Waiting(at(1), "b", 1), Waiting(at(2), "c", 2)]
    assert [w.run_id for w in claim_order(waiting, {})] == ["a", "c", "b"]
    assert [w.run_id for w in claim_order(waiting, {1: 1})] == ["c", "a", "b"]


@given(_WAITING, _BUSY)
def test_every_waiting_run_has_its_turn_once(waiting: list[Waiting], busy: dict[int, int]) -> None:
    assert Counter(claim_order(waiting, busy)) == Counter(waiting)


@given(_WAITING, _BUSY)
def test_each_turn_goes_to_the_least_busy_and_then_to_the_oldest(
    waiting: list[Waiting], busy: dict[int, int]
) -> None:
    load, left = Counter(busy), set(waiting)
    for chosen in claim_order(waiting, busy):
        assert min(left, key=lambda w: (load[w.repo_id], w)) == chosen
        left.remove(chosen)
        load[chosen.repo_id] += 1
