"""How a command ends when it cannot go on: one message that says what to do, and an exit status.

0 done, 1 failed, 2 wrong use, 130 after Ctrl-C. No traceback: that of a mistake of ours is written
to a file, which the message names. When nobody reads the output any more, nothing is said.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from collections.abc import Callable

import click

FAILED, INTERRUPTED = 1, 130


def fail(message: str) -> click.ClickException:
    """Return the exception to raise: click prints `Error: …` and exits with 1."""
    return click.ClickException(message)


def guarded(command: Callable[[], object]) -> int:
    """Run a command and return its exit status, having said what stood in the way."""
    try:
        status = command()
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return FAILED
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is told and not thrown
        fail(words_of(error)).show()
        return FAILED
    return status if isinstance(status, int) else 0


def words_of(error: Exception) -> str:
    """Return what an operator can act on."""
    # Late, since they are slow to import and needed only here.
    from cli.known_errors import known_words

    return known_words(error) or _words_of_host(error) or _mistake(error)


def _words_of_host(error: Exception) -> str | None:
    if not isinstance(error, OSError):
        return None
    what = error.strerror or str(error) or type(error).__name__
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    return f"{where}{what}{_HINTS.get(error.errno or 0, '')}"


_HINTS = {
    errno.EACCES: "; see who owns it",
    errno.EPERM: "; see who owns it",
    errno.EROFS: "; choose another place",
    errno.ENOSPC: "; make room there",
}


def _mistake(error: Exception) -> str:
    """Keep the traceback where it can be sent from."""
    said = f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="drydock-mistake-", suffix=".log", delete=False
        ) as file:
            traceback.print_exception(error, file=file)
    except OSError:
        return f"this is a mistake in Drydock ({said})"
    return f"this is a mistake in Drydock ({said}); please report it with {file.name}"


def _drop_output() -> None:
    """Keep Python from complaining once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
