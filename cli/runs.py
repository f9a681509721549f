"""`drydock runs`: what is queued, under way and done, from the database."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text
from sqlalchemy import Engine

from app.store import Run, reading
from app.store import runs as store
from cli.database import open_engine
from cli.errors import fail
from cli.options import config_option, settings_or_fail
from cli.tables import print_table
from cli.verify import check_statement, find_statement, statement_lines, trusted_key

file_path = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def runs() -> None:
    """List runs, and show one."""


@runs.command("ls")
@config_option
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ls(config: Path | None, limit: int, as_json: bool) -> None:
    """List the newest runs first."""
    with reading(open_store(config)) as session:
        found = store.recent(session, limit)
    if as_json:
        click.echo(json.dumps([run_json(run) for run in found], indent=2))
    elif not found:
        click.echo("No runs yet. Label an issue to start one.")
    else:
        print_table(_table(found))


@runs.command("show")
@click.argument("run_id")
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(run_id: str, config: Path | None, as_json: bool) -> None:
    """Show one run with its log. The beginning of RUN_ID or its end will do, if it names one."""
    with reading(open_store(config)) as session:
        found = store.named(session, run_id)
        entries = store.log_entries(session, found[0].id) if found else ()
    if len(found) != 1:
        words = f"more than one run is named by {run_id}" if found else f"there is no run {run_id}"
        raise fail(f"{words}; `drydock runs ls` lists them")
    (run,) = found
    if as_json:
        lines = [_plain(dataclasses.asdict(entry)) for entry in entries]
        click.echo(json.dumps({**run_json(run), "log": lines}, indent=2))
        return
    for name, value in run_json(run).items():
        if isinstance(value, str | int | float) and value != "" and "\n" not in str(value):
            click.echo(f"{name}: {value}")
    for entry in entries:
        click.echo(f"{entry.at:%H:%M:%S} {entry.kind}: {entry.text}")


@runs.command("verify")
@click.argument("sha")
@config_option
@click.option("--key", type=file_path, help="A public key (PEM).")
@click.option("--file", type=file_path, help="The signed statement.")
@click.option("--json", "as_json", is_flag=True, help="Print the statement as JSON.")
def verify(
    sha: str, config: Path | None, key: Path | None, file: Path | None, as_json: bool
) -> None:
    """Check where commit SHA came from, by its signed statement.

    The statement is this host's own, or the one in FILE as it was copied from the check run; the
    key is the operator's, or the one given.
    """
    settings = settings_or_fail(config)
    envelope = file or find_statement(settings, sha)
    found = check_statement(envelope, sha, trusted_key(settings, key))
    if as_json:
        click.echo(json.dumps(found.statement, indent=2))
        return
    for line in statement_lines(found):
        click.echo(line)


def open_store(config: Path | None) -> Engine:
    """Open the database of these settings, brought up to date."""
    return open_engine(settings_or_fail(config))


def run_json(run: Run) -> dict[str, Any]:
    """Return all of a run as JSON values."""
    plain: dict[str, Any] = _plain(dataclasses.asdict(run))
    return plain


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _table(found: tuple[Run, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "state", "issue", "asked by", "seconds", "cost", "pull request"):
        table.add_column(heading, overflow="fold", min_width=26 if heading == "run" else None)
    for run in found:
        table.add_row(*(Text(cell) for cell in _cells(run)))
    return table


def _cells(run: Run) -> tuple[str, ...]:
    state = f"{run.state} ({run.failure_kind})" if run.failure_kind else str(run.state)
    cost = "?" if run.cost_usd is None else f"${run.cost_usd:.4f}"
    return (
        run.id,
        state,
        f"{run.repo}#{run.issue_number}",
        run.asked_by,
        f"{sum(run.seconds_by_phase.values()):.0f}",
        cost,
        f"#{run.pull_number}" if run.pull_number else "",
    )
