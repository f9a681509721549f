"""`drydock web`, `drydock worker` and `drydock beat`: the three processes of an installation."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from app.settings import Settings, SettingsError, load_settings, require_github
from cli.errors import fail

T = TypeVar("T")

WEB_PROCESSES = 2
WEB_THREADS = 8

config_option = click.option(
    "--config", type=click.Path(path_type=Path), help="drydock.toml to read."
)


@click.command()
@config_option
def web(config: Path | None) -> None:
    """Serve webhooks and the dashboard with gunicorn (replaces this process)."""
    settings = ready_settings(config)
    # gunicorn's own environment is ours: the settings were checked, and it reads the same ones.
    os.execv(sys.executable, gunicorn_argv(settings, config))  # noqa: S606


def gunicorn_argv(settings: Settings, config: Path | None) -> list[str]:
    """Return gunicorn's command line. Threads: a request waits for the database and no more."""
    factory = f"app.web.wsgi:make_wsgi({str(config)!r})" if config else "app.web.wsgi:make_wsgi()"
    return [
        *(sys.executable, "-P", "-m", "gunicorn"),
        *("--bind", settings.bind),
        *("--workers", str(WEB_PROCESSES)),
        *("--worker-class", "gthread"),
        *("--threads", str(WEB_THREADS)),
        *("--graceful-timeout", "8"),
        *("--timeout", "30"),
        *("--log-level", "warning"),
        factory,
    ]


@click.command()
@config_option
def worker(config: Path | None) -> None:
    """Take deliveries and runs from the queue and do them."""
    settings = ready_settings(config)
    # Celery and PyGithub are slow to import: not for `--help`.
    from workers.services import build_services
    from workers.tasks import make_worker

    services = orderly(lambda: build_services(settings))
    concurrency = str(settings.worker_concurrency)
    make_worker(services).worker_main(
        [
            "worker",
            *("--concurrency", concurrency),
            *("--loglevel", "WARNING"),
            *("--without-gossip", "--without-mingle"),
        ]
    )


@click.command()
@config_option
def beat(config: Path | None) -> None:
    """Ask a worker every few seconds to look for what was forgotten."""
    settings = ready_settings(config)
    from app.queue import make_queue

    if settings.redis_url is None:
        raise fail("DRYDOCK_REDIS_URL is not set. `drydock up` starts a private Redis by itself.")
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    queue = make_queue(settings.redis_url)
    queue.Beat(
        loglevel="WARNING", schedule=str(settings.state_dir / "beat-schedule"), quiet=True
    ).run()


def ready_settings(config: Path | None) -> Settings:
    """Load the settings and refuse to go on without a GitHub App."""
    try:
        settings = load_settings(config)
        require_github(settings)
    except SettingsError as error:
        raise fail(str(error)) from error
    return settings


def orderly(action: Callable[[], T]) -> T:
    """Turn what an operator can mend into one message."""
    try:
        return action()
    except (SettingsError, OSError) as error:
        raise fail(str(error)) from error
