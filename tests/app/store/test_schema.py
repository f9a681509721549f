from __future__ import annotations

import multiprocessing
from dataclasses import fields

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect

from app.store import make_engine, upgrade
from app.store.models import AttemptRow, Base, DeliveryRow, LogRow, RunRow, WorkerRow
from app.store.schema import _config, is_current
from app.store.values import Attempt, Delivery, LogEntry, NewRun, Run, RunFields, Worker


def test_the_migrations_make_exactly_the_tables_of_the_models(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_the_migrations_name_the_constraints_as_the_models_do(
    engine: Engine,
) -> None:
    found = {c["name"] for c in inspect(engine).get_check_constraints("runs")}
    assert found == {"ck_runs_ended_at_follows_state"}


def test_upgrading_again_does_nothing(engine: Engine) -> None:
    upgrade(engine)
    with engine.connect() as connection:
        assert is_current(connection)


def test_an_empty_database_is_not_current(database_url: str) -> None:
    engine = make_engine(database_url)
    with engine.connect() as connection:
        assert not is_current(connection)
    engine.dispose()


def test_the_migrations_can_be_taken_back(engine: Engine) -> None:
    with engine.begin() as connection:
        command.downgrade(_config(connection), "base")
    assert inspect(engine).get_table_names() == ["alembic_version"]


def _upgrade_in_child(url: str, barrier: object) -> None:
    engine = make_engine(url)
    barrier.wait(30)  # type: ignore[attr-defined]
    upgrade(engine)


def test_processes_that_start_at_once_do_not_collide(database_url: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(3)
    children = [
        spawn.Process(target=_upgrade_in_child, args=(database_url, barrier)) for _ in range(3)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0, 0]
    engine = make_engine(database_url)
    with engine.connect() as connection:
        assert is_current(connection)
    engine.dispose()


@pytest.mark.parametrize(
    ("row", "value"),
    [
        (DeliveryRow, Delivery),
        (RunRow, Run),
        (AttemptRow, Attempt),
        (LogRow, LogEntry),
        (WorkerRow, Worker),
    ],
)
def test_a_value_has_the_fields_of_its_table(row: type[Base], value: type) -> None:
    assert {f.name for f in fields(value)} == set(row.__table__.columns.keys())


def test_new_runs_and_writable_fields_are_columns_of_a_run() -> None:
    columns = set(RunRow.__table__.columns.keys())
    assert {f.name for f in fields(NewRun)} <= columns
    assert set(RunFields.__annotations__) <= columns
