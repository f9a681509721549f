"""`drydock doctor`: is this host ready, and does the boundary hold when it is attacked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from app.settings import Settings, SettingsError
from cli.boundary.selftest import Attempt, attack_provider
from cli.checks import Finding, Level, check_host
from cli.errors import fail
from cli.options import config_option, settings_or_fail
from sandbox.provider import ProviderFailed
from sandbox.providers import make_provider
from workers.services import find_template

_STYLES = {Level.OK: "green", Level.NOTE: "yellow", Level.FAIL: "red"}


@click.command()
@config_option
@click.option("--provider", help="Attack machines of this provider; the one in use if not set.")
@click.option("--host-only", is_flag=True, help="Leave the boundary self-test out.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(
    ctx: click.Context, config: Path | None, provider: str | None, host_only: bool, as_json: bool
) -> None:
    """Check this host, then boot a machine and attack its boundary from inside.

    Each finding comes with what mends it; each attack is printed as held or OPEN. Exit status 1
    when something is missing that runs need, or any attack was not held.
    """
    settings = settings_or_fail(config)
    console = Console(quiet=as_json)
    findings = []
    for finding in check_host(settings):
        _print_finding(console, finding)
        findings.append(finding)
    tier = ""
    attempts: tuple[Attempt, ...] = ()
    if not host_only:
        tier, attempts = _attack(settings, provider, console)
    if as_json:
        click.echo(json.dumps(as_values(findings, tier, attempts), indent=2))
    failed = any(each.level is Level.FAIL for each in findings)
    ctx.exit(1 if failed or not all(each.held for each in attempts) else 0)


def _attack(
    settings: Settings, name: str | None, console: Console
) -> tuple[str, tuple[Attempt, ...]]:
    try:
        provider = make_provider(name or settings.provider, settings.state_dir)
        template = find_template(settings)
        console.print(Text(f"\nAttacking a {provider.name} machine from inside:", style="bold"))
        attempts = attack_provider(provider, template, lambda each: _print_attempt(console, each))
    except (ProviderFailed, SettingsError, ValueError) as error:
        raise fail(f"the boundary cannot be tested: {error}") from error
    held = sum(each.held for each in attempts)
    console.print(Text(f"{held} of {len(attempts)} attacks held.", style="bold"))
    return provider.name, attempts


def as_values(
    findings: list[Finding], tier: str, attempts: tuple[Attempt, ...]
) -> dict[str, object]:
    return {
        "host": [dataclasses.asdict(each) for each in findings],
        "tier": tier,
        "boundary": [dataclasses.asdict(each) for each in attempts],
        "open": [each.title for each in attempts if not each.held],
    }


def _print_finding(console: Console, finding: Finding) -> None:
    line = Text(f"{finding.level:4}  ", style=_STYLES[finding.level])
    line.append(f"{finding.name}: {finding.text}", style="default")
    console.print(line, soft_wrap=True)
    if finding.mend:
        console.print(Text(f"      → {finding.mend}"), soft_wrap=True)


def _print_attempt(console: Console, attempt: Attempt) -> None:
    line = Text("held  " if attempt.held else "OPEN  ", style="green" if attempt.held else "red")
    line.append(attempt.title, style="default")
    if not attempt.held:
        shown = "".join(each if each.isprintable() else " " for each in attempt.detail)
        line.append(f": {shown}", style="red")
    console.print(line, soft_wrap=True)
