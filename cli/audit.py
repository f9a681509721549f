"""`drydock audit`: what machines reached and what was refused; and that nobody edited it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cli.errors import fail
from cli.options import config_option, settings_or_fail
from egress.audit import verify as verify_log
from workers.git import printable

_FIRST = ("run", "kind", "target", "host", "model", "reason")
# Nothing, or no more than nothing.
_UNTOLD = (None, "", False)
_LONGEST = 2_000


@click.group()
def audit() -> None:
    """Read the audit log, and check its chain."""


@audit.command("ls")
@config_option
@click.option("--refused", is_flag=True, help="Only refusals.")
@click.option("--run", "run_id", help="Only this run.")
@click.option("--host", help="Only what has this host in its target.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def ls(
    config: Path | None, refused: bool, run_id: str | None, host: str | None, as_json: bool
) -> None:
    """List the decisions, oldest first."""
    found = False
    for entry in _entries(_log_of(config)):
        if _is_wanted(entry["record"], refused, run_id, host):
            found = True
            click.echo(json.dumps(entry) if as_json else _line(entry))
    if not found and not as_json:
        click.echo("Nothing of that kind is in the log.", err=True)


def _is_wanted(record: dict[str, Any], refused: bool, run_id: str | None, host: str | None) -> bool:
    if refused and record.get("kind") != "refused":
        return False
    if run_id is not None and record.get("run") != run_id:
        return False
    return host is None or host in f"{record.get('host', '')} {record.get('target', '')}"


@audit.command("verify")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(config: Path | None, as_json: bool) -> None:
    """Check the chain from its first record; exit status 1 names the first broken one."""
    found = verify_log(_log_of(config))
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found), default=str))
    elif found.ok:
        click.echo(f"The chain holds: {found.head.seq} records.")
    if not found.ok:
        raise fail(found.reason)


def _log_of(config: Path | None) -> Path:
    path = settings_or_fail(config).state_dir / "audit.jsonl"
    if not path.is_file():
        raise fail(f"there is no audit log at {path} yet: it begins with the first run")
    return path


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            entry = _entry(line)
            if entry is None:
                click.echo(f"line {number} is no record; see `drydock audit verify`", err=True)
            else:
                yield entry


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(entry, dict) and isinstance(entry.get("record"), dict)
    return entry if whole and isinstance(entry.get("time"), int | float) else None


def _line(entry: dict[str, Any]) -> str:
    """When, which run, what happened, to what, and then whatever else is known of it."""
    at, record = datetime.fromtimestamp(entry["time"], UTC), dict(entry["record"])
    first = [str(record.pop(name)) for name in _FIRST if record.get(name)]
    rest = [f"{key}={value}" for key, value in sorted(record.items()) if value not in _UNTOLD]
    return printable("  ".join([f"{at:%Y-%m-%d %H:%M:%S}", *first, *rest]), _LONGEST)
