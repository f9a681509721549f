"""Tables on a terminal, and where none is."""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType

_ANY_WIDTH = 1_000


def print_table(table: RenderableType) -> None:
    """Print to standard output; what a pipe or a file gets is searched, so nothing is cut there."""
    console = Console() if sys.stdout.isatty() else Console(width=_ANY_WIDTH)
    console.print(table)
