"""A client for QEMU's machine protocol: JSON lines on a socket, one command at a time.

https://www.qemu.org/docs/master/interop/qmp-spec.html. QEMU is on the host's side of the boundary,
but a guest may have taken it over: lines are bounded, and nothing that it says is more than data.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from typing import Any

MAX_LINE = 1024 * 1024
_PIECE = 65536

Message = dict[str, Any]


class QmpFailed(Exception):
    """QEMU refused a command, said nothing in time, or is gone."""


class Qmp:
    """One connection. Calls may come from several threads; each waits for its answer.

    `timeout_s` bounds every single wait.
    """

    def __init__(self, sock: socket.socket, timeout_s: float) -> None:
        self._sock = sock
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._buffer = b""
        self._events: list[Message] = []

    def greet(self) -> Message:
        """Wait for QEMU's greeting and leave its negotiation mode; returns the greeting."""
        with self._lock:
            greeting = self._read(time.monotonic() + self._timeout_s)
            if not isinstance(greeting.get("QMP"), dict):
                raise QmpFailed("QEMU's first line is no greeting")
        self.execute("qmp_capabilities")
        return greeting

    def execute(self, command: str, *, fd: int | None = None, **arguments: object) -> Any:
        """Run one command and return what it returned; `fd` goes along with it.

        An underscore in an argument's name stands for a dash.
        """
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        line = json.dumps({"execute": command, "arguments": named}).encode() + b"\n"
        with self._lock:
            self._write(line, fd)
            deadline = time.monotonic() + self._timeout_s
            while "event" in (message := self._read(deadline)):
                self._events.append(message)
        if "error" in message:
            raise QmpFailed(f"{command}: {message['error'].get('desc')}")
        return message.get("return")

    def wait_for(self, event: str) -> Message:
        """Take the next event of that name, whether it has come or is to come; its data."""
        deadline = time.monotonic() + self._timeout_s
        with self._lock:
            while True:
                for number, message in enumerate(self._events):
                    if message["event"] == event:
                        del self._events[number]
                        data: Message = message.get("data", {})
                        return data
                self._take_event(deadline)

    def close(self) -> None:
        """End the connection; whoever waits is told. Idempotent, from any thread."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _take_event(self, deadline: float) -> None:
        message = self._read(deadline)
        if "event" not in message:
            raise QmpFailed("QEMU answered what was not asked")
        self._events.append(message)

    def _write(self, line: bytes, fd: int | None) -> None:
        self._sock.settimeout(self._timeout_s)
        try:
            if fd is None:
                self._sock.sendall(line)
            else:
                socket.send_fds(self._sock, [line], [fd])
        except OSError as error:
            raise QmpFailed("QEMU is gone") from error

    def _read(self, deadline: float) -> Message:
        """Read one line. QmpFailed when it is none, does not come, or is too long."""
        while b"\n" not in self._buffer:
            if len(self._buffer) > MAX_LINE:
                raise QmpFailed("QEMU sent a line without an end")
            self._buffer += self._receive(deadline - time.monotonic())
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise QmpFailed("QEMU sent no JSON") from error
        if not isinstance(message, dict):
            raise QmpFailed("QEMU sent no object")
        return message

    def _receive(self, patience_s: float) -> bytes:
        self._sock.settimeout(max(0.001, patience_s))
        try:
            piece = self._sock.recv(_PIECE)
        except TimeoutError as error:
            raise QmpFailed(f"QEMU did not answer within {self._timeout_s:.0f} s") from error
        except OSError as error:
            raise QmpFailed("QEMU is gone") from error
        if not piece:
            raise QmpFailed("QEMU is gone")
        return piece
