from __future__ import annotations

import pytest
from sqlalchemy import Engine, text

from app.store import deliveries, reading, writing
from app.store.values import DeliveryState, StaleDelivery
from tests.app.store.helpers import T0, at, new_delivery

PATIENCE_S = (10, 20, 40)


def _record(engine: Engine, delivery_id: str = "d-1", seconds: float = 0, **more: object) -> bool:
    with writing(engine) as session:
        return deliveries.record(session, new_delivery(delivery_id, seconds, **more))


def _stale(engine: Engine, seconds: float, limit: int = 100) -> list[str]:
    with reading(engine) as session:
        found = deliveries.stale(session, at(seconds), PATIENCE_S, limit)
    return [delivery.delivery_id for delivery in found]


def test_a_delivery_is_stored_as_it_came(engine: Engine) -> None:
    assert _record(engine)
    with reading(engine) as session:
        found = deliveries.get(session, "d-1")
    assert found is not None
    assert (found.event, found.body, found.received_at) == ("issues", b'{"a": 1}', T0)
    assert (found.state, found.attempts) == (DeliveryState.RECEIVED, 0)


def test_the_same_delivery_is_stored_once_and_left_as_it_was(engine: Engine) -> None:
    assert _record(engine)
    with writing(engine) as session:
        deliveries.mark(session, "d-1", DeliveryState.PROCESSED, at(1))
    assert not _record(engine, seconds=2)
    with reading(engine) as session:
        found = deliveries.get(session, "d-1")
    assert found is not None
    assert (found.state, found.received_at) == (DeliveryState.PROCESSED, T0)


def test_an_ignored_delivery_keeps_its_reason(engine: Engine) -> None:
    assert _record(engine, reason="nobody uses it")
    with reading(engine) as session:
        found = deliveries.get(session, "d-1")
    assert found is not None
    assert (found.state, found.reason, found.processed_at) == ("ignored", "nobody uses it", T0)


def test_taking_a_delivery_up_counts_the_attempt(engine: Engine) -> None:
    _record(engine)
    for attempt in (1, 2):
        with writing(engine) as session:
            taken = deliveries.begin(session, "d-1", at(attempt))
        assert taken is not None
        assert taken.attempts == attempt


@pytest.mark.parametrize("state", [DeliveryState.PROCESSED, DeliveryState.IGNORED])
def test_a_delivery_that_needs_no_work_is_not_taken_up(
    engine: Engine, state: DeliveryState
) -> None:
    _record(engine)
    with writing(engine) as session:
        deliveries.mark(session, "d-1", state, at(1))
        assert deliveries.begin(session, "d-1", at(2)) is None


def test_a_failed_delivery_may_be_taken_up_again(engine: Engine) -> None:
    _record(engine)
    with writing(engine) as session:
        deliveries.mark(session, "d-1", DeliveryState.FAILED, at(1), "GitHub was down")
        taken = deliveries.begin(session, "d-1", at(2))
    assert taken is not None
    assert (taken.state, taken.reason) == (DeliveryState.RECEIVED, "")


def test_an_unknown_delivery_is_neither_taken_up_nor_marked(engine: Engine) -> None:
    with writing(engine) as session:
        assert deliveries.begin(session, "nope", T0) is None
        assert not deliveries.mark(session, "nope", DeliveryState.PROCESSED, T0)


def test_stale_deliveries_are_those_that_nobody_touches_the_oldest_first(engine: Engine) -> None:
    for number, seconds in enumerate((30, 10, 20, 95)):
        _record(engine, f"d-{number}", seconds)
    with writing(engine) as session:
        deliveries.mark(session, "d-0", DeliveryState.PROCESSED, at(40))
    assert _stale(engine, 100) == ["d-1", "d-2"]
    assert _stale(engine, 100, limit=1) == ["d-1"]
    assert _stale(engine, 106) == ["d-1", "d-2", "d-3"]
    with reading(engine) as session:
        assert deliveries.oldest_waiting(session) == at(10)


@pytest.mark.parametrize(("tries", "patience_s"), [(0, 10), (1, 20), (2, 40), (3, 40), (9, 40)])
def test_a_delivery_is_left_alone_the_longer_the_more_it_was_tried(
    engine: Engine, tries: int, patience_s: float
) -> None:
    _record(engine)
    for _ in range(tries):
        with writing(engine) as session:
            deliveries.begin(session, "d-1", T0)
    assert _stale(engine, patience_s) == []
    assert _stale(engine, patience_s + 1) == ["d-1"]
    with reading(engine) as session:
        (found,) = deliveries.stale(session, at(100), PATIENCE_S)
    assert found == StaleDelivery("d-1", T0, tries)


def test_deliveries_that_rest_hide_none_that_are_due(engine: Engine) -> None:
    """The limit is for those that are due: a hundred that wait for GitHub stop nothing else."""
    for number in range(5):
        _record(engine, f"old-{number}", number)
        with writing(engine) as session:
            deliveries.begin(session, f"old-{number}", at(100))
    _record(engine, "new", 90)
    assert _stale(engine, 101, limit=3) == ["new"]


# ---- which is next ---------------------------------------------------------------------------


