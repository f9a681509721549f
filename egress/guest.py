"""The guest's side of a connection: HTTP/1.1 out of hostile bytes, with limits.

Framing that two parsers could read in two ways (two lengths, chunked and length, bare line feeds,
folded headers) is refused although h11 would read it: what is forwarded is always written anew,
but a client that sends such a thing is not one we know.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import h11

from egress.watchdog import Guard

RECV = 64 * 1024
IDLE = "its next request"
HEADERS = "its request headers"


class Duplex(Protocol):
    """A blocking byte stream, as the channel gives it."""

    def recv(self, limit: int) -> bytes: ...

    def sendall(self, data: bytes) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class GuestLimits:
    """Bytes and seconds that one guest connection may take."""

    head_bytes: int = 32 * 1024
    header_count: int = 100
    body_bytes: int = 32 * 1024 * 1024
    head_s: float = 15.0
    body_s: float = 60.0
    send_s: float = 60.0
    idle_s: float = 120.0


@dataclass(frozen=True)
class RequestHead:
    """A request as far as its headers; names in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]


class BadRequest(Exception):
    """The guest's bytes are no request that we serve."""

    def __init__(self, status: int, reason: str, target: str = "-") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.target = target


class GuestGone(Exception):
    """The guest closed its connection, or was cut off."""


class GuestConnection:
    """Reads requests from, and writes responses to, one guest connection. One thread."""

    def __init__(self, duplex: Duplex, guard: Guard, limits: GuestLimits) -> None:
        self._duplex = duplex
        self._guard = guard
        self._limits = limits
        self._leftover = b""
        self._http = self._fresh()

    def read_head(self) -> RequestHead | None:
        """Return the next request's head; None when the guest is done. BadRequest, GuestGone."""
        self._http = self._fresh()
        raw = self._read_raw_head()
        if raw is None:
            return None
        head, rest = raw
        if problem := head_problem(head):
            raise BadRequest(400, problem)
        self._http.receive_data(head + rest)
        event = self._next_event()
        if not isinstance(event, h11.Request):
            raise BadRequest(400, "no request")
        return self._checked(event)

    def read_body(self) -> bytes:
        """Return the request's body, asking for it where the guest waits to be asked."""
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))
        self._guard.allow(self._limits.body_s, "its request body")
        body = bytearray()
        while isinstance(event := self._next_event(), h11.Data):
            body += event.data
            if len(body) > self._limits.body_bytes:
                raise BadRequest(413, f"the body is over {self._limits.body_bytes} bytes")
        self._guard.rest()
        self._leftover = self._http.trailing_data[0]
        return bytes(body)

    def skip_body(self) -> None:
        """Read a refused request's body, so that the guest is free to read the refusal."""
        if not self._http.they_are_waiting_for_100_continue:
            with contextlib.suppress(BadRequest):
                self.read_body()

    def accept_tunnel(self) -> bytes:
        """Answer a CONNECT with 200; returns what the guest has sent already. No HTTP follows."""
        while self._http.next_event() not in (h11.PAUSED, h11.NEED_DATA):
            continue
        early = self._http.trailing_data[0]
        self._send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
        return early

    def receive(self) -> bytes:
        """Return a tunnel's next bytes, b"" at the end. GuestGone."""
        try:
            return self._duplex.recv(RECV)
        except OSError as error:
            raise GuestGone(self._guard.expired or str(error)) from None

    def write(self, data: bytes) -> None:
        """Send a tunnel's bytes. GuestGone."""
        try:
            self._duplex.sendall(data)
        except OSError as error:
            raise GuestGone(self._guard.expired or str(error)) from None

    def start(self, status: int, headers: Iterable[tuple[str, str]], length: int | None) -> None:
        """Send a response's head; without a length the body is chunked."""
        pairs = [*headers, *([("content-length", str(length))] if length is not None else [])]
        self._send(h11.Response(status_code=status, headers=pairs, reason=_phrase(status)))

    def send(self, data: bytes) -> None:
        """Send a piece of the body at once."""
        if data:
            self._send(h11.Data(data=data))

    def finish(self) -> None:
        """Send the end of the response."""
        self._send(h11.EndOfMessage())

    def answer(
        self, status: int, body: bytes, content_type: str, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send one whole response."""
        self.start(status, [("content-type", content_type), *headers], len(body))
        self.send(body)
        self.finish()

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on this connection."""
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    @property
    def answered(self) -> bool:
        """Whether a response has been begun for the current request."""
        return self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE)

    def _fresh(self) -> h11.Connection:
        return h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes + RECV)

    def _read_raw_head(self) -> tuple[bytes, bytes] | None:
        """Collect bytes up to the empty line, so that they can be judged before they are parsed."""
        data = self._leftover
        self._guard.allow(
            self._limits.head_s if data else self._limits.idle_s, HEADERS if data else IDLE
        )
        while (end := self._head_end(data)) < 0:
            piece = self._receive()
            if not piece:
                if data.strip(b"\r\n"):
                    raise BadRequest(400, "the connection ended within the headers")
                return None
            if not data:
                self._guard.allow(self._limits.head_s, HEADERS)
            data += piece
        self._guard.rest()
        return data[: end + 4], data[end + 4 :]

    def _head_end(self, data: bytes) -> int:
        """Return where the empty line is, -1 for not yet. BadRequest for what is no such head."""
        end = data.find(b"\r\n\r\n")
        if problem := preface_problem(data):
            raise problem
        if max(end, len(data) if end < 0 else 0) > self._limits.head_bytes:
            raise BadRequest(431, f"the headers are over {self._limits.head_bytes} bytes")
        return end

    def _checked(self, event: h11.Request) -> RequestHead:
        headers = tuple((k.decode("ascii"), v.decode("latin-1")) for k, v in event.headers)
        head = RequestHead(event.method.decode("ascii"), event.target.decode("ascii"), headers)
        if len(headers) > self._limits.header_count:
            raise BadRequest(431, f"over {self._limits.header_count} headers", head.target)
        # Python's http.client (so pip) speaks 1.0 to a proxy, and only for CONNECT.
        if event.http_version != b"1.1" and head.method != "CONNECT":
            raise BadRequest(505, "HTTP/1.1 only", head.target)
        names = {name.lower() for name, _ in headers}
        if head.method == "CONNECT" and names & {"content-length", "transfer-encoding"}:
            raise BadRequest(400, "CONNECT has no body", head.target)
        return head

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                piece = self._receive()
                if not piece:
                    raise BadRequest(400, "the connection ended within the body")
                self._http.receive_data(piece)
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, "not valid HTTP/1.1") from None
        return event

    def _receive(self) -> bytes:
        try:
            data = self._duplex.recv(RECV)
        except OSError as error:
            data = b""
            if not self._guard.expired:
                raise GuestGone(str(error)) from None
        if self._guard.expired and self._guard.expired != IDLE:
            raise BadRequest(408, f"the guest took too long over {self._guard.expired}")
        return data

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        self._guard.allow(self._limits.send_s, "reading its response")
        try:
            self._duplex.sendall(data or b"")
        except OSError as error:
            raise GuestGone(self._guard.expired or str(error)) from None
        self._guard.rest()


