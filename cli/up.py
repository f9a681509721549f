"""`drydock up`: web, worker and beat together, with a private Redis where none is named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from app.settings import Settings, SettingsError
from cli.errors import fail
from cli.options import config_option
from cli.places import require_free
from cli.processes import Part, child_environment
from cli.redis import PrivateRedis, RedisMissing, private_redis
from cli.serve import our_argv, ready_settings, require_usable, run_group, worker_parts
from sandbox.provider import ProviderFailed


@click.command()
@config_option
def up(config: Path | None) -> None:
    """Run web, worker and beat until Ctrl-C.

    Starts a private redis-server on a unix socket when DRYDOCK_REDIS_URL is not set. A part that
    ends by itself is started again.
    """
    settings = ready_settings(config)
    require_free(settings.bind)
    require_usable(settings)
    _prepare(settings)
    try:
        redis = None if settings.redis_url else private_redis(os.environ.get("PATH", os.defpath))
    except RedisMissing as error:
        raise fail(str(error)) from error
    click.echo(
        f"drydock: serving on http://{settings.bind} (webhooks at /webhooks/github); Ctrl-C stops",
        err=True,
    )
    try:
        run_group(parts(redis, os.environ, config))
    finally:
        if redis is not None:
            redis.remove()


def _prepare(settings: Settings) -> None:
    """Do what the first run would wait minutes for; where that fails, a run will say the same."""
    from cli.warming import is_virtual, prepare_machines

    try:
        if is_virtual(settings):
            prepare_machines(settings, lambda step: click.echo(f"drydock: {step}", err=True))
    except (ProviderFailed, SettingsError) as error:
        click.echo(f"drydock: no machine is prepared: {error}", err=True)


def parts(
    redis: PrivateRedis | None, environment: Mapping[str, str], config: Path | None
) -> list[Part]:
    """Return the children in the order they start."""
    extra = {"DRYDOCK_REDIS_URL": redis.url} if redis else {}
    env = child_environment(environment, extra)
    serving = [
        Part("web", our_argv("web", "--checked", config=config), env),
        Part("beat", our_argv("beat", config=config), env, 5.0),
    ]
    first = [redis.part] if redis else []
    return [*first, *serving, *worker_parts({**environment, **extra}, config)]
