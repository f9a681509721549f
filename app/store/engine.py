"""Database engines and transactions.

SQLite runs in WAL mode. Every writing transaction begins with `BEGIN IMMEDIATE`: a transaction
that starts as a reader and writes later fails at once when another process wrote in between
(SQLITE_BUSY_SNAPSHOT, https://www.sqlite.org/isolation.html), while one that takes the write lock
first simply waits its turn. So two processes never deadlock, and a writer may decide from what it
reads. `synchronous=FULL`, because an answered delivery must survive a power cut.

The waiting is ours: SQLite sleeps longer after each vain try, up to 100 ms, so that under load
whoever has waited longest is the least likely to come in
(`sqliteDefaultBusyCallback` in https://www.sqlite.org/src/file/src/main.c).

PostgreSQL runs at READ COMMITTED; what must not interleave there takes an advisory lock.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.orm import Session
from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_S = 15.0
# A write transaction lasts about as long.
LOCK_POLL_S = 0.001
_READ_ONLY = "drydock_read_only"
_PATIENCE = "drydock_patience_s"
_HASTY = "drydock_hasty"
_USUAL_TIMEOUT = "drydock_busy_timeout_ms"


class BadDatabaseUrl(ValueError):
    """The database URL cannot be used; the text says why and what to write instead."""


def make_engine(url: str | URL, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Return an engine for `url` (SQLite file or PostgreSQL). BadDatabaseUrl for anything else.

    Nothing is connected yet. The engine drops its connections in a forked child by itself.
    On SQLite a transaction waits `busy_timeout_s` for another writer and then fails.
    """
    parsed = _parse(url)
    engine = (
        _sqlite(parsed, busy_timeout_s)
        if parsed.get_backend_name() == "sqlite"
        else _postgresql(parsed)
    )
    event.listen(engine, "begin", _begin)
    engine.update_execution_options(**{_PATIENCE: busy_timeout_s})
    _forget_connections_after_fork(engine)
    return engine


@contextmanager
def writing(
    engine: Engine, *, patience_s: float | None = None, durable: bool = True
) -> Iterator[Session]:
    """Yield a session in one transaction: committed at the end, rolled back on an exception.

    On SQLite `patience_s` is how long to wait for another writer, if not as long as the engine's,
    and without `durable` a power cut may take back the last commits, in whole and in order. That is
    for what is then merely done again; it saves waiting for the disk.
    """
    options: dict[str, Any] = {} if durable else {_HASTY: True}
    if patience_s is not None:
        options[_PATIENCE] = patience_s
    with Session(engine, expire_on_commit=False) as session, session.begin():
        # Without this the transaction would begin with the first statement.
        session.connection(execution_options=options)
        yield session


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Yield a session that sees one state of the database and cannot write.

    Readers do not wait for writers; an attempt to write raises `sqlalchemy.exc.DBAPIError`.
    """
    with Session(engine.execution_options(**{_READ_ONLY: True})) as session, session.begin():
        yield session


def patience_of(engine: Engine) -> float:
    """Return how long the engine's transactions wait for another writer, in seconds."""
    return float(engine.get_execution_options().get(_PATIENCE, BUSY_TIMEOUT_S))


def lock_for_transaction(connection: Connection, key: int) -> None:
    """Let nobody else who asks for `key` in until this transaction ends.

    On SQLite a writing transaction excludes every other writer already.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def _parse(url: str | URL) -> URL:
    parsed = make_url(url)
    backend = parsed.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise BadDatabaseUrl(f"{backend} is not supported: use sqlite:///… or postgresql://…")
    if parsed.database in (None, "", ":memory:") or "mode=memory" in str(parsed.query):
        raise BadDatabaseUrl("a database in memory is not shared: use sqlite:///path/to/file.db")
    return parsed


def _postgresql(url: URL) -> Engine:
    return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 5})


def _sqlite(url: URL, busy_timeout_s: float) -> Engine:
    engine = create_engine(url, connect_args={"timeout": busy_timeout_s})
    path = Path(str(url.database))
    event.listen(engine, "do_connect", lambda *_: _create_private(path))
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _create_private(path: Path) -> None:
    """Create the file readable by its owner alone: it holds issues of private repositories.

    SQLite gives its `-wal` and `-shm` files the same mode. A file that exists must not even be
    opened: closing it again would drop every lock that this process holds on it, and another
    process would take the database for its own (https://www.sqlite.org/howtocorrupt.html, 2.2).
    """
    # Where it cannot be created, SQLite fails too, with the error that callers expect.
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _prepare_sqlite(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
    # The driver must not begin transactions by itself: `_begin` does, and says how.
    connection.isolation_level = None
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    (record.info[_USUAL_TIMEOUT],) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA foreign_keys=ON")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Turn WAL on. SQLite does not honour the busy timeout here, hence the loop."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    read_only = bool(options.get(_READ_ONLY, False))
    if connection.dialect.name == "sqlite":
        _set(connection, "query_only", int(read_only))
        if read_only:
            connection.exec_driver_sql("BEGIN")
        else:
            # In WAL mode 1 leaves the disk to the next checkpoint; https://www.sqlite.org/wal.html
            _set(connection, "synchronous", 1 if options.get(_HASTY) else 2)
            _begin_writing(connection, options.get(_PATIENCE, BUSY_TIMEOUT_S))
    elif read_only:
        connection.exec_driver_sql("SET TRANSACTION READ ONLY")
    elif options.get(_HASTY):
        connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")


def _set(connection: Connection, pragma: str, value: int) -> None:
    """Set a pragma of this one connection, where it is not so already."""
    if connection.info.get(pragma) != value:
        connection.exec_driver_sql(f"PRAGMA {pragma}={value}")
        connection.info[pragma] = value


def _begin_writing(connection: Connection, patience_s: float) -> None:
    """Take SQLite's write lock, asking for it every millisecond. OperationalError in the end."""
    deadline = time.monotonic() + patience_s
    with _no_waiting_of_its_own(connection):
        while time.monotonic() <= deadline:
            if _began(connection):
                return
            time.sleep(LOCK_POLL_S)
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _began(connection: Connection) -> bool:
    """Try once. False while somebody else writes; other trouble is raised as SQLAlchemy does."""
    try:
        _driver(connection).execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return False
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    return True


@contextmanager
def _no_waiting_of_its_own(connection: Connection) -> Iterator[None]:
    driver = _driver(connection)
    driver.execute("PRAGMA busy_timeout=0")
    try:
        yield
    finally:
        driver.execute(f"PRAGMA busy_timeout={connection.info[_USUAL_TIMEOUT]}")


def _driver(connection: Connection) -> sqlite3.Connection:
    # SQLAlchemy knows its drivers only by what they have in common.
    driver: Any = connection.connection.dbapi_connection
    if not isinstance(driver, sqlite3.Connection):
        raise TypeError("this connection is not SQLite's")
    return driver


def _forget_connections_after_fork(engine: Engine) -> None:
    """A connection shared with the parent would corrupt both; the child opens its own."""
    reference = weakref.ref(engine)

    def forget() -> None:
        alive = reference()
        if alive is not None:
            alive.dispose(close=False)

    os.register_at_fork(after_in_child=forget)
