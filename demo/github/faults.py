"""Troubles that a test orders: answers that GitHub gives on a bad day, a set number of times."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.github.errors import DOCS

_LIMITS_DOC = f"{DOCS}/using-the-rest-api/rate-limits-for-the-rest-api"


@dataclass(eq=False)
class Fault:
    """One ordered trouble.

    `after_effect` lets the request do its work first and loses only the answer, which is what
    makes blind repeats dangerous. `reset` breaks the connection instead of answering. `times`
    counts down; None never ends. `seen` counts the requests it struck.
    """

    method: str
    path: re.Pattern[str]
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    times: int | None = 1
    after_effect: bool = False
    reset: bool = False
    delay: Callable[[], object] | None = None
    seen: int = 0

    def matches(self, method: str, path: str) -> bool:
        if self.times is not None and self.seen >= self.times:
            return False
        return self.method in ("*", method) and self.path.search(path) is not None


class Faults:
    """The orders, tried oldest first. Paths are matched without the `/api/v3` prefix."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(
        self,
        method: str,
        path: str,
        status: int = 500,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | str | bytes | None = None,
        times: int | None = 1,
        *,
        after_effect: bool = False,
        reset: bool = False,
        delay: Callable[[], object] | None = None,
    ) -> Fault:
        """Order a fault for a method (`*` is any) and a regular expression over the path.

        `delay` is called before the fault answers (an event's `wait`, say).
        """
        fault = Fault(
            method=method.upper(),
            path=re.compile(path),
            status=status,
            headers=dict(headers or {}),
            body=_encode(body, status),
            times=times,
            after_effect=after_effect,
            reset=reset,
            delay=delay,
        )
        with self._lock:
            self._faults.append(fault)
        return fault

    def server_error(
        self, method: str, path: str, *, status: int = 502, times: int = 1, after: bool = False
    ) -> Fault:
        """Answer 5xx; with `after`, the request's effect stays."""
        body = {"message": "Server Error"}
        return self.add(method, path, status, body=body, times=times, after_effect=after)

    def connection_reset(
        self, method: str, path: str, *, times: int = 1, after: bool = False
    ) -> Fault:
        """Break the connection; with `after`, the request's effect stays."""
        return self.add(method, path, times=times, after_effect=after, reset=True)

    def primary_rate_limit(self, method: str, path: str, *, reset_at: int, times: int = 1) -> Fault:
        """Answer as when the hour's requests are used up until `reset_at` (epoch seconds)."""
        headers = {
            "X-RateLimit-Limit": "5000",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(reset_at),
            "X-RateLimit-Used": "5000",
            "X-RateLimit-Resource": "core",
        }
        body = {
            "message": "API rate limit exceeded for installation.",
            "documentation_url": _LIMITS_DOC,
        }
        return self.add(method, path, 403, headers, body, times)

    def secondary_rate_limit(
        self,
        method: str,
        path: str,
        *,
        retry_after: int | None = None,
        status: int = 403,
        times: int = 1,
    ) -> Fault:
        """Answer as when acting too fast; GitHub does not always send `Retry-After`."""
        body = {
            "message": (
                "You have exceeded a secondary rate limit. "
                "Please wait a few minutes before you try again."
            ),
            "documentation_url": f"{_LIMITS_DOC}#about-secondary-rate-limits",
        }
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        return self.add(method, path, status, headers, body, times)

    def strike(self, method: str, path: str) -> Fault | None:
        """Return the first fault that a request runs into, counting it."""
        with self._lock:
            found = next((f for f in self._faults if f.matches(method, path)), None)
            if found is not None:
                found.seen += 1
            return found

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()


def _encode(body: Mapping[str, Any] | str | bytes | None, status: int) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    default = {"message": f"Injected {status}", "documentation_url": DOCS}
    return json.dumps(body if body is not None else default).encode()
