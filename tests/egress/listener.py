"""A loopback listener in the guest agent's place: every TCP connection goes to the broker."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from egress.broker import Broker


class SocketDuplex:
    """A connected socket as a `Duplex`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._closed = threading.Event()

    def recv(self, limit: int) -> bytes:
        return self._sock.recv(limit)

    def sendall(self, data: bytes) -> None:
        self._sock.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._closed.set()
        self._sock.close()


class Listener:
    """Accepts on loopback, one thread per connection, until it is closed."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(
                target=self.broker.handle, args=(SocketDuplex(sock),), daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._acceptor.join()
        self.broker.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a handler outlived its broker"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    # What a guest does.

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | bytes,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
    ) -> Got:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(
                method, path, data, {"Content-Type": "application/json", **(headers or {})}
            )
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Got(answer.status, names, answer.read())
        finally:
            connection.close()

    def raw(self, data: bytes) -> bytes:
        """Send bytes, say that there are no more, and return all that comes back."""
        with self.connect() as sock:
            with contextlib.suppress(OSError):
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
            return read_all(sock)


@dataclass(frozen=True)
class Got:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def read_all(sock: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(65536):
            data += piece
    return data
