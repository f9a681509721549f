"""Every API request and its answer, kept so that tests can hold both against GitHub's contract."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

KEPT = 20_000


@dataclass(frozen=True)
class Exchange:
    """One request and its answer. `path` begins after the API base; `template` names the route
    in the form of GitHub's own description (empty when no route matched). `injected` marks an
    answer that a fault wrote."""

    method: str
    path: str
    template: str
    query: str
    request_headers: Mapping[str, str]
    request_body: bytes
    status: int
    response_headers: Mapping[str, str]
    response_body: bytes
    injected: bool = False

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        return tuple(parse_qsl(self.query, keep_blank_values=True))

    def __str__(self) -> str:
        query = f"?{self.query}" if self.query else ""
        return f"{self.method} {self.path}{query} -> {self.status}"


class Recorder:
    """The newest exchanges, oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._exchanges: deque[Exchange] = deque(maxlen=KEPT)

    def add(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.append(exchange)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        with self._lock:
            return tuple(self._exchanges)

    def calls(self, method: str, ending: str = "") -> tuple[Exchange, ...]:
        """Return the exchanges with a method whose path ends in some text."""
        return tuple(e for e in self.exchanges if e.method == method and e.path.endswith(ending))

    def clear(self) -> None:
        with self._lock:
            self._exchanges.clear()
