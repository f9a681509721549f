"""The installation's database, for commands that look into it or start what does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alembic.util.exc import CommandError
from sqlalchemy import Engine, inspect
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from app.settings import Settings
from app.store import BadDatabaseUrl, make_engine, upgrade
from cli.errors import fail
from cli.places import make_state_dir

OURS = "alembic_version"


def open_engine(settings: Settings) -> Engine:
    """Open it, brought up to date. ClickException that says what to do when it cannot be had."""
    make_state_dir(settings)
    with _in_words():
        return _open(settings)


def check_database(settings: Settings) -> None:
    """Bring it up to date, for servers. One that does not answer yet is waited for by them.

    ClickException for one that will never do: of another program, or of a newer Drydock.
    """
    with _in_words():
        try:
            _open(settings).dispose()
        except OperationalError:
            return


def _open(settings: Settings) -> Engine:
    engine = make_engine(settings.effective_database_url)
    _refuse_foreign(engine)
    upgrade(engine)
    return engine


def _refuse_foreign(engine: Engine) -> None:
    """Our tables are not for another program's database."""
    tables = inspect(engine).get_table_names()
    if tables and OURS not in tables:
        shown = ", ".join(sorted(tables)[:3])
        raise fail(
            f"the database holds tables of another program ({shown}):"
            " name one of its own by DRYDOCK_DATABASE_URL"
        )


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except BadDatabaseUrl as error:
        raise fail(f"DRYDOCK_DATABASE_URL: {error}") from error
    except CommandError as error:
        raise fail(f"the database belongs to a newer version of Drydock: {error}") from error
    except OperationalError as error:
        raise fail(f"the database does not answer: {_said(error)}") from error
    except SQLAlchemyError as error:
        said = _said(error)
        raise fail(f"the database cannot be used ({said}): see DRYDOCK_DATABASE_URL") from error


def _said(error: SQLAlchemyError) -> str:
    """What the database itself said, in one line; SQLAlchemy's text would add statements."""
    return " ".join(str(getattr(error, "orig", None) or type(error).__name__).split())
