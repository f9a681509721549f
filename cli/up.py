"""`drydock up`: web, worker and beat together, with a private Redis where none is named."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from app.settings import Settings
from cli.errors import fail
from cli.processes import Part, ProcessGroup, child_environment
from cli.redis import PrivateRedis, RedisMissing, private_redis
from cli.serve import ready_settings


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="drydock.toml to read.")
def up(config: Path | None) -> None:
    """Run web, worker and beat until Ctrl-C.

    Starts a private redis-server on a unix socket when DRYDOCK_REDIS_URL is not set. A part that
    ends by itself is started again.
    """
    settings = ready_settings(config)
    try:
        redis = None if settings.redis_url else private_redis(os.environ.get("PATH", os.defpath))
    except RedisMissing as error:
        raise fail(str(error)) from error
    group = ProcessGroup(parts(settings, redis, os.environ, config), _say)
    try:
        _run(group, settings)
    finally:
        group.stop()
        if redis is not None:
            redis.remove()


def _run(group: ProcessGroup, settings: Settings) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: group.request_stop())
    group.start()
    _say(f"serving on http://{settings.bind} (webhooks at /webhooks/github); Ctrl-C stops")
    group.watch()
    _say("stopping")


def parts(
    settings: Settings,
    redis: PrivateRedis | None,
    environment: Mapping[str, str],
    config: Path | None,
) -> list[Part]:
    """Return the children in the order they start."""
    extra = {"DRYDOCK_REDIS_URL": redis.url} if redis else {}
    env = child_environment(environment, extra)
    options = ("--config", str(config)) if config else ()
    ours = [
        Part(name, (sys.executable, "-P", "-m", "cli", name, *options), env, stop_s)
        for name, stop_s in (("web", 10.0), ("beat", 5.0), ("worker", 15.0))
    ]
    return ([redis.part] if redis else []) + ours


def _say(message: str) -> None:
    click.echo(f"drydock: {message}", err=True)