def _phrase(status: int) -> bytes:
    known = {each.value: each.phrase for each in HTTPStatus}
    return known.get(status, "").encode()


def head_problem(head: bytes) -> str | None:
    """Say what makes a raw head ambiguous; None for one with a single reading."""
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    if any(b"\n" in line or b"\r" in line for line in lines):
        return "bare line feeds or carriage returns in the headers"
    if any(line.startswith((b" ", b"\t")) for line in lines):
        return "folded headers"
    if b"\0" in head:
        return "a zero byte in the headers"
    return _length_problem([line.partition(b":") for line in lines[1:]])


def _length_problem(headers: list[tuple[bytes, bytes, bytes]]) -> str | None:
    """Judge the raw framing headers: h11 would fold equal lengths into one."""
    lengths = [value for name, _, value in headers if name.strip().lower() == b"content-length"]
    if len(lengths) > 1 or any(b"," in value for value in lengths):
        return "more than one Content-Length"
    if lengths and any(name.strip().lower() == b"transfer-encoding" for name, _, _ in headers):
        return "both Content-Length and Transfer-Encoding"
    return None


def preface_problem(data: bytes) -> BadRequest | None:
    """Recognise early what will never become an HTTP/1.1 head."""
    if data.startswith(b"PRI * HTTP/2"):
        return BadRequest(505, "HTTP/2 is not spoken here")
    if data[:1] == b"\x16":
        return BadRequest(400, "TLS is not spoken here: plain HTTP to the local address")
    if b"\n\n" in data.partition(b"\r\n\r\n")[0]:
        return BadRequest(400, "bare line feeds in the headers")
    return None


def close_quietly(duplex: Duplex) -> None:
    """Close a connection that may be gone already."""
    with contextlib.suppress(OSError):
        duplex.close()
