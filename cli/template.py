"""`drydock template`: bake, list, show and remove the images that machines start from."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import platformdirs
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from app.settings import SettingsError, load_settings
from cli.tables import print_table
from sandbox.provider import ProviderFailed, Template
from sandbox.template.bake import BakeFailed, BakeProgress, bake
from sandbox.template.definition import (
    Definition,
    DefinitionError,
    builtin_names,
    load_builtin,
    load_definition,
)
from sandbox.template.host import HostError
from sandbox.template.store import (
    TemplateInfo,
    TemplateInUse,
    TemplateNotFound,
    TemplateStore,
    VmPart,
)

DAY_S = 86400.0

_json_option = click.option("--json", "as_json", is_flag=True, help="Print facts as JSON.")


@click.group("template")
@click.option(
    "--state-dir",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="DRYDOCK_STATE_DIR",
    default=lambda: platformdirs.user_state_path("drydock"),
    show_default="the platform's user state directory",
    help="Where templates, mirrors, run logs and the audit are kept.",
)
@click.option(
    "--ca-bundle",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="DRYDOCK_CA_BUNDLE",
    help="PEM file of certificates that machines trust besides the system's.",
)
@click.pass_context
def template(context: click.Context, state_dir: Path, ca_bundle: Path | None) -> None:
    """Images that machines start from: baked once, named by what made them."""
    context.obj = TemplateStore(state_dir.absolute(), ca_bundle=ca_bundle)


@template.command("bake")
@click.argument("definition", default="default")
@click.option("--qemu", is_flag=True, help="Also what virtual machines start from; tries KVM.")
@_json_option
@click.pass_obj
def bake_command(store: TemplateStore, definition: str, qemu: bool, as_json: bool) -> None:
    """Bake DEFINITION, a built-in name or a .toml file, unless it is there already."""
    with _clear_errors(), _progress() as progress:
        made = bake(_load(definition), store, progress)
        if qemu:
            from cli.warming import prepare_machines

            settings = load_settings().model_copy(update={"state_dir": store.state_dir})
            progress(BakeProgress(prepare_machines(settings, progress, made), 0.0))
    if as_json:
        _print_json(_facts(store, store.lookup(made.digest)))
    else:
        click.echo(_baked(made))


@template.command("list")
@_json_option
@click.pass_obj
def list_command(store: TemplateStore, as_json: bool) -> None:
    """List the baked templates, the newest first."""
    with _clear_errors():
        infos = store.list()
        virtual = {info.digest: store.vm_parts(info.digest) for info in infos}
    if as_json:
        _print_json([_facts(store, info) for info in infos])
    elif infos:
        print_table(_table(infos, virtual))
    else:
        click.echo(f"no template below {store.root}; `drydock template bake` makes one")


@template.command("show")
@click.argument("reference", default="default")
@_json_option
@click.pass_obj
def show_command(store: TemplateStore, reference: str, as_json: bool) -> None:
    """Show one template, by name, digest, or the first digits of it."""
    with _clear_errors():
        info = store.lookup(reference)
        facts = _facts(store, info)
    if as_json:
        _print_json(facts)
        return
    for key, value in sorted(facts.items()):
        shown = json.dumps(value) if isinstance(value, dict | list) else value
        click.echo(f"{key}: {shown}")


@template.command("rm")
@click.argument("references", nargs=-1)
@click.option("--stale", is_flag=True, help="Remove every template that is no longer current.")
@click.option(
    "--idle-days",
    type=click.FloatRange(min=0),
    help="Remove the warm virtual machines that nothing was started from for so long.",
)
@_json_option
@click.pass_obj
def rm_command(
    store: TemplateStore,
    references: tuple[str, ...],
    stale: bool,
    idle_days: float | None,
    as_json: bool,
) -> None:
    """Remove templates, and the base layers that nothing was made from any more.

    Removing the last one and baking again takes the distribution's updates in.
    """
    if not references and not stale and idle_days is None:
        raise click.UsageError("name a template, or pass --stale or --idle-days")
    with _clear_errors():
        if stale:
            references += tuple(info.digest for info in store.list() if not info.current)
        removed = [_removed(store, reference, as_json) for reference in references]
        if idle_days is not None:
            removed += _prune(store, idle_days, as_json)
    if as_json:
        _print_json(removed)


def _prune(store: TemplateStore, idle_days: float, quiet: bool) -> list[dict[str, Any]]:
    parts = store.prune_machines(time.time() - idle_days * DAY_S)
    for part in () if quiet else parts:
        click.echo(f"removed a warm machine, {_size(part.size_bytes)}")
    return [_layer(part) for part in parts]


def _removed(store: TemplateStore, reference: str, quiet: bool) -> dict[str, Any]:
    gone = store.remove(reference)
    if not quiet:
        click.echo(f"removed {gone.name} {gone.digest[:12]}, {_size(gone.size_bytes)}")
    return _facts(store, gone)


def _load(definition: str) -> Definition:
    if definition.endswith(".toml"):
        return load_definition(Path(definition))
    if definition not in builtin_names():
        raise click.BadParameter(
            f"{definition!r} is not one of {', '.join(builtin_names())}, nor a .toml file"
        )
    return load_builtin(definition)


@contextmanager
def _clear_errors() -> Iterator[None]:
    """What the operator can act on, as one message and exit status 1."""
    try:
        yield
    except (
        *(BakeFailed, DefinitionError, HostError, ProviderFailed),
        *(SettingsError, TemplateInUse, TemplateNotFound),
    ) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _progress() -> Iterator[Callable[[BakeProgress], None]]:
    """On a terminal a spinner with seconds, otherwise one line per phase; both on stderr."""
    if not sys.stderr.isatty():
        yield lambda step: click.echo(str(step), err=True)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("looking for the template")

        def show(step: BakeProgress) -> None:
            if step.seconds is None:
                bar.reset(task, description=step.phase)
            else:
                bar.console.print(f"✓ {step}")

        yield show


def _table(infos: list[TemplateInfo], virtual: dict[str, tuple[VmPart, ...]]) -> Table:
    """VM is what virtual machines start from: its size, and how many warm machines are in it."""
    table = Table(box=None)
    for heading in ("NAME", "DIGEST", "CURRENT", "AIDER", "SUITE", "SIZE", "VM", "BAKED"):
        table.add_column(heading, no_wrap=heading == "VM")
    for info in infos:
        baked = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created_at))
        current = "yes" if info.current else "no"
        size = _size(info.size_bytes)
        row = (info.name, info.digest[:12], current, info.aider_version, info.suite, size)
        table.add_row(*row, _virtual(virtual[info.digest]), baked)
    return table


def _virtual(parts: tuple[VmPart, ...]) -> str:
    warm = sum(part.kind == "warm" for part in parts)
    return f"{_size(sum(part.size_bytes for part in parts))}, {warm} warm" if parts else ""


def _layer(part: VmPart) -> dict[str, Any]:
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(part.used_at))
    return {"kind": part.kind, "path": str(part.path), "size": part.size_bytes, "used": used}


def _facts(store: TemplateStore, info: TemplateInfo) -> dict[str, Any]:
    facts = dataclasses.asdict(info)
    details = facts.pop("details")
    virtual = [_layer(part) for part in store.vm_parts(info.digest)]
    return {**details, **facts, "path": str(info.path), "virtual": virtual}


def _baked(made: Template) -> str:
    return f"{made.name} {made.digest[:12]} {made.path}"


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, sort_keys=True))


def _size(count: int) -> str:
    return f"{count / 1024**2:.0f} MiB"
