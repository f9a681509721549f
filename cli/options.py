"""What commands share: where their settings are, and how wrong ones are told."""

from __future__ import annotations

from pathlib import Path

import click

from app.settings import Settings, SettingsError, load_settings
from cli.errors import fail

config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="drydock.toml to read."
)


def settings_or_fail(config: Path | None) -> Settings:
    """Load the settings. ClickException with every problem of theirs."""
    try:
        return load_settings(config)
    except SettingsError as error:
        raise fail(str(error)) from error
