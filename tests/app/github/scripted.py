"""A server on loopback that answers each request with what a test has laid ready for it."""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    verb: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """`hang_up` closes the connection without an answer, after the request was carried out."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    hang_up: bool = False
    raw: bytes | None = None


Reply = Answer | Callable[[Asked], Answer]


class ScriptedApi:
    """Answers by verb and path. The last answer laid ready for a path is repeated for ever."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._replies: dict[tuple[str, str], deque[Reply]] = defaultdict(deque)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/api/v3"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def reply(self, verb: str, path: str, *replies: Reply) -> None:
        self._replies[verb, path] = deque(replies)

    def asked_for(self, verb: str, path: str) -> list[Asked]:
        return [a for a in self.asked if (a.verb, a.path) == (verb, path)]

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        waiting = self._replies.get((asked.verb, asked.path))
        if not waiting:
            return Answer(404, {"message": "Not Found"})
        reply = waiting.popleft() if len(waiting) > 1 else waiting[0]
        return reply(asked) if callable(reply) else reply

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                sent = self.rfile.read(length)
                parts = urlsplit(self.path)
                answer = api.answer(
                    Asked(
                        self.command,
                        parts.path.removeprefix("/api/v3"),
                        parse_qs(parts.query),
                        {k.lower(): v for k, v in self.headers.items()},
                        json.loads(sent) if sent else None,
                    )
                )
                if answer.hang_up:
                    self.close_connection = True
                    return
                self._send(answer)

            def _send(self, answer: Answer) -> None:
                body = answer.raw
                if body is None:
                    body = b"" if answer.body is None else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = _serve  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Keep the test's output quiet."""

        return Handler
