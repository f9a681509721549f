"""Tunnels and plain HTTP to granted hosts: package registries, and what the operator lists.

Each request is judged already when it comes here; here the host is resolved and pinned, the first
bytes are held against the grant, and what was carried is recorded. TLS goes through as it is: the
guest's tools verify the upstream themselves, and nothing is added to what they say.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from egress.dial import AddressRefused, Resolve, connect, pin
from egress.guest import BadRequest, GuestConnection, GuestGone, RequestHead
from egress.hello import ALERT_ACCESS_DENIED, BadHello, HelloReader
from egress.inject import Headers
from egress.ledger import Carried, Ledger
from egress.policy import Grant, Phase, decide_hello
from egress.target import Verdict
from egress.tunnel import Allowance, OverLimit, Traffic, Tunnel, TunnelLimits
from egress.upstream import Exchange, ResponseHead, UpstreamFailed, UpstreamLimits, UpstreamRequest
from egress.vendors import CallError
from egress.watchdog import Guard

# What a registry's client may say: conditions, ranges and formats, nothing that identifies anybody.
_PASSED_UP = frozenset(
    {
        "accept",
        "accept-encoding",
        "cache-control",
        "content-type",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "pragma",
        "range",
        "user-agent",
    }
)
# Belongs to one hop (RFC 9110 §7.6.1), or is made anew here.
_KEPT_BACK = frozenset(
    {
        "alt-svc",
        "connection",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class Abortable(Protocol):
    def abort(self) -> None: ...


class Line(Protocol):
    """The connection, which ends whatever is attached to it when it is ended."""

    def bind(self, grant: Grant) -> None:
        """Say what the connection lives by, so that it ends when its phase is over."""

    def hold(self, other: Abortable) -> None:
        """Have `other` aborted with the connection, at once if that is over already."""


class Held:
    """A connected socket as something that can be aborted from another thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def abort(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


@dataclass(frozen=True)
class Passage:
    """One granted request of the guest's, and where it stands."""

    line: Line
    guest: GuestConnection
    guard: Guard
    phase: Phase
    grant: Grant
    verdict: Verdict
    head: RequestHead
    shown: str


@dataclass
class Forwarder:
    """Serves one run's tunnels and plain requests; safe between threads."""

    ledger: Ledger
    limits: TunnelLimits
    resolve: Resolve
    _allowance: Allowance = field(init=False)

    def __post_init__(self) -> None:
        self._allowance = Allowance(self.limits.run_up_bytes, self.limits.run_down_bytes)

    def serve(self, passage: Passage) -> None:
        """Serve a granted CONNECT or absolute-form request. BadRequest, GuestGone, AuditBroken."""
        passage.line.bind(passage.grant)
        act = self._tunnel if passage.head.method == "CONNECT" else self._plain
        try:
            act(passage)
        except AddressRefused as refused:
            raise BadRequest(403, refused.reason, passage.shown) from None
        except UpstreamFailed as failure:
            _say_failure(passage.guest, failure)

    def _tunnel(self, passage: Passage) -> None:
        addresses = self._pin(passage)
        self.ledger.allow(passage.phase, passage.grant, passage.shown)
        with closing(connect(addresses, passage.verdict.port, self.limits.connect_s)) as upstream:
            passage.line.hold(Held(upstream))
            first = self._hello(passage, passage.guest.accept_tunnel())
            self._carry(passage, upstream, first)

    def _plain(self, passage: Passage) -> None:
        body = passage.guest.read_body()
        addresses = self._pin(passage)
        self.ledger.allow(passage.phase, passage.grant, passage.shown)
        begun, traffic, ended = time.monotonic(), Traffic(len(body)), "the guest left"
        try:
            with closing(self._exchange(passage, body, addresses)) as exchange:
                exchange.send()
                self._answer(passage, exchange, exchange.head(), traffic)
            ended = "done"
        except UpstreamFailed as failure:
            ended = failure.reason
            raise
        finally:
            self._note(passage, traffic, begun, ended)

    def _pin(self, passage: Passage) -> tuple[str, ...]:
        host, port = passage.verdict.host, passage.verdict.port
        return pin(passage.grant, host, port, self.resolve, self.limits.connect_s)

    def _hello(self, passage: Passage, early: bytes) -> bytes:
        """Read the tunnel's first bytes until they can be judged; returns them all. GuestGone."""
        reader = HelloReader()
        passage.guard.allow(self.limits.hello_s, "its TLS ClientHello")
        try:
            hello = reader.feed(early)
            while hello is None:
                piece = passage.guest.receive()
                if not piece:
                    raise GuestGone("no ClientHello came")
                hello = reader.feed(piece)
        except BadHello as error:
            self._end_tunnel(passage, f"a tunnel carries TLS only: {error}")
        decision = decide_hello(passage.verdict.host, hello)
        if not decision.allowed:
            self._end_tunnel(passage, decision.reason)
        return reader.raw

    def _end_tunnel(self, passage: Passage, reason: str) -> NoReturn:
        """Refuse within a tunnel: there is no HTTP to say it with any more, but TLS has a word."""
        self.ledger.refuse(passage.phase, passage.shown, reason)
        passage.guest.write(ALERT_ACCESS_DENIED)
        raise GuestGone(reason)

    def _carry(self, passage: Passage, upstream: socket.socket, first: bytes) -> None:
        begun = time.monotonic()
        tunnel = Tunnel(passage.guest, upstream, passage.guard, self.limits, self._allowance)
        ended = ""
        try:
            tunnel.run(first)
        except OverLimit as over:
            ended = str(over)
            self.ledger.refuse(passage.phase, passage.shown, ended)
        except GuestGone:
            ended = "the guest left"
        finally:
            self._note(passage, tunnel.traffic, begun, passage.guard.expired or ended or "done")

    def _exchange(self, passage: Passage, body: bytes, addresses: tuple[str, ...]) -> Exchange:
        verdict, head = passage.verdict, passage.head
        target = f"{verdict.path}?{verdict.query}" if verdict.query else verdict.path
        headers = tuple(pair for pair in head.headers if pair[0] in _PASSED_UP)
        request = UpstreamRequest(
            ("http", verdict.host, verdict.port), head.method, target, headers, body
        )
        limits = UpstreamLimits(
            connect_s=self.limits.connect_s,
            silence_s=self.limits.idle_s,
            total_s=self.limits.total_s,
            response_bytes=self.limits.down_bytes,
        )
        exchange = Exchange(
            request,
            None,
            limits,
            lambda: connect(addresses, verdict.port, self.limits.connect_s),
        )
        passage.line.hold(exchange)
        return exchange

    def _answer(
        self, passage: Passage, exchange: Exchange, head: ResponseHead, traffic: Traffic
    ) -> None:
        guest = passage.guest
        guest.start(head.status, _keep_headers(head.headers), head.length)
        for chunk in exchange.chunks():
            traffic.down += len(chunk)
            self._allow_down(passage, len(chunk))
            guest.send(chunk)
        guest.finish()

    def _allow_down(self, passage: Passage, size: int) -> None:
        try:
            self._allowance.take("down", size)
        except OverLimit as over:
            self.ledger.refuse(passage.phase, passage.shown, str(over))
            raise GuestGone(str(over)) from None

    def _note(self, passage: Passage, traffic: Traffic, begun: float, ended: str) -> None:
        self.ledger.carried(
            Carried(
                phase=passage.phase,
                grant=passage.grant.name,
                host=passage.verdict.host,
                port=passage.verdict.port,
                up_bytes=traffic.up,
                down_bytes=traffic.down,
                seconds=round(time.monotonic() - begun, 3),
                ended=ended,
            )
        )


def _keep_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    return [(name, value) for name, value in headers if name not in _KEPT_BACK]


def _say_failure(guest: GuestConnection, failure: UpstreamFailed) -> None:
    """Tell the guest's tool what failed, if it can still be told. GuestGone otherwise."""
    if guest.answered:
        raise GuestGone(failure.reason)
    status = 504 if failure.error is CallError.TIMEOUT else 502
    text = f"Drydock: {failure.reason}\n".encode("ascii", "replace")
    guest.answer(status, text, "text/plain; charset=utf-8", [("connection", "close")])
