"""The Flask application, built from what it is given: no environment, no globals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import structlog
from flask import Flask, Response, g, jsonify, request
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException

from app.settings import Settings, SettingsError
from app.store import Inbox
from app.web.counts import SharedCounts
from app.web.dashboard import dashboard
from app.web.deps import Deps, Probe
from app.web.health import health
from app.web.hooks import MAX_BODY_BYTES, RefusedBecause, hooks
from app.web.metrics import metrics

_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_log = structlog.get_logger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def create_app(
    settings: Settings,
    engine: Engine,
    enqueue: Callable[[str], None],
    *,
    clock: Callable[[], datetime] = _utc_now,
    probes: Mapping[str, Probe] | None = None,
) -> Flask:
    """Return the application. SettingsError without a webhook secret: anybody could sign then.

    `enqueue` is given the id of each delivery once it is committed; it should take two seconds
    at most, since GitHub waits ten, and may raise: the delivery is then left to the reconciler.
    `probes` are asked by `/readyz` besides the database.
    """
    if settings.webhook_secret is None:
        raise SettingsError(
            ("DRYDOCK_WEBHOOK_SECRET is not set: without it anybody could send webhooks",)
        )
    deps = Deps(
        settings=settings,
        webhook_secret=settings.webhook_secret,
        engine=engine,
        inbox=Inbox(engine),
        enqueue=enqueue,
        clock=clock,
        probes=probes or {},
        refused=SharedCounts(settings.state_dir / "webhooks-refused", tuple(RefusedBecause)),
    )
    return _assemble(deps)


def _assemble(deps: Deps) -> Flask:
    app = Flask("app.web", static_folder="static", template_folder="templates")
    app.config.update(MAX_CONTENT_LENGTH=MAX_BODY_BYTES)
    for blueprint in (hooks, health, metrics, dashboard):
        app.register_blueprint(blueprint(deps))
    app.before_request(_start_clock)
    app.after_request(_finish)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(SQLAlchemyError, _database_error)
    app.register_error_handler(Exception, _our_error)
    return app


def _start_clock() -> None:
    g.started = time.monotonic()


def _finish(response: Response) -> Response:
    """Add the security headers and write the access log: never a body, never a query."""
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    _log.info(
        "request",
        method=request.method,
        path=request.path,
        status=response.status_code,
        seconds=round(time.monotonic() - g.get("started", time.monotonic()), 4),
        peer=request.remote_addr,
        delivery=request.headers.get("X-GitHub-Delivery"),
        event_name=request.headers.get("X-GitHub-Event"),
    )
    return response


def _http_error(error: HTTPException) -> Response:
    response = jsonify(status="error", reason=error.description)
    response.status_code = error.code or 500
    # A 405 must keep saying what would be allowed.
    for name, value in error.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            response.headers[name] = value
    return response


def _database_error(error: SQLAlchemyError) -> Response:
    """GitHub shows the 503, and the delivery can be sent again."""
    _log.error("database_failed", error=str(error.__cause__ or error))
    response = jsonify(status="unavailable", reason="the database does not answer")
    response.status_code = 503
    return response


def _our_error(error: Exception) -> Response:
    _log.error("request_failed", exc_info=error)
    response = jsonify(status="error", reason="an error of Drydock's own; it is in the log")
    response.status_code = 500
    return response
