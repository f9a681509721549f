"""A scripted model: a real HTTP server that answers like the vendors do, by scenario.

For the demo and the tests. It speaks the vendors' formats, streamed and not, checks the credential
header, refuses what the vendors refuse, and keeps every request for whoever asks.

    python -m demo.model --port 8081 --scenario fix_after_failing_test
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from demo.scenario import (
    BUILT_IN,
    Chooser,
    Edit,
    Fault,
    Hang,
    HttpError,
    Message,
    Reply,
    Reset,
    Scenario,
    Script,
    Text,
    Truncated,
    big_edit,
    failing,
    fix_after_failing_test,
    follow_up,
    hang,
    malformed_edits,
    no_change,
    prose_only,
    render,
    scenarios_from_json,
)
from demo.wire import Answer, Chat, Wire, wire_for

__all__ = [
    "BUILT_IN",
    "Edit",
    "Fault",
    "Hang",
    "HttpError",
    "Message",
    "Recorded",
    "Reply",
    "Reset",
    "Scenario",
    "ScriptedModel",
    "Text",
    "Truncated",
    "big_edit",
    "failing",
    "fix_after_failing_test",
    "follow_up",
    "hang",
    "malformed_edits",
    "no_change",
    "prose_only",
    "scenarios_from_json",
]

MAX_BODY = 64 * 1024 * 1024
# SO_LINGER on, zero seconds: close() then sends a reset.
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Recorded:
    """One request as it came, credentials included; header names in lower case."""

    at: float
    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: Any = field(default=None)


class ScriptedModel:
    """The server. `url` is its root; OpenAI's base is `openai_base`, Anthropic's is `url`.

    `api_key` None takes any credential or none. Loopback only.
    """

    def __init__(
        self,
        scenario: Scenario | Sequence[Scenario] | Script,
        *,
        api_key: str | None = None,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.api_key = api_key
        self.stopping = threading.Event()
        self._chooser = Chooser((scenario,) if isinstance(scenario, Scenario) else scenario)
        self._lock = threading.Lock()
        self._requests: list[Recorded] = []
        self._server = _Server(("127.0.0.1", port), self, tls)
        self._scheme = "https" if tls else "http"
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    @property
    def openai_base(self) -> str:
        return f"{self.url}/v1"

    @property
    def requests(self) -> tuple[Recorded, ...]:
        """Every request so far, in the order of arrival."""
        with self._lock:
            return tuple(self._requests)

    def start(self) -> Self:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="scripted-model", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """End every connection and the server; idempotent."""
        self.stopping.set()
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.end_connections()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()

    def record(self, request: Recorded) -> None:
        with self._lock:
            self._requests.append(request)

    def choose(self, messages: Sequence[Message]) -> Reply:
        """Return the reply; a conversation that no scenario is meant for has no such model."""
        with self._lock:
            try:
                return self._chooser.choose(messages)
            except LookupError:
                return HttpError(Fault.NOT_FOUND)


class _Server(ThreadingHTTPServer):
    """One thread per connection; remembers open ones, so that stopping leaves none behind."""

    daemon_threads = True
    # A killed demo is started again on the same port.
    allow_reuse_address = True

    def __init__(
        self, address: tuple[str, int], model: ScriptedModel, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(address, _Handler)
        self.model = model
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        if tls is not None:
            # The handshake belongs to the connection's thread, not to the accepting one.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def end_connections(self) -> None:
        with self._open_lock:
            left = list(self._open)
        for connection in left:
            try:
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is its own business; everything else is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection. Chooses the reply, and plays it."""

    protocol_version = "HTTP/1.1"
    server_version = "scripted-model"
    sys_version = ""
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent: the requests are kept, nobody reads a log."""

    def _serve(self) -> None:
        raw = self._read_body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = _parse(raw)
        path = self.path.partition("?")[0]
        self.server.model.record(Recorded(time.time(), self.command, self.path, headers, raw, body))
        wire = wire_for(path, headers)
        checked = self._check(wire, path, headers, body)
        if isinstance(checked, Answer):
            self._send_json(checked.status, checked.body, checked.headers)
        else:
            self._play(wire, checked)

    def _check(
        self, wire: Wire, path: str, headers: Mapping[str, str], body: object
    ) -> Chat | Answer:
        if not wire.serves(path) or self.command != "POST":
            return wire.not_found(self.command, path)
        refused = wire.check_key(headers, self.server.model.api_key)
        return refused or wire.read(self.path, headers, body)

    def _play(self, wire: Wire, chat: Chat) -> None:
        reply = self.server.model.choose(chat.messages)
        if isinstance(reply, HttpError):
            answer = wire.fault(reply.fault, reply.retry_after)
            self._send_json(answer.status, answer.body, answer.headers)
        elif isinstance(reply, Hang):
            self.server.model.stopping.wait(reply.seconds)
            self.close_connection = True
        elif isinstance(reply, Reset):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.connection.close()
            self.close_connection = True
        else:
            self._say(wire, chat, render(reply), whole=not isinstance(reply, Truncated))

    def _say(self, wire: Wire, chat: Chat, text: str, *, whole: bool) -> None:
        if chat.stream:
            self._send_stream(list(wire.events(chat, text)), whole=whole)
        else:
            self._send_json(200, wire.whole(chat, text), whole=whole)

    def _send_json(
        self,
        status: int,
        body: Mapping[str, Any],
        headers: Sequence[tuple[str, str]] = (),
        *,
        whole: bool = True,
    ) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data if whole else data[: len(data) // 2])
        self.close_connection = self.close_connection or not whole

    def _send_stream(self, events: list[bytes], *, whole: bool) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events if whole else events[: max(1, len(events) // 2)]:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        if whole:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.close_connection or not whole

    def _read_body(self) -> bytes:
        length = int(self.headers.get("content-length") or 0)
        return self.rfile.read(min(length, MAX_BODY))


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; prints the address first."""
    parser = argparse.ArgumentParser(prog="python -m demo.model", description="A scripted model.")
    parser.add_argument("--port", type=int, default=0, help="port on loopback (default: any)")
    parser.add_argument("--scenario", required=True, help="a JSON file, or one of the names below")
    parser.add_argument("--api-key-file", type=Path, help="file with the only key to accept")
    parser.epilog = "scenarios: " + ", ".join(BUILT_IN)
    options = parser.parse_args(arguments)
    try:
        scenarios = _load(options.scenario)
        key = options.api_key_file.read_text().strip() if options.api_key_file else None
    except (OSError, ValueError) as error:
        parser.error(str(error))
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with ScriptedModel(scenarios, api_key=key, port=options.port) as model:
        sys.stdout.write(f"OpenAI base {model.openai_base}, Anthropic base {model.url}\n")
        sys.stdout.flush()
        ended.wait()
    return 0


def _load(name: str) -> tuple[Scenario, ...]:
    if name in BUILT_IN:
        return (BUILT_IN[name](),)
    return scenarios_from_json(Path(name).read_text(encoding="utf-8"))


def _parse(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


if __name__ == "__main__":
    sys.exit(main())
