"""How a command ends when it cannot go on: one message in words, exit status 1."""

from __future__ import annotations

import click


def fail(message: str) -> click.ClickException:
    """Return the exception to raise: click prints `Error: …` and exits with 1."""
    return click.ClickException(message)
