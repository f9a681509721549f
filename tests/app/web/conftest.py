from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine
from werkzeug.test import TestResponse

from app.events import sign
from app.settings import Settings
from app.store import make_engine, upgrade
from app.web.app import create_app

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

LABELED: dict[str, Any] = {
    "action": "labeled",
    "label": {"name": "aider"},
    "issue": {
        "number": 1,
        "title": "The pump leaks",
        "body": "It does.",
        "user": {"login": "ada"},
        "state": "open",
        "locked": False,
        "labels": [{"name": "aider"}],
    },
    "repository": {
        "id": 42,
        "name": "ship",
        "owner": {"login": "octo"},
        "default_branch": "main",
    },
    "sender": {"login": "ada", "id": 100, "type": "User"},
    "installation": {"id": 7},
}


class Web:
    """The application on a database of its own, and GitHub's side of it."""

    def __init__(self, state_dir: Path) -> None:
        self.secret = secrets.token_hex(16)
        self.settings = Settings.model_validate(
            {"state_dir": state_dir, "webhook_secret": self.secret}
        )
        self.engine: Engine = make_engine(self.settings.effective_database_url, 0.2)
        upgrade(self.engine)
        self.enqueued: list[str] = []
        self.queue_error: Exception | None = None
        self.now = T0
        self.probes: dict[str, Callable[[], str]] = {}
        self.app = self.build()

    def build(self, **settings: Any) -> Flask:
        """Build the application anew, with other settings."""
        self.settings = self.settings.model_copy(update=settings)
        self.app = create_app(
            self.settings, self.engine, self._enqueue, clock=lambda: self.now, probes=self.probes
        )
        return self.app

    @property
    def client(self) -> FlaskClient:
        return self.app.test_client()

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def _enqueue(self, delivery_id: str) -> None:
        if self.queue_error is not None:
            raise self.queue_error
        self.enqueued.append(delivery_id)

    def post(
        self,
        payload: Any = None,
        *,
        event: str = "issues",
        delivery: str = "d-1",
        **headers: str | None,
    ) -> TestResponse:
        """Send a webhook as GitHub does; a header given as None is left out."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload or LABELED).encode()
        sent: dict[str, str | None] = {
            "X-GitHub-Delivery": delivery,
            "X-GitHub-Event": event,
            "X-Hub-Signature-256": sign(self.secret, body),
            "Content-Type": "application/json",
        }
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        kept = {name: value for name, value in sent.items() if value is not None}
        return self.client.post("/webhooks/github", data=body, headers=kept)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    made = Web(tmp_path / "state")
    yield made
    made.engine.dispose()


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    """`make_wsgi` configures the logging of the process; the next test starts as this one did."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
