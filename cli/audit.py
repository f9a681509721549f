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
    for entry in _entries(_log_of(config)):
        record = entry.get("record", {})
        if refused and record.get("kind") != "refused":
            continue
        if run_id is not None and record.get("run") != run_id:
            continue
        if host is not None and host not in f"{record.get('host', '')} {record.get('target', '')}":
            continue
        click.echo(json.dumps(entry) if as_json else _line(entry))


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
    at = datetime.fromtimestamp(entry["time"], UTC)
    return f"{at:%Y-%m-%d %H:%M:%S} {json.dumps(entry.get('record', entry), sort_keys=True)}"
