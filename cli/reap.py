"""`drydock reap`: clear what dead runs left on this host."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from app.store import reading, runs
from cli.database import open_engine
from cli.errors import fail
from cli.options import config_option, settings_or_fail
from sandbox.provider import MachineInfo, Provider, ProviderFailed
from sandbox.providers import make_provider


@click.command()
@config_option
@click.option(
    "--all", "everything", is_flag=True, help="Also machines of runs under way, and waiting ones."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be cleared.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reap(config: Path | None, everything: bool, dry_run: bool, as_json: bool) -> None:
    """Kill machines that no run owns, and clear their files.

    The worker does the same every few seconds; this is for when none runs.
    """
    settings = settings_or_fail(config)
    with reading(open_engine(settings)) as session:
        driven = {run.id for run in runs.active(session) if run.lease_owner is not None}
    try:
        provider = make_provider(settings.provider, settings.state_dir, settings.qemu_accel)
        found = [m for m in provider.list() if everything or not (m.waits or m.run_id in driven)]
        if not dry_run:
            _reap(provider, found)
    except ProviderFailed as error:
        raise fail(str(error)) from error
    _print(found, dry_run, as_json)


def _reap(provider: Provider, found: list[MachineInfo]) -> None:
    for run_id in dict.fromkeys(machine.run_id for machine in found):
        provider.reap(run_id)


def _print(found: list[MachineInfo], dry_run: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(machine) for machine in found], indent=2))
        return
    word = "would be cleared" if dry_run else "cleared"
    for machine in found:
        state = "alive" if machine.alive else "dead"
        click.echo(f"{machine.id} of run {machine.run_id} ({machine.provider}, {state}): {word}")
    if not found:
        click.echo("Nothing to clear.")