def _next(engine: Engine, delivery_id: str, *, tried: bool = False) -> str | None:
    with reading(engine) as session:
        asked = deliveries.get(session, delivery_id)
        assert asked is not None
        found = deliveries.next_for(session, asked, tried)
    return found.delivery_id if found is not None else None


def _mark(engine: Engine, delivery_id: str, state: DeliveryState) -> None:
    with writing(engine) as session:
        deliveries.begin(session, delivery_id, at(50))
        deliveries.mark(session, delivery_id, state, at(50))


def test_what_came_earlier_about_the_same_goes_first(engine: Engine) -> None:
    _record(engine, "stop", 1, subject="5#3")
    _record(engine, "other", 0, subject="5#4")
    _record(engine, "retry", 2, subject="5#3")
    assert _next(engine, "retry") == "stop"
    _mark(engine, "stop", DeliveryState.PROCESSED)
    assert _next(engine, "retry") == "retry"


def test_what_came_later_about_the_same_is_not_left_behind(engine: Engine) -> None:
    _record(engine, "stop", 1, subject="5#3")
    _record(engine, "retry", 2, subject="5#3")
    _mark(engine, "stop", DeliveryState.PROCESSED)
    assert _next(engine, "stop", tried=True) == "retry"
    _mark(engine, "retry", DeliveryState.PROCESSED)
    assert _next(engine, "stop", tried=True) is None


def test_a_delivery_that_was_tried_and_rests_lets_later_ones_pass(engine: Engine) -> None:
    _record(engine, "first", 1, subject="5#3")
    _record(engine, "second", 2, subject="5#3")
    _mark(engine, "first", DeliveryState.RECEIVED)
    assert _next(engine, "second") == "second"
    assert _next(engine, "first") == "first"
    assert _next(engine, "first", tried=True) == "second"


@pytest.mark.parametrize("subject", [None, "5#3"])
def test_a_failed_delivery_is_next_only_when_asked_for(engine: Engine, subject: str | None) -> None:
    _record(engine, "failed", 1, subject=subject)
    _mark(engine, "failed", DeliveryState.FAILED)
    _record(engine, "asked", 2, subject=subject)
    assert _next(engine, "asked") == "asked"
    assert _next(engine, "failed", tried=True) == ("asked" if subject else None)
    _mark(engine, "asked", DeliveryState.PROCESSED)
    assert _next(engine, "failed") == "failed"
    assert _next(engine, "failed", tried=True) is None


def test_deliveries_about_nothing_do_not_wait_for_each_other(engine: Engine) -> None:
    _record(engine, "one", 1)
    _record(engine, "two", 2)
    assert _next(engine, "two") == "two"
    assert _next(engine, "two", tried=True) is None


# ---- bodies ----------------------------------------------------------------------------------


def _forget(engine: Engine, seconds: float, limit: int = 500) -> bool:
    """Return whether anything is left to forget."""
    with writing(engine) as session:
        deliveries.forget_bodies(session, at(seconds), limit)
    with reading(engine) as session:
        return deliveries.has_old_bodies(session, at(seconds))


def _body(engine: Engine, delivery_id: str) -> bytes:
    with reading(engine) as session:
        found = deliveries.get(session, delivery_id)
    assert found is not None
    return found.body


def test_bodies_are_forgotten_once_their_delivery_is_done_with_for_long(engine: Engine) -> None:
    for state in DeliveryState:
        _record(engine, state)
        _mark(engine, state, state)
    _record(engine, "passed over", reason="nobody uses it")
    assert not _forget(engine, 50)
    assert _body(engine, "passed over") == b""
    assert all(_body(engine, state) for state in DeliveryState)
    assert not _forget(engine, 51)
    kept = [state for state in DeliveryState if _body(engine, state)]
    assert kept == [DeliveryState.RECEIVED]
    assert not _record(engine, DeliveryState.PROCESSED)


def test_bodies_are_forgotten_a_few_at_a_time(engine: Engine) -> None:
    for number in range(3):
        _record(engine, f"d-{number}", reason="nobody uses it")
    assert _forget(engine, 1, limit=2)
    assert not _forget(engine, 1, limit=2)


def test_looking_for_old_bodies_reads_an_index(sqlite_engine: Engine) -> None:
    """However many deliveries there have been: it is looked for again and again."""
    with reading(sqlite_engine) as session:
        query = deliveries._with_old_bodies(T0).compile(
            sqlite_engine, compile_kwargs={"literal_binds": True}
        )
        (plan,) = session.execute(text(f"EXPLAIN QUERY PLAN {query}")).all()
    assert "ix_deliveries_with_body" in plan.detail


def test_deliveries_are_counted_by_state(engine: Engine) -> None:
    _record(engine, "a")
    _record(engine, "b", reason="nobody uses it")
    with reading(engine) as session:
        assert deliveries.counts(session) == {
            DeliveryState.RECEIVED: 1,
            DeliveryState.PROCESSED: 0,
            DeliveryState.IGNORED: 1,
            DeliveryState.FAILED: 0,
        }


def test_a_time_without_a_zone_is_refused(engine: Engine) -> None:
    with pytest.raises(Exception, match="without a zone"), writing(engine) as session:
        deliveries.record(session, new_delivery(received_at=T0.replace(tzinfo=None)))
