"""Bringing a database to the present schema, from any process, at any time."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from app.store.engine import lock_for_transaction

_MIGRATIONS = Path(__file__).parent / "migrations"
_UPGRADE_LOCK = 0x44_52_59_01


def upgrade(engine: Engine) -> None:
    """Apply every missing migration in one transaction; nothing when there is none.

    Processes that start at once wait for each other: the first migrates, the rest find it done.
    A database that is newer than this code raises `alembic.util.CommandError`.
    """
    with engine.begin() as connection:
        lock_for_transaction(connection, _UPGRADE_LOCK)
        command.upgrade(_config(connection), "head")


def is_current(connection: Connection) -> bool:
    """Tell whether the database has exactly the schema that this code expects."""
    found = MigrationContext.configure(connection).get_current_heads()
    return set(found) == set(ScriptDirectory.from_config(_config(connection)).get_heads())


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
