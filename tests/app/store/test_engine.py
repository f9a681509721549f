from __future__ import annotations

import multiprocessing
import os
import stat
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from app.store import BadDatabaseUrl, deliveries, make_engine, reading, runs, upgrade, writing
from app.store.engine import BUSY_TIMEOUT_S, LOCK_POLL_S
from app.store.models import AttemptRow
from app.store.values import DeliveryState
from tests.app.store.helpers import T0, new_delivery, new_run


def test_sqlite_is_durable_shared_and_strict(sqlite_engine: Engine) -> None:
    with reading(sqlite_engine) as session:
        pragma = {
            name: session.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragma == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 15000,
    }


def test_the_database_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "drydock.db"
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine)
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    engine.dispose()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "mysql://u@h/d"])
def test_a_database_that_cannot_be_shared_is_refused_with_the_way_out(url: str) -> None:
    with pytest.raises(BadDatabaseUrl, match="use sqlite:///"):
        make_engine(url)


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_postgresql_is_always_spoken_by_psycopg_3(scheme: str) -> None:
    engine = make_engine(f"{scheme}://u:secret@h/d")
    assert engine.driver == "psycopg"
    assert "secret" not in repr(engine)


def test_a_reading_session_cannot_write(engine: Engine) -> None:
    with pytest.raises(DBAPIError), reading(engine) as session:
        deliveries.record(session, new_delivery("d"))
    with writing(engine) as session:
        assert deliveries.record(session, new_delivery("d"))


def test_an_exception_rolls_everything_back(engine: Engine) -> None:
    def fail() -> None:
        with writing(engine) as session:
            runs.create(session, new_run(), T0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with reading(engine) as session:
        assert runs.recent(session) == ()


def test_a_row_that_points_nowhere_is_refused(engine: Engine) -> None:
    with pytest.raises(IntegrityError), writing(engine) as session:
        session.add(
            AttemptRow(
                run_id="none", number=1, machine_id="m", provider="p", receipt={}, started_at=T0
            )
        )


def test_a_reader_sees_one_state_while_a_writer_goes_on(sqlite_engine: Engine) -> None:
    with reading(sqlite_engine) as reader:
        assert deliveries.counts(reader)[DeliveryState.RECEIVED] == 0
        with writing(sqlite_engine) as writer:
            deliveries.record(writer, new_delivery("d"))
        assert deliveries.counts(reader)[DeliveryState.RECEIVED] == 0


def test_writers_that_read_first_wait_for_each_other_and_never_deadlock(engine: Engine) -> None:
    with writing(engine) as session:
        deliveries.record(session, new_delivery("d"))
    failures: list[BaseException] = []

    def count_up() -> None:
        try:
            for _ in range(20):
                with writing(engine) as session:
                    deliveries.counts(session)
                    deliveries.count_enqueue_failure(session, "d")
        except BaseException as error:  # noqa: BLE001 -- shown by the assertion
            failures.append(error)

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with reading(engine) as session:
        assert deliveries.enqueue_failures(session) == 80


def test_whoever_may_wait_less_is_turned_away_sooner(sqlite_engine: Engine) -> None:
    with writing(sqlite_engine):
        began = time.monotonic()
        with (
            pytest.raises(OperationalError, match="locked"),
            writing(sqlite_engine, patience_s=0.1),
        ):
            raise AssertionError("two at once")
    assert 0.1 <= time.monotonic() - began < BUSY_TIMEOUT_S
    with writing(sqlite_engine) as session:
        deliveries.record(session, new_delivery("d"))


def test_the_lock_is_asked_for_as_often_however_long_the_wait_has_been(
    sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own waiting would sleep 100 ms at a time in the end."""
    sleep, asked_again = time.sleep, threading.Semaphore(0)

    def count(seconds: float) -> None:
        assert seconds == LOCK_POLL_S
        sleep(seconds)
        asked_again.release()

    def write() -> None:
        with writing(sqlite_engine) as session:
            deliveries.record(session, new_delivery("d"))

    waiter = threading.Thread(target=write)
    with writing(sqlite_engine):
        monkeypatch.setattr(time, "sleep", count)
        waiter.start()
        for _ in range(100):
            assert asked_again.acquire(timeout=10)
        assert waiter.is_alive()
    waiter.join(10)
    assert not waiter.is_alive()


@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 1)])
def test_only_what_may_be_done_again_is_not_waited_for(
    sqlite_engine: Engine, durable: bool, synchronous: int
) -> None:
    for before in (True, False):
        with writing(sqlite_engine, durable=before):
            pass
        with writing(sqlite_engine, durable=durable) as session:
            assert session.scalar(text("PRAGMA synchronous")) == synchronous


@pytest.mark.postgresql
def test_postgresql_waits_for_its_disk_likewise(request: pytest.FixtureRequest) -> None:
    engine = make_engine(request.getfixturevalue("postgres").new_database())
    found = []
    for durable in (True, False, True):
        with writing(engine, durable=durable) as session:
            found.append(session.scalar(text("SHOW synchronous_commit")))
    assert found == ["on", "off", "on"]
    engine.dispose()


def test_a_forked_child_opens_its_own_connection(sqlite_engine: Engine) -> None:
    with reading(sqlite_engine) as session:
        session.execute(text("SELECT 1"))
    assert sqlite_engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    child = os.fork()
    if child == 0:
        os._exit(sqlite_engine.pool.checkedin())  # type: ignore[attr-defined]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sqlite_engine.pool.checkedin() == 1  # type: ignore[attr-defined]


def _open_and_close(url: str) -> None:
    engine = make_engine(url)
    with engine.connect() as connection:
        connection.execute(text("SELECT count(*) FROM runs"))
    engine.dispose()


def test_another_process_that_leaves_does_not_take_the_database_along(
    sqlite_engine: Engine,
) -> None:
    """It would, if opening a second connection dropped the locks of the first."""
    url = sqlite_engine.url.render_as_string()
    with sqlite_engine.connect() as first, sqlite_engine.connect() as second:
        for connection in (first, second):
            connection.execute(text("SELECT count(*) FROM runs"))
            connection.rollback()
        child = multiprocessing.get_context("spawn").Process(target=_open_and_close, args=(url,))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert Path(f"{sqlite_engine.url.database}-wal").exists()
    with writing(sqlite_engine) as session:
        session.execute(text("DELETE FROM runs"))
