"""gunicorn's entry: `gunicorn 'app.web.wsgi:make_wsgi()'`. Importing this reads no settings.

Several processes with several threads each are fine: all that they share is in the database and
in one file of the state directory.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import redis
import structlog
from celery import Celery
from flask import Flask, request
from kombu.exceptions import OperationalError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from app.queue import connect_to_queue, enqueue_delivery, make_queue
from app.settings import SettingsError, load_settings
from app.store import make_engine, reading, upgrade, workers
from app.web.app import create_app
from app.web.logs import configure_logging
from app.web.metrics import WORKER_ALIVE_S

# GitHub waits 10 s for an answer; a database that is busy for longer must become a 503 before.
BUSY_TIMEOUT_S = 7.0
REDIS_TIMEOUT_S = 2.0

_log = structlog.get_logger(__name__)


def make_wsgi(config: str | None = None) -> Flask:
    """Return the application as the environment and `config` (or `drydock.toml`) describe it.

    SettingsError when something is missing, which ends gunicorn. A database that is away does
    not: requests get 503 until it is there, and then the schema is brought up to date.
    """
    settings = load_settings(Path(config) if config is not None else None)
    configure_logging(settings.log_format)
    if settings.redis_url is None:
        raise SettingsError(
            ("DRYDOCK_REDIS_URL is not set; `drydock up` starts a private Redis by itself",)
        )
    engine = make_engine(settings.effective_database_url, BUSY_TIMEOUT_S)
    queue = make_queue(settings.redis_url)
    app = create_app(
        settings,
        engine,
        partial(enqueue_delivery, queue),
        probes={
            "redis": partial(probe_redis, settings.redis_url),
            "provider": partial(probe_provider, engine),
        },
    )
    schema = _Schema(engine)
    app.before_request(schema.before_request)
    _warm_up(schema, queue)
    return app


def _warm_up(schema: _Schema, queue: Celery) -> None:
    """Do before the first request what it would have to wait for. What fails is tried again then.

    The first connection to the queue imports its transport, and the schema Alembic.
    """
    try:
        schema.ensure()
        connect_to_queue(queue)
    except (SQLAlchemyError, OperationalError) as error:
        _log.warning("not_warmed_up", error=str(error))


def probe_redis(url: str) -> str:
    """Ping Redis. redis.RedisError when it does not answer."""
    client = redis.Redis.from_url(
        url, socket_connect_timeout=REDIS_TIMEOUT_S, socket_timeout=REDIS_TIMEOUT_S
    )
    with client:
        client.ping()
    return "answers"


def probe_provider(engine: Engine) -> str:
    """Ask for a worker that can start machines. RuntimeError, with its reason, when none can.

    Workers report to the database, since machines may run on other hosts than this.
    """
    since = datetime.now(UTC) - timedelta(seconds=WORKER_ALIVE_S)
    with reading(engine) as session:
        alive = workers.seen_since(session, since)
    able = [worker for worker in alive if not worker.problem]
    if able:
        return able[0].provider
    if alive:
        raise RuntimeError(f"{alive[0].name}: {alive[0].problem}")
    raise RuntimeError(f"no worker has reported for {WORKER_ALIVE_S:g} s")


class _Schema:
    """Brings the schema up to date before the first request that needs it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._current = False
        self._lock = threading.Lock()

    def before_request(self) -> None:
        """Errors: the database's own, which become a 503; the next request tries again."""
        if request.endpoint not in ("static", "health.healthz"):
            self.ensure()

    def ensure(self) -> None:
        if self._current:
            return
        with self._lock:
            if not self._current:
                upgrade(self._engine)
                self._current = True
