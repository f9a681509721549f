"""The issue that `drydock try` works on: a text file, or what is piped in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import click

from cli.errors import fail

MAX_ISSUE_BYTES = 256 * 1024
STANDARD_INPUT = Path("-")


def read_issue(path: Path) -> tuple[str, str]:
    """Return title and body: the first line with words, without its `#`, and all after it.

    `-` is standard input. ClickException with what to do about anything else than text.
    """
    name = "standard input" if path == STANDARD_INPUT else str(path)
    try:
        data = _read(path)
    except OSError as error:
        raise fail(f"cannot read the issue from {name}: {error.strerror}") from error
    if len(data) > MAX_ISSUE_BYTES:
        raise fail(f"{name} is longer than {MAX_ISSUE_BYTES // 1024} KiB: shorten the issue")
    if b"\0" in data:
        raise fail(f"{name} is not a text file: write the issue as Markdown in UTF-8")
    lines = data.decode("utf-8-sig", "replace").splitlines()
    for number, line in enumerate(lines):
        title = line.lstrip("#").strip()
        if title:
            return title, "\n".join(lines[number + 1 :]).strip()
    raise fail(f"{name} says nothing: its first line is the title of the issue")


def _read(path: Path) -> bytes:
    if path != STANDARD_INPUT:
        with path.open("rb") as file:
            return _bounded(file)
    if sys.stdin.isatty():
        click.echo("Write the issue, its title first; end with Ctrl-D.", err=True)
    return _bounded(sys.stdin.buffer)


def _bounded(file: BinaryIO) -> bytes:
    return file.read(MAX_ISSUE_BYTES + 1)
