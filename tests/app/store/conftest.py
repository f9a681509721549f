"""Databases for the store's tests: a SQLite file, and a PostgreSQL server where it is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from app.store import make_engine, upgrade


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "postgresql: needs PostgreSQL's server programs")


class Postgres:
    """A private server on a unix socket, owned by an unprivileged user as it insists."""

    _OPTIONS = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60")

    def __init__(self, bin_dir: Path) -> None:
        self._bin = bin_dir
        self.root = Path(tempfile.mkdtemp(prefix="drydock-pg-"))
        self._user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        shutil.chown(self.root, self._user)
        self._switch_to = self._user if os.geteuid() == 0 else None
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        data = self.root / "data"
        self._run("initdb", "-D", str(data), "-U", "drydock", "-A", "trust", "-N", "-E", "UTF8")
        self._server = subprocess.Popen(
            [self._bin / "postgres", "-D", data, "-k", self.root, *self._OPTIONS],
            cwd=self.root,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stderr=subprocess.DEVNULL,
            user=self._switch_to,
        )
        self._wait()

    def stop(self) -> None:
        if self._server is not None:
            # SIGINT is the fast shutdown; SIGTERM would wait for every client to leave.
            self._server.send_signal(signal.SIGINT)
            self._server.wait(30)
        shutil.rmtree(self.root)

    def new_database(self, template: str = "template1") -> str:
        name = f"t{uuid.uuid4().hex}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self._url(name)

    def drop_database(self, url: str) -> None:
        self._execute(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    def _url(self, name: str) -> str:
        return f"postgresql://drydock@/{name}?host={self.root}"

    def _execute(self, statement: str) -> None:
        admin = create_engine(
            self._url("postgres").replace("postgresql:", "postgresql+psycopg:"),
            isolation_level="AUTOCOMMIT",
        )
        with admin.connect() as connection:
            connection.execute(text(statement))
        admin.dispose()

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                return self._execute("SELECT 1")
            except OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _run(self, program: str, *args: str) -> None:
        subprocess.run(
            [self._bin / program, *args],
            cwd=self.root,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            check=True,
            capture_output=True,
            user=self._switch_to,
        )


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        pytest.skip("PostgreSQL's server programs are not installed")
    server = Postgres(found[-1].parent)
    try:
        server.start()
        yield server
    finally:
        server.stop()


_BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(params=_BOTH)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/drydock.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.new_database()
    yield url
    server.drop_database(url)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy: migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("migrated") / "drydock.db"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_database(postgres: Postgres) -> str:
    """The name of a migrated PostgreSQL database to copy."""
    url = postgres.new_database()
    _migrate(url)
    return str(make_url(url).database)


def _migrate(url: str) -> None:
    engine = make_engine(url)
    upgrade(engine)
    engine.dispose()


@pytest.fixture(params=_BOTH)
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        path = tmp_path / "migrated.db"
        shutil.copy(request.getfixturevalue("migrated_file"), path)
        yield f"sqlite:///{path}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    url = server.new_database(request.getfixturevalue("migrated_database"))
    yield url
    server.drop_database(url)


@pytest.fixture
def engine(migrated_url: str) -> Iterator[Engine]:
    """A migrated database."""
    made = make_engine(migrated_url)
    yield made
    made.dispose()


@pytest.fixture
def sqlite_engine(tmp_path: Path, migrated_file: Path) -> Iterator[Engine]:
    path = tmp_path / "only.db"
    shutil.copy(migrated_file, path)
    made = make_engine(f"sqlite:///{path}")
    yield made
    made.dispose()
