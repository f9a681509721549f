"""`drydock config`: what a repository's `.github/drydock.yml` says, before it is merged."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from app.config_limits import Limits, excesses_of, limits_of
from app.plain_yaml import MAX_BYTES
from app.repo_config import CONFIG_PATH, ConfigError, RepoConfig, parse_repo_config, problems_of
from cli.errors import fail
from cli.options import settings_or_fail
from workers.services import template_names


@dataclass(frozen=True)
class Checked:
    """A file, its problems, and the config where it can be read."""

    path: Path
    problems: tuple[ConfigError, ...]
    config: RepoConfig | None


@click.group()
def config() -> None:
    """Check a repository's config."""


@config.command("check")
@click.option(
    "--config",
    "operator",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="drydock.toml whose limits the file has to keep as well.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.pass_context
def check(ctx: click.Context, operator: Path | None, as_json: bool, path: Path) -> None:
    """Check PATH, a repository's `.github/drydock.yml`; PATH may be the repository's folder.

    Exit status 0 when it is right, 1 when it is wrong or cannot be read.
    """
    limits = _limits(operator) if operator is not None else None
    checked = check_file(path / CONFIG_PATH if path.is_dir() else path, limits)
    if as_json:
        click.echo(json.dumps(as_values(checked), indent=2))
    else:
        _print(checked)
    ctx.exit(1 if checked.problems else 0)


def _limits(operator: Path) -> Limits:
    settings = settings_or_fail(operator)
    return limits_of(settings, template_names(settings))


def check_file(path: Path, limits: Limits | None) -> Checked:
    """Return what is wrong with a file, by itself and then by the limits."""
    data = _read(path)
    problems = problems_of(data)
    if not problems and limits is not None:
        problems = excesses_of(data, limits)
    config = parse_repo_config(data)
    return Checked(path, problems, config if isinstance(config, RepoConfig) else None)


def _read(path: Path) -> bytes:
    """Return no more of the file than shows whether it is too long."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise fail(f"{path} cannot be read: {error.strerror or error}") from error


def as_values(checked: Checked) -> dict[str, Any]:
    """Return it as JSON values; `config` holds the keys that the file sets."""
    config = checked.config
    return {
        "path": str(checked.path),
        "ok": not checked.problems,
        "problems": [asdict(problem) for problem in checked.problems],
        "config": config.model_dump(mode="json", exclude_unset=True) if config else None,
    }


def _print(checked: Checked) -> None:
    for problem in checked.problems:
        line = f":{problem.line}" if problem.line is not None else ""
        hint = f"; did you mean {problem.nearest}?" if problem.nearest else ""
        click.echo(f"{checked.path}{line}: {problem.reason}{hint}", err=True)
    if not checked.problems:
        click.echo(f"{checked.path}: right")
