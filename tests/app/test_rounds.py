"""How many rounds there were without a person."""

from __future__ import annotations

import pytest

from app.rounds import Round, ci_trigger, in_a_row, is_ci


def asked(base: str, pushed: str | None = None) -> Round:
    return Round(False, False, base, pushed)


def check(base: str, pushed: str | None = None) -> Round:
    return Round(True, False, base, pushed)


def count(*rounds: Round, head: str = "c") -> int:
    return in_a_row(rounds, head, lambda each: each.by_check)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ((), 0),
        ((asked("b", "c"),), 0),
        ((check("b", "c"), asked("a", "b")), 1),
        ((check("b", "c"), check("a", "b"), asked("z", "a")), 2),
        ((check("b", "c"), asked("a", "b"), check("z", "a")), 1),
    ],
)
def test_they_are_counted_back_to_what_a_person_asked_for(
    rounds: tuple[Round, ...], expected: int
) -> None:
    assert count(*rounds) == expected


def test_a_head_that_nobody_of_us_pushed_is_an_act_of_a_person() -> None:
    assert count(check("a", "b"), asked("z", "a"), head="theirs") == 0
    assert count(check("theirs", "c"), check("a", "b"), asked("z", "a")) == 1


def test_a_round_that_pushed_nothing_counts_on_the_head_that_it_left() -> None:
    assert count(check("c"), check("b", "c"), asked("a", "b")) == 2
    assert count(check("b"), asked("a", "b"), head="c") == 0


def test_the_trigger_word_of_a_failed_check_is_known_again() -> None:
    assert is_ci(ci_trigger("c" * 40, 7))
    assert not is_ci("0b989ba4-242f-11e5-81e1-c7b6966d2516")
    assert not is_ci(None)


def test_the_same_commit_in_two_repositories_asks_for_two_things() -> None:
    assert ci_trigger("c" * 40, 7) != ci_trigger("c" * 40, 8)
