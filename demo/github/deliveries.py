"""Webhooks: signed, sent in order by one background thread, and remembered with the answer.

See https://docs.github.com/webhooks/webhook-events-and-payloads#delivery-headers
"""

from __future__ import annotations

import hmac
import json
import queue
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import requests

from demo.github.records import App, Delivery

TIMEOUT_S = 10.0
_MAX_PAYLOAD = 25 * 1024 * 1024


@dataclass(frozen=True)
class Notice:
    """An event as one App is told of it."""

    event: str
    payload: Mapping[str, Any]
    installation_id: int | None = None
    repository_id: int | None = None

    @property
    def action(self) -> str | None:
        action = self.payload.get("action")
        return action if isinstance(action, str) else None


def signature(secret: str, body: bytes, algorithm: str = "sha256") -> str:
    """Return the value of `X-Hub-Signature-256` (or, with sha1, of its forerunner)."""
    return f"{algorithm}={hmac.new(secret.encode(), body, algorithm).hexdigest()}"


class Courier:
    """Delivers notices. `timeout` is in seconds; an answer later than that is a failure."""

    def __init__(self, clock: Callable[[], float], next_id: Callable[[], int]) -> None:
        self.timeout = TIMEOUT_S
        self._clock = clock
        self._next_id = next_id
        self._deliveries: list[Delivery] = []
        self._queue: queue.SimpleQueue[Delivery | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pending = 0
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="github-webhooks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the delivery in its hands; what waits is not sent."""
        self._stopping = True
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        """All deliveries, oldest first, waiting ones included."""
        with self._changed:
            return tuple(self._deliveries)

    def of_app(self, app: App) -> tuple[Delivery, ...]:
        return tuple(delivery for delivery in self.deliveries if delivery.app is app)

    def post(self, app: App, notice: Notice) -> Delivery | None:
        """Queue a notice. An App without a webhook, or a payload over 25 MB, gets nothing."""
        if not app.webhook_url:
            return None
        body = json.dumps(notice.payload, ensure_ascii=False, separators=(",", ":")).encode()
        if len(body) > _MAX_PAYLOAD:
            return None
        delivery = Delivery(
            id=self._next_id(),
            guid=str(uuid.uuid4()),
            app=app,
            event=notice.event,
            action=notice.action,
            installation_id=notice.installation_id,
            repository_id=notice.repository_id,
            url=app.webhook_url,
            body=body,
            created_at=self._clock(),
        )
        return self._enqueue(delivery)

    def redeliver(self, delivery: Delivery) -> Delivery:
        """Queue the same bytes with the same GUID again, to the App's address of today."""
        again = Delivery(
            id=self._next_id(),
            guid=delivery.guid,
            app=delivery.app,
            event=delivery.event,
            action=delivery.action,
            installation_id=delivery.installation_id,
            repository_id=delivery.repository_id,
            url=delivery.app.webhook_url or delivery.url,
            body=delivery.body,
            created_at=self._clock(),
            redelivery=True,
        )
        return self._enqueue(again)

    def wait_idle(self, timeout: float = 30.0) -> None:
        """Return when nothing waits to be delivered. TimeoutError after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._pending == 0, timeout):
                raise TimeoutError(f"{self._pending} webhooks are still waiting")

    def _enqueue(self, delivery: Delivery) -> Delivery:
        delivery.request_headers = _headers(delivery)
        with self._changed:
            self._deliveries.append(delivery)
            self._pending += 1
        self._queue.put(delivery)
        return delivery

    def _work(self) -> None:
        while (delivery := self._queue.get()) is not None and not self._stopping:
            try:
                _send(delivery, self.timeout)
            finally:
                with self._changed:
                    self._pending -= 1
                    self._changed.notify_all()


def _headers(delivery: Delivery) -> dict[str, str]:
    app = delivery.app
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/local",
        "Accept": "*/*",
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Hook-ID": str(app.hook_id),
        "X-GitHub-Hook-Installation-Target-ID": str(app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
    }
    if app.webhook_secret:
        headers["X-Hub-Signature"] = signature(app.webhook_secret, delivery.body, "sha1")
        headers["X-Hub-Signature-256"] = signature(app.webhook_secret, delivery.body)
    return headers


def _send(delivery: Delivery, timeout: float) -> None:
    """POST once, without redirects or proxies, and note what came of it."""
    started = time.monotonic()
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.post(
                delivery.url,
                data=delivery.body,
                headers=delivery.request_headers,
                timeout=timeout,
                allow_redirects=False,
            )
        delivery.status_code = answer.status_code
        delivery.response_headers = dict(answer.headers)
        delivery.response_body = answer.text
        failed = f"Invalid HTTP Response: {answer.status_code}"
        delivery.status = "OK" if 200 <= answer.status_code < 300 else failed
    except requests.Timeout:
        delivery.status = "timed out"
    except requests.RequestException:
        delivery.status = "failed to connect to host"
    delivery.duration = round(time.monotonic() - started, 3)
    delivery.delivered = True
