from __future__ import annotations

import pytest
from sqlalchemy import Engine

from app.store import deliveries, reading, writing
from app.store.values import DeliveryState
from tests.app.store.helpers import T0, at


def _record(engine: Engine, delivery_id: str = "d-1", seconds: float = 0, **more: object) -> bool:
    with writing(engine) as session:
        return deliveries.record(
            session,
            delivery_id=delivery_id,
            event="issues",
            body=b'{"a": 1}',
            now=at(seconds),
            **more,  # type: ignore[arg-type]
        )


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
    assert _record(engine, state=DeliveryState.IGNORED, reason="nobody uses it")
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


def test_stale_deliveries_are_those_that_nobody_touches(engine: Engine) -> None:
    for number, seconds in enumerate((30, 10, 20, 90)):
        _record(engine, f"d-{number}", seconds)
    with writing(engine) as session:
        deliveries.begin(session, "d-2", at(95))
        deliveries.mark(session, "d-0", DeliveryState.PROCESSED, at(40))
        _ = deliveries.begin(session, "d-0", at(41))
    with reading(engine) as session:
        assert [d.delivery_id for d in deliveries.stale(session, at(60))] == ["d-1"]
        assert [d.delivery_id for d in deliveries.stale(session, at(100), limit=2)] == [
            "d-1",
            "d-2",
        ]
        assert deliveries.oldest_waiting(session) == at(10)


def test_deliveries_are_counted_by_state(engine: Engine) -> None:
    _record(engine, "a")
    _record(engine, "b", state=DeliveryState.IGNORED)
    with reading(engine) as session:
        assert deliveries.counts(session) == {
            DeliveryState.RECEIVED: 1,
            DeliveryState.PROCESSED: 0,
            DeliveryState.IGNORED: 1,
            DeliveryState.FAILED: 0,
        }


def test_a_time_without_a_zone_is_refused(engine: Engine) -> None:
    with pytest.raises(Exception, match="without a zone"), writing(engine) as session:
        deliveries.record(
            session, delivery_id="d", event="e", body=b"", now=T0.replace(tzinfo=None)
        )
