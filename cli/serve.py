"""`drydock web`, `drydock worker` and `drydock beat`: the three processes of an installation."""

from __future__ import annotations

import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click

from app.settings import Settings, SettingsError, require_github
from cli.errors import fail
from cli.options import config_option, settings_or_fail
from cli.places import make_state_dir, require_free
from cli.processes import Part, ProcessGroup, child_environment

T = TypeVar("T")

WEB_PROCESSES = 2
WEB_THREADS = 8
INTAKE_PROCESSES = 2
JOBS = ("intake", "runs")
PING_S = 3.0

# Whoever starts the parts has looked already; each look costs half a second of imports.
checked_option = click.option("--checked", is_flag=True, hidden=True)


@click.command()
@config_option
@checked_option
def web(config: Path | None, checked: bool) -> None:
    """Serve webhooks and the dashboard with gunicorn (replaces this process)."""
    settings = ready_settings(config)
    redis_or_fail(settings)
    require_free(settings.bind)
    if not checked:
        require_usable(settings)
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
@click.option(
    "--only",
    type=click.Choice(JOBS),
    help="Do only one of the two jobs: take deliveries, or drive runs.",
)
@click.option("--ping", is_flag=True, help="Ask the worker of this host whether it answers.")
def worker(config: Path | None, only: str | None, ping: bool) -> None:
    """Take deliveries and runs from the queue and do them.

    Two processes, one for each job, so that a delivery is answered while runs are under way.
    """
    settings = ready_settings(config)
    if ping:
        _ping(settings, [only] if only else list(JOBS))
    elif only is None:
        redis_or_fail(settings)
        require_usable(settings)
        run_group(worker_parts(os.environ, config))
    else:
        _work(settings, only)


def _work(settings: Settings, queue_name: str) -> None:
    # Celery and PyGithub are slow to import: not for `--help`.
    from celery.platforms import SecurityWarning

    from app.queue import RUNS_QUEUE
    from app.web.logs import configure_logging
    from workers.services import build_services
    from workers.tasks import make_worker

    configure_logging(settings.log_format)
    # It is about pickle, which make_queue refuses; an operator who runs us as root knows it.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    services = orderly(lambda: build_services(settings))
    concurrency = settings.worker_concurrency if queue_name == RUNS_QUEUE else INTAKE_PROCESSES
    make_worker(services, queue_name).worker_main(
        [
            "--quiet",
            "worker",
            *("--queues", queue_name),
            *("--hostname", node_name(queue_name, "%h")),
            *("--concurrency", str(concurrency)),
            *("--loglevel", "WARNING"),
            *("--without-gossip", "--without-mingle"),
        ]
    )


def node_name(job: str, host: str) -> str:
    """Return how the process that does this job is called in Celery."""
    return f"{job}@{host}"


def _ping(settings: Settings, jobs: Sequence[str]) -> None:
    silent = silent_jobs(redis_or_fail(settings), jobs)
    if silent:
        raise fail(f"no answer from the worker of this host: {', '.join(silent)}")
    click.echo("answers")


def silent_jobs(redis_url: str, jobs: Sequence[str]) -> list[str]:
    """Return those whose process on this host does not answer through Redis in PING_S seconds."""
    from kombu.exceptions import OperationalError

    from app.queue import connect_to_queue, make_queue

    nodes = {node_name(job, socket.gethostname()): job for job in jobs}
    with make_queue(redis_url) as queue:
        try:
            connect_to_queue(queue)
            answers = queue.control.ping(destination=list(nodes), timeout=PING_S)
        except OperationalError as error:
            raise fail(f"Redis does not answer: {error}") from error
    answered = {name for answer in answers for name in answer}
    return [job for node, job in nodes.items() if node not in answered]


def redis_or_fail(settings: Settings) -> str:
    if settings.redis_url is None:
        raise fail("DRYDOCK_REDIS_URL is not set. `drydock up` starts a private Redis by itself.")
    return settings.redis_url


@click.command()
@config_option
def beat(config: Path | None) -> None:
    """Ask a worker every few seconds to look for what was forgotten."""
    settings = ready_settings(config)
    from app.queue import make_queue

    queue = make_queue(redis_or_fail(settings))
    make_state_dir(settings)
    queue.Beat(
        loglevel="WARNING", schedule=str(settings.state_dir / "beat-schedule"), quiet=True
    ).run()


def worker_parts(environment: Mapping[str, str], config: Path | None) -> list[Part]:
    """Return the two processes of a worker."""
    env = child_environment(environment, {})
    return [
        Part(f"worker ({job})", our_argv("worker", "--only", job, config=config), env, 15.0)
        for job in JOBS
    ]


def our_argv(*words: str, config: Path | None) -> tuple[str, ...]:
    """Return the command line of one of our own commands."""
    options = ("--config", str(config)) if config else ()
    return (sys.executable, "-P", "-m", "cli", *words, *options)


def run_group(parts: list[Part]) -> None:
    """Run these until Ctrl-C or SIGTERM, and leave none behind."""
    group = ProcessGroup(parts, lambda message: click.echo(f"drydock: {message}", err=True))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: group.request_stop())
    try:
        group.start()
        group.watch()
    finally:
        group.stop()


def ready_settings(config: Path | None) -> Settings:
    """Load the settings and refuse to go on without a GitHub App."""
    settings = settings_or_fail(config)
    try:
        require_github(settings)
    except SettingsError as error:
        raise fail(str(error)) from error
    return settings


def require_usable(settings: Settings) -> None:
    """ClickException when state directory or database can never do, however often it is tried."""
    from cli.database import check_database

    make_state_dir(settings)
    check_database(settings)


def orderly(action: Callable[[], T]) -> T:
    """Turn what an operator can mend into one message."""
    try:
        return action()
    except (SettingsError, OSError) as error:
        raise fail(str(error)) from error
