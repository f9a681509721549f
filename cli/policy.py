"""`drydock policy`: what a run may reach, without starting anything."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.config_limits import limits_of, parse_within
from app.repo_config import CONFIG_PATH, ConfigError, RepoConfig
from app.settings import Settings, SettingsError
from cli.errors import fail
from cli.options import config_option, settings_or_fail
from cli.tables import print_table
from egress.dial import system_resolve
from egress.hosts import DEFAULT_PORTS
from egress.policy import (
    Decision,
    Grant,
    GrantKind,
    Manifest,
    Phase,
    decide_addresses,
    decide_connect,
    decide_plain,
    grant_facts,
    manifest_hash,
)
from sandbox.provider import ProviderFailed
from sandbox.providers import make_provider
from workers.caps import repository_cap
from workers.grants import narrow, operator_egress
from workers.manifest import Bounds, caps_by_settings, make_manifest
from workers.model import choose_model
from workers.policies import dock_limits
from workers.services import find_template, template_names

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
repo_config_option = click.option(
    "--repo-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"The repository's {CONFIG_PATH}; without one, the most that any repository gets.",
)
model_option = click.option("--model", help="One of the operator's models; the default if not set.")


@dataclass(frozen=True)
class Shown:
    """A manifest, and what the operator should know about it."""

    manifest: Manifest
    notes: tuple[str, ...]


@click.group()
def policy() -> None:
    """Show what runs may reach, and ask about one address."""


@policy.command("show")
@config_option
@repo_config_option
@model_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("repository", metavar="OWNER/REPO")
def show(
    config: Path | None, repo_config: Path | None, model: str | None, as_json: bool, repository: str
) -> None:
    """Print the manifest of a run on OWNER/REPO; its hash is what the pull request shows."""
    if not _REPOSITORY.fullmatch(repository):
        raise click.UsageError("name a repository as OWNER/REPO")
    shown = read_manifest(settings_or_fail(config), repo_config, model)
    if as_json:
        click.echo(json.dumps(as_values(repository, shown), indent=2))
    else:
        _print(repository, shown)


@policy.command("check")
@config_option
@repo_config_option
@click.option("--phase", type=click.Choice([each.value for each in Phase]), help="Only this phase.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("url")
@click.argument("method", default="GET")
@click.pass_context
def check(
    ctx: click.Context,
    config: Path | None,
    repo_config: Path | None,
    phase: str | None,
    as_json: bool,
    url: str,
    method: str,
) -> None:
    """Say whether a run may reach URL, by phase, and why. Exit status 1 if in none."""
    if urlsplit(url).scheme not in DEFAULT_PORTS:
        raise click.UsageError(f"name an address with its scheme: https://{url}")
    manifest = read_manifest(settings_or_fail(config), repo_config, None).manifest
    phases = [Phase(phase)] if phase else list(Phase)
    answers = {each: decide_url(manifest, each, url, method.upper()) for each in phases}
    if as_json:
        values = {p: {"allowed": d.allowed, "reason": d.reason} for p, d in answers.items()}
        click.echo(json.dumps(values, indent=2))
    else:
        for each, decision in answers.items():
            click.echo(f"{each}: {'allowed' if decision.allowed else 'refused'}: {decision.reason}")
    ctx.exit(0 if any(decision.allowed for decision in answers.values()) else 1)


def read_manifest(settings: Settings, repo_config: Path | None, model: str | None) -> Shown:
    """Put a run's manifest together from the settings and a repository's config."""
    said = _said(settings, repo_config)
    try:
        template = find_template(settings, said.template)
        choice = choose_model(settings, template.path / "prices.json", model or said.model)
        provider = make_provider(settings.provider, settings.state_dir, settings.qemu_accel)
        egress = operator_egress(settings, template.path / "rootfs")
    except (SettingsError, ProviderFailed) as error:
        raise fail(str(error)) from error
    narrowed = narrow(egress, said.egress)
    if isinstance(narrowed, str):
        raise fail(narrowed)
    own, *shared = caps_by_settings(settings, choice)
    bounds = Bounds(
        template_digest=template.digest,
        tier=provider.name,
        ttl_s=dock_limits(settings, said).ttl_s,
        caps=(own, *repository_cap(said), *shared),
    )
    return Shown(make_manifest("", choice, narrowed, bounds), narrowed.troubles)


def decide_url(manifest: Manifest, phase: Phase, url: str, method: str) -> Decision:
    """Decide as the broker would for a tool that was given this address; resolves the host."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError as error:
        return Decision(False, f"{url!r} is no address: {error}")
    host = parts.hostname or ""
    if parts.scheme not in DEFAULT_PORTS or not host:
        return Decision(False, "only http:// and https:// can be reached")
    if parts.scheme == "https":
        decision = decide_connect(manifest, phase, host, port)
    else:
        decision = decide_plain(manifest, phase, method, host, port, parts.path or "/")
    if decision.allowed and decision.grant is not None:
        return _by_addresses(decision.grant, host, port)
    return _by_route(manifest, host, decision)


