from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.store import Delivery, DeliveryState, Inbox, deliveries, make_engine, reading, writing
from tests.app.store.helpers import T0, at, new_delivery


def stored(engine: Engine) -> set[str]:
    with reading(engine) as session:
        return set(session.scalars(text("SELECT delivery_id FROM deliveries")))


@contextmanager
def counted_commits(engine: Engine) -> Iterator[list[None]]:
    commits: list[None] = []

    def count(_: object) -> None:
        commits.append(None)

    event.listen(engine, "commit", count)
    yield commits
    event.remove(engine, "commit", count)


class Crowd:
    """Threads that bring deliveries while somebody else has the database."""

    def __init__(self, engine: Engine, inbox: Inbox) -> None:
        self._engine = engine
        self._inbox = inbox
        self._pool = ThreadPoolExecutor(32)

    def bring(self, *ids: str, body: bytes = b"{}") -> list[Future[Delivery | None]]:
        return [self._pool.submit(self._inbox.put, new_delivery(id_, body=body)) for id_ in ids]

    def wait_until_waiting(self, count: int) -> None:
        """Return once so many wait, the one included whose turn it is."""
        with self._inbox._changed:
            while len(self._inbox._waiting) < count:
                self._inbox._changed.wait(0.005)

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def crowd(engine: Engine) -> Iterator[Crowd]:
    made = Crowd(engine, Inbox(engine))
    yield made
    made.close()


def test_what_was_brought_is_there_on_return(engine: Engine) -> None:
    assert Inbox(engine).put(new_delivery("d-1", subject="5#3")) is None
    with reading(engine) as session:
        found = deliveries.get(session, "d-1")
    assert found is not None
    assert (found.state, found.subject, found.received_at) == ("received", "5#3", T0)


def test_what_is_known_comes_back_as_it_was(engine: Engine) -> None:
    inbox = Inbox(engine)
    inbox.put(new_delivery("d-1"))
    with writing(engine) as session:
        deliveries.mark(session, "d-1", DeliveryState.PROCESSED, at(1))
    earlier = inbox.put(new_delivery("d-1", 2, body=b"another"))
    assert earlier is not None
    assert (earlier.state, earlier.body) == ("processed", b'{"a": 1}')


def test_what_had_failed_is_to_be_tried_again_though_its_body_was_forgotten(
    engine: Engine,
) -> None:
    inbox = Inbox(engine)
    inbox.put(new_delivery("d-1"))
    with writing(engine) as session:
        deliveries.begin(session, "d-1", at(1))
        deliveries.mark(session, "d-1", DeliveryState.FAILED, at(1), "GitHub was down")
        deliveries.forget_bodies(session, at(2))
    earlier = inbox.put(new_delivery("d-1", 3))
    assert earlier is not None
    assert (earlier.state, earlier.body) == ("failed", b"")
    with reading(engine) as session:
        found = deliveries.get(session, "d-1")
    assert found is not None
    assert (found.state, found.attempts, found.body) == ("received", 0, b'{"a": 1}')
    assert (found.received_at, found.touched_at, found.processed_at) == (T0, at(3), None)


def test_those_who_come_while_another_writes_are_committed_together(
    sqlite_engine: Engine,
) -> None:
    crowd = Crowd(sqlite_engine, Inbox(sqlite_engine))
    ids = [f"d-{number}" for number in range(20)]
    with writing(sqlite_engine):
        brought = crowd.bring(*ids)
        crowd.wait_until_waiting(20)
        assert not any(each.done() for each in brought)
    with counted_commits(sqlite_engine) as commits:
        assert [each.result(10) for each in brought] == [None] * 20
    assert len(commits) == 1
    assert stored(sqlite_engine) == set(ids)
    crowd.close()


def test_two_who_bring_the_same_at_once_are_told_apart(engine: Engine, crowd: Crowd) -> None:
    answers = [each.result(10) for each in crowd.bring(*["same"] * 8)]
    assert sum(answer is None for answer in answers) == 1
    assert stored(engine) == {"same"}


def test_under_a_crowd_nothing_is_lost_and_nothing_is_stored_before_it_is_answered(
    engine: Engine, crowd: Crowd
) -> None:
    ids = [f"d-{number}" for number in range(300)]
    for brought, id_ in zip(crowd.bring(*ids), ids, strict=True):
        assert brought.result(30) is None
        with reading(engine) as session:
            assert deliveries.get(session, id_) is not None
    assert stored(engine) == set(ids)


def test_what_is_wrong_with_one_is_not_the_others_fault(sqlite_engine: Engine) -> None:
    crowd = Crowd(sqlite_engine, Inbox(sqlite_engine))
    no_body: bytes = None  # type: ignore[assignment]
    with writing(sqlite_engine):
        good = crowd.bring("a", "b")
        bad = crowd.bring("bad", body=no_body)
        crowd.wait_until_waiting(3)
    assert [each.result(10) for each in good] == [None, None]
    assert isinstance(bad[0].exception(10), DBAPIError)
    assert stored(sqlite_engine) == {"a", "b"}
    crowd.close()


def test_a_database_that_is_held_for_too_long_is_an_error_for_all_who_wait(
    sqlite_engine: Engine,
) -> None:
    hasty = make_engine(sqlite_engine.url, 0.3)
    crowd = Crowd(hasty, Inbox(hasty))
    with writing(sqlite_engine):
        brought = crowd.bring("a", "b", "c")
        errors = [each.exception(10) for each in brought]
    assert all(isinstance(error, SQLAlchemyError) for error in errors)
    assert stored(sqlite_engine) == set()
    # Whoever comes afterwards is none the worse for it.
    assert crowd.bring("d")[0].result(10) is None
    assert stored(sqlite_engine) == {"d"}
    crowd.close()
    hasty.dispose()


def test_a_turn_that_fails_is_taken_by_the_next(
    sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one whose turn it is runs out of time; those who came later have some left."""
    inbox = Inbox(sqlite_engine)
    crowd = Crowd(sqlite_engine, inbox)
    with writing(sqlite_engine):
        monkeypatch.setattr(inbox, "_patience_s", 0.2)
        first = crowd.bring("first")
        crowd.wait_until_waiting(1)
        monkeypatch.setattr(inbox, "_patience_s", 15.0)
        later = crowd.bring("later")
        wait(first, 10)
        assert isinstance(first[0].exception(), SQLAlchemyError)
        assert not later[0].done()
    assert later[0].result(10) is None
    assert stored(sqlite_engine) == {"later"}
    crowd.close()


def test_a_defect_of_ours_answers_nobody_as_if_stored(
    sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    crowd = Crowd(sqlite_engine, Inbox(sqlite_engine))
    monkeypatch.setattr(deliveries, "record", broken)
    with writing(sqlite_engine):
        brought = crowd.bring("a", "b", "c")
        crowd.wait_until_waiting(3)
    errors = [each.exception(10) for each in brought]
    assert None not in errors
    crowd.close()


def test_an_inbox_serves_many_processes_on_one_file(sqlite_engine: Engine) -> None:
    """Two inboxes as of two processes: each has one writer, and they take turns."""
    engines = [make_engine(sqlite_engine.url) for _ in range(2)]
    crowds = [Crowd(engine, Inbox(engine)) for engine in engines]
    brought = [
        each
        for number, crowd in enumerate(crowds)
        for each in crowd.bring(*(f"{number}-{i}" for i in range(100)))
    ]
    assert [each.result(30) for each in brought] == [None] * 200
    assert len(stored(sqlite_engine)) == 200
    for crowd, engine in zip(crowds, engines, strict=True):
        crowd.close()
        engine.dispose()
