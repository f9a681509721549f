"""One request to one upstream: connect, send, read as it comes, under deadlines.

Resolved and connected on the host; TLS is verified against the system's CAs and the operator's.
Redirects are not followed. Every way it can fail is an `UpstreamFailed` with a reason that may be
shown: it never holds a header's value.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import h11

from egress.hosts import format_authority
from egress.inject import Headers, Origin
from egress.vendors import CallError

MAX_HEAD = 64 * 1024
CHUNK = 64 * 1024


@dataclass(frozen=True)
class UpstreamLimits:
    """Seconds, and bytes of a response. `silence_s`: the longest pause, first byte included."""

    connect_s: float = 15.0
    silence_s: float = 300.0
    total_s: float = 1800.0
    response_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True)
class UpstreamRequest:
    """What is sent, credential included: never logged, never shown."""

    origin: Origin
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def __repr__(self) -> str:
        return f"UpstreamRequest({self.method} {self.origin})"


@dataclass(frozen=True)
class ResponseHead:
    """Status and headers; `length` is the announced length of the body, if any."""

    status: int
    headers: tuple[tuple[str, str], ...]
    length: int | None

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")


class UpstreamFailed(Exception):
    """The upstream, or the way to it, failed."""

    def __init__(self, error: CallError, reason: str) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a verifying context: system CAs, and `ca_file`'s. OSError when that is unreadable.

    A process makes one and keeps it while the file stays as it is: reading the system's CAs takes
    longer than anything else that a broker does before its first request.
    """
    if ca_file is None:
        return _make_tls_context(None, None)
    stat = Path(ca_file).stat()
    return _make_tls_context(ca_file, (stat.st_ino, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=4)
def _make_tls_context(ca_file: str | None, _version: tuple[int, ...] | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file is not None:
        context.load_verify_locations(cafile=ca_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


class Exchange:
    """One request and its response on a connection of its own. `abort` from any thread."""

    def __init__(
        self,
        request: UpstreamRequest,
        tls: ssl.SSLContext | None,
        limits: UpstreamLimits,
        dial: Callable[[], socket.socket] | None = None,
    ) -> None:
        """Connect, by `dial` where the address is settled already. UpstreamFailed."""
        self._request = request
        self._dial = dial
        self._limits = limits
        self._deadline = time.monotonic() + limits.total_s
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._started = False
        self._sock = self._connect(tls)

    def send(self) -> None:
        """Send the whole request. An upstream that answers early and hangs up is read anyway."""
        request = self._request
        head = h11.Request(
            method=request.method, target=request.target, headers=_wire_headers(request)
        )
        events: list[h11.Event] = [head, h11.Data(data=request.body), h11.EndOfMessage()]
        data = b"".join(self._http.send(event) or b"" for event in events)
        self._set_timeout()
        # A broken pipe is judged by what can still be read: often a 401 or a 413.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            try:
                self._sock.sendall(data)
            except TimeoutError:
                raise self._timed_out("took no more of the request") from None

    def head(self) -> ResponseHead:
        """Return the response's status and headers; informational ones are skipped."""
        event = self._next_event()
        while isinstance(event, h11.InformationalResponse):
            event = self._next_event()
        if not isinstance(event, h11.Response):
            raise UpstreamFailed(CallError.PROTOCOL, "the upstream closed without an answer")
        self._started = True
        headers = tuple((k.decode("ascii"), v.decode("latin-1")) for k, v in event.headers)
        length = next((int(value) for name, value in headers if name == "content-length"), None)
        chunked = any(name == "transfer-encoding" for name, _ in headers)
        return ResponseHead(event.status_code, headers, None if chunked else length)

    def chunks(self) -> Iterator[bytes]:
        """Yield the body's bytes as they arrive, up to the limit."""
        total = 0
        while isinstance(event := self._next_event(), h11.Data):
            total += len(event.data)
            if total > self._limits.response_bytes:
                limit = self._limits.response_bytes
                raise UpstreamFailed(CallError.TOO_LARGE, f"the answer is over {limit} bytes")
            yield bytes(event.data)

    def abort(self) -> None:
        """Wake whoever waits here; they find the connection closed."""
        # Not SSLSocket.shutdown: it would turn a reader in another thread to the raw bytes.
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connection back; idempotent."""
        self._sock.close()

    def _connect(self, tls: ssl.SSLContext | None) -> socket.socket:
        if self._dial is not None:
            return self._dial()
        scheme, host, port = self._request.origin
        where = f"{host}:{port}"
        try:
            sock = socket.create_connection((host, port), timeout=self._limits.connect_s)
        except TimeoutError:
            raise UpstreamFailed(CallError.TIMEOUT, f"{where} does not answer") from None
        except (OSError, UnicodeError) as error:
            raise UpstreamFailed(CallError.UNREACHABLE, f"{where}: {error}") from None
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock if scheme == "http" else _start_tls(sock, tls, host)
        except BaseException:
            sock.close()
            raise

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(self._receive())
        except h11.RemoteProtocolError:
            # h11's own text may quote the upstream's bytes, an echoed key among them.
            raise self._broken("the upstream's answer is cut off or is no HTTP/1.1") from None
        return event

    def _receive(self) -> bytes:
        self._set_timeout()
        try:
            return self._sock.recv(CHUNK)
        except TimeoutError:
            raise self._timed_out("is silent") from None
        except OSError as error:
            raise self._broken(f"the upstream hung up: {error}") from None

    def _broken(self, reason: str) -> UpstreamFailed:
        return UpstreamFailed(CallError.TRUNCATED if self._started else CallError.PROTOCOL, reason)

    def _set_timeout(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._timed_out("took too long")
        self._sock.settimeout(min(left, self._limits.silence_s))

    def _timed_out(self, what: str) -> UpstreamFailed:
        _, host, port = self._request.origin
        return UpstreamFailed(CallError.TIMEOUT, f"{host}:{port} {what}")


def _start_tls(sock: socket.socket, tls: ssl.SSLContext | None, host: str) -> socket.socket:
    if tls is None:
        raise UpstreamFailed(CallError.TLS, "no TLS context was set up")
    try:
        return tls.wrap_socket(sock, server_hostname=host)
    except TimeoutError:
        raise UpstreamFailed(CallError.TIMEOUT, f"{host} does not finish the handshake") from None
    except OSError as error:
        raise UpstreamFailed(CallError.TLS, f"TLS with {host} failed: {error}") from None


def _wire_headers(request: UpstreamRequest) -> Headers:
    """Put our own framing first: one Host, one length, no compression (an echo must be seen)."""
    scheme, host, port = request.origin
    own = [("host", format_authority(scheme, host, port)), ("connection", "close")]
    if request.body or request.method not in ("GET", "HEAD"):
        own.append(("content-length", str(len(request.body))))
    if all(name != "accept-encoding" for name, _ in request.headers):
        own.append(("accept-encoding", "identity"))
    return own + list(request.headers)