def _by_addresses(grant: Grant, host: str, port: int) -> Decision:
    try:
        addresses = system_resolve(host, port)
    except OSError:
        return Decision(True, f"{grant.reason or 'granted'} ({host} is not known here)", grant)
    return decide_addresses(grant, host, addresses)


def _by_route(manifest: Manifest, host: str, refused: Decision) -> Decision:
    """A model's server is granted as a route, never as a tunnel: say so."""
    routes = [g for g in manifest.grants if g.kind is GrantKind.MODEL_ROUTE and g.host == host]
    if not routes:
        return refused
    return Decision(False, f"{host} is reached through the model route {routes[0].name!r} alone")


def _said(settings: Settings, repo_config: Path | None) -> RepoConfig:
    """Return what a repository says, within the operator's limits; the defaults without a file."""
    data = repo_config.read_bytes() if repo_config is not None else None
    parsed = parse_within(data, limits_of(settings, template_names(settings)))
    if isinstance(parsed, ConfigError):
        where = f", line {parsed.line}" if parsed.line else ""
        raise fail(f"{repo_config}{where}: {parsed.reason}")
    return parsed


def as_values(repository: str, shown: Shown) -> dict[str, Any]:
    """Return the manifest as JSON values, grants by phase."""
    by_phase: dict[str, list[dict[str, object]]] = {}
    for phase in Phase:
        grants = [grant for grant in shown.manifest.grants if phase in grant.phases]
        by_phase[phase] = [{**grant_facts(grant), "reason": grant.reason} for grant in grants]
    return {
        "repository": repository,
        "sha256": manifest_hash(shown.manifest),
        "grants": by_phase,
        "terms": dict(shown.manifest.terms),
        "notes": list(shown.notes),
    }


def _print(repository: str, shown: Shown) -> None:
    console = Console()
    console.print(Text(f"A run on {repository} may reach:"))
    print_table(_grant_table(shown.manifest))
    for name, value in (*shown.manifest.terms, ("sha256", manifest_hash(shown.manifest))):
        line = Text(f"{name:18}", style="bold")
        console.print(line.append(value, style="default"), soft_wrap=True)
    for note in shown.notes:
        console.print(Text(f"note: {note}", style="yellow"), soft_wrap=True)


def _grant_table(manifest: Manifest) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("phase", "grant", "where", "methods", "credential", "why"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "where")
    for phase in Phase:
        for grant in manifest.grants:
            if phase in grant.phases:
                table.add_row(*(Text(cell) for cell in _cells(phase, grant)))
    return table


def _cells(phase: Phase, grant: Grant) -> tuple[str, ...]:
    path = "" if grant.path_prefix == "/" else grant.path_prefix
    return (
        phase,
        grant.name,
        f"{grant.scheme}://{grant.host}:{grant.port}{path}"
        + (" (may be private)" if grant.private else ""),
        " ".join(sorted(grant.methods)),
        grant.credential or "",
        grant.reason,
    )
