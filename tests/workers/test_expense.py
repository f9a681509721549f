from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from app.report import Spending
from app.store import Run, RunFields, runs, writing
from tests.app.store.helpers import T0, new_run
from tests.harbour.fixtures import MakeHarbour
from workers.caps import own_cap, shared_caps
from workers.expense import fields_of_spending, spent_before, together

SOME = Spending(100, 20, 0.5, 2)
UNPRICED = Spending(10, 2, None, 1)

spendings = st.builds(
    Spending,
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.none() | st.integers(0, 64).map(float),
    st.integers(1, 5),
    st.booleans(),
) | st.just(Spending())


def test_what_two_attempts_spent_is_added_up() -> None:
    other = Spending(1, 2, 0.25, 1, estimated=True)
    assert together(SOME, other) == Spending(101, 22, 0.75, 3, estimated=True)


def test_an_attempt_that_asked_no_model_changes_nothing() -> None:
    for spending in (SOME, UNPRICED, Spending()):
        assert together(spending, Spending()) == spending
        assert together(Spending(cost_usd=0.0), spending).cost_usd == spending.cost_usd


def test_where_one_price_is_unknown_the_sum_is_too() -> None:
    assert together(SOME, UNPRICED).cost_usd is None
    assert together(UNPRICED, SOME).cost_usd is None


@given(spendings, spendings, spendings)
def test_the_order_in_which_attempts_are_added_does_not_matter(
    one: Spending, two: Spending, three: Spending
) -> None:
    assert together(one, two) == together(two, one)
    assert together(together(one, two), three) == together(one, together(two, three))


def new(engine: Engine, **fields: object) -> Run:
    with writing(engine) as session:
        run = runs.create(session, new_run(), T0)
        assert isinstance(run, Run)
        runs.update(session, run.id, T0, **RunFields(**fields))  # type: ignore[typeddict-item]
        found = runs.get(session, run.id)
    assert found is not None
    return found


def test_a_row_gives_back_what_it_was_told(make_harbour: MakeHarbour) -> None:
    engine = make_harbour(drivers=0).engine
    run = new(engine, **fields_of_spending(SOME))
    assert spent_before(run) == SOME
    assert spent_before(replace(run, model_calls=0)) == Spending()


def test_what_earlier_attempts_spent_counts_against_every_cap(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(drivers=0)
    days = {"budget_repo_day_usd": 2.0, "budget_user_day_usd": 3.0, "budget_usd": 1.0}
    settings = harbour.settings.model_copy(update=days)
    run = new(harbour.engine, **fields_of_spending(SOME))
    with writing(harbour.engine) as session:
        shared = shared_caps(session, settings, run, T0)
    assert [cap.elsewhere_usd for cap in shared] == [0.5, 0.5]
    assert own_cap(settings, 0.5).elsewhere_usd == 0.5
