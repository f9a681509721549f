"""Tunnels and plain HTTP through the broker, over real sockets and with real TLS."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from egress.audit import AuditLog
from egress.broker import Broker, Limits
from egress.dial import pin
from egress.guest import GuestLimits
from egress.meter import Meter
from egress.policy import Grant, GrantKind, Manifest, Phase
from egress.tunnel import TunnelLimits
from egress.upstream import UpstreamFailed, UpstreamLimits
from tests.egress.hellos import ECH, SNI, client_hello, openssl_hello, sni
from tests.egress.listener import Listener, read_all
from tests.egress.upstreams import Authority, RawUpstream, json_answer, make_authority

NAME = "packages.test"
LIMITS = TunnelLimits(connect_s=5, hello_s=5, idle_s=10, total_s=20)

Open = Callable[..., Listener]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("ca"), NAME)


class TlsEcho:
    """Greets, then sends back what it reads, over TLS; counts TCP connections."""

    def __init__(self, authority: Authority, greeting: bytes = b"hi") -> None:
        self._authority = authority
        self._greeting = greeting
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.names: list[str | None] = []
        self.raw = 0
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            self.raw += 1
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, sock: socket.socket) -> None:
        sock.settimeout(20)
        with (
            sock,
            contextlib.suppress(OSError),
            self._authority.server.wrap_socket(sock, server_side=True) as tls,
        ):
            tls.sendall(self._greeting)
            while data := tls.recv(65536):
                tls.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def echo(authority: Authority) -> Iterator[TlsEcho]:
    server = TlsEcho(authority)
    yield server
    server.close()


def tunnel_grant(port: int, **changes: Any) -> Grant:
    values: dict[str, Any] = {
        "name": "pip",
        "kind": GrantKind.TUNNEL,
        "scheme": "https",
        "host": NAME,
        "port": port,
        "phases": frozenset({Phase.SETUP}),
        "private": True,
    }
    return Grant(**{**values, **changes})


@pytest.fixture
def serve_tunnels(audit: AuditLog) -> Iterator[Open]:
    with ExitStack() as stack:

        def make(
            *grants: Grant,
            limits: TunnelLimits = LIMITS,
            addresses: Mapping[str, list[str]] | None = None,
        ) -> Listener:
            known = {NAME: ["127.0.0.1"], **(addresses or {})}
            broker = Broker(
                Manifest("run-1", grants),
                credentials={},
                meter=Meter({}),
                audit=audit,
                phase=Phase.SETUP,
                limits=Limits(
                    GuestLimits(head_s=5, body_s=5, send_s=5, idle_s=10), UpstreamLimits(), limits
                ),
                resolve=lambda host, _port: known[host],
            )
            return stack.enter_context(Listener(broker))

        yield make


@pytest.fixture
def records(audit: AuditLog) -> Callable[[], list[dict[str, Any]]]:
    def read() -> list[dict[str, Any]]:
        return [json.loads(line)["record"] for line in Path(audit.path).read_text().splitlines()]

    return read


def connect(listener: Listener, target: str, version: str = "1.1") -> tuple[socket.socket, bytes]:
    """Return the socket after a CONNECT, and the status line."""
    sock = listener.connect()
    sock.sendall(f"CONNECT {target} HTTP/{version}\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = sock.recv(1)
        if not piece:
            break
        head += piece
    return sock, head.split(b"\r\n")[0]


def through(listener: Listener, authority: Authority, port: int, name: str = NAME) -> ssl.SSLSocket:
    """Return a TLS connection through the broker, as a guest's tool makes one."""
    sock, status = connect(listener, f"{NAME}:{port}")
    assert status.startswith(b"HTTP/1.1 200 ")
    context = ssl.create_default_context(cafile=str(authority.bundle))
    context.check_hostname = name == NAME
    return context.wrap_socket(sock, server_hostname=name)


def read_quietly(tls: ssl.SSLSocket) -> bytes:
    """Return what is left to read; an end without TLS's goodbye is an end."""
    try:
        return tls.recv(10)
    except OSError:
        return b""


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_granted_tunnel_carries_tls_both_ways(
    serve_tunnels: Open, authority: Authority, echo: TlsEcho, version: str, records: Any
) -> None:
    listener = serve_tunnels(tunnel_grant(echo.port))
    sock, status = connect(listener, f"{NAME}:{echo.port}", version)
    assert status.startswith(b"HTTP/1.1 200 ")
    context = ssl.create_default_context(cafile=str(authority.bundle))
    with context.wrap_socket(sock, server_hostname=NAME) as tls:
        assert tls.recv(10) == b"hi"
        data = bytes(range(256)) * 2000
        sender = threading.Thread(target=tls.sendall, args=(data,))
        sender.start()
        got = b""
        while len(got) < len(data):
            got += tls.recv(65536)
        sender.join()
    assert got == data
    listener.close()
    assert listener.broker.refusals() == ()
    kinds = [each["kind"] for each in records()]
    assert kinds == ["allowed", "carried", "host"]
    carried, host = records()[1:]
    assert carried["up_bytes"] > len(data) < carried["down_bytes"]
    assert (host["host"], host["connections"], host["phase"]) == (NAME, 1, "setup")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (openssl_hello("other.test"), "names another server, other.test"),
        (openssl_hello(None), "names no server"),
        (client_hello([(SNI, sni(NAME.encode())), (ECH, b"x")]), "hides its server name"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "a tunnel carries TLS only: not TLS"),
        (b"SSH-2.0-OpenSSH\r\n", "a tunnel carries TLS only: not TLS"),
    ],
)
def test_what_a_tunnel_may_not_carry_ends_it_before_the_upstream_sees_a_byte(
    serve_tunnels: Open, data: bytes, says: str
) -> None:
    seen: list[bytes] = []

    def watch(sock: socket.socket, request: bytes) -> None:
        seen.append(request)

    with RawUpstream(watch) as upstream:
        listener = serve_tunnels(tunnel_grant(upstream.port))
        sock, status = connect(listener, f"{NAME}:{upstream.port}")
        with sock:
            assert status.startswith(b"HTTP/1.1 200 ")
            sock.sendall(data)
            assert read_all(sock) == b"\x15\x03\x01\x00\x02\x02\x31"
    assert seen in ([], [b""])
    (refusal,) = listener.broker.refusals()
    assert says in refusal.reason
    assert refusal.target == f"CONNECT {NAME}:{upstream.port}"


def test_plain_text_after_a_good_hello_ends_the_tunnel(serve_tunnels: Open, echo: TlsEcho) -> None:
    listener = serve_tunnels(tunnel_grant(echo.port))
    sock, _ = connect(listener, f"{NAME}:{echo.port}")
    with sock:
        sock.sendall(openssl_hello(NAME))
        assert sock.recv(5)[:1] == b"\x16"
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        read_all(sock)
    listener.close()
    assert [each.reason for each in listener.broker.refusals()] == [
        "the tunnel carries something that is not TLS"
    ]


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("other.test:443", "no grant covers a tunnel to other.test"),
        (f"{NAME}:22", "only, not on 22"),
        ("127.0.0.1:443", "no grant covers a tunnel to 127.0.0.1"),
        ("2130706433:443", "no grant covers a tunnel to 127.0.0.1"),
        ("0x7f.1:443", "no grant covers a tunnel to 127.0.0.1"),
        ("0177.0.0.1:443", "no grant covers a tunnel to 127.0.0.1"),
        ("[::ffff:127.0.0.1]:443", "no grant covers a tunnel to 127.0.0.1"),
    ],
)
def test_a_tunnel_to_anything_else_is_refused(
    serve_tunnels: Open, echo: TlsEcho, target: str, says: str
) -> None:
    listener = serve_tunnels(tunnel_grant(echo.port))
    sock, status = connect(listener, target)
    sock.close()
    assert status.startswith(b"HTTP/1.1 403 ")
    assert says in listener.broker.refusals()[0].reason
    assert echo.raw == 0


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["::1"], ["169.254.169.254"], ["93.184.215.14", "10.0.0.1"]]
)
def test_a_granted_name_that_leads_inside_is_refused(
    serve_tunnels: Open, echo: TlsEcho, addresses: list[str]
) -> None:
    grant = tunnel_grant(echo.port, private=False)
    listener = serve_tunnels(grant, addresses={NAME: addresses})
    sock, status = connect(listener, f"{NAME}:{echo.port}")
    sock.close()
    assert status.startswith(b"HTTP/1.1 403 ")
    assert "resolves to" in listener.broker.refusals()[0].reason
    assert echo.raw == 0


def test_what_was_judged_is_what_is_connected_to() -> None:
    answers = iter([["93.184.215.14"], ["127.0.0.1"]])
    grant = tunnel_grant(443, private=False)
    assert pin(grant, NAME, 443, lambda *_: next(answers), 5) == ("93.184.215.14",)


def test_a_name_is_looked_up_once_for_each_connection(
    serve_tunnels: Open, audit: AuditLog, authority: Authority, echo: TlsEcho
) -> None:
    asked: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    broker = Broker(
        Manifest("run-1", (tunnel_grant(echo.port),)),
        credentials={},
        meter=Meter({}),
        audit=audit,
        phase=Phase.SETUP,
        resolve=resolve,
    )
    with Listener(broker) as listener, through(listener, authority, echo.port) as tls:
        assert tls.recv(10) == b"hi"
    assert asked == [NAME]


def test_a_stuck_resolver_fails_the_request_alone() -> None:
    release = threading.Event()

    def resolve(_host: str, _port: int) -> list[str]:
        release.wait(20)
        return []

    with pytest.raises(UpstreamFailed, match="not resolved in time"):
        pin(tunnel_grant(443), NAME, 443, resolve, 0.05)
    release.set()


def test_an_unknown_name_is_a_failure_and_no_refusal(serve_tunnels: Open) -> None:
    listener = serve_tunnels(tunnel_grant(443), addresses={NAME: []})
    sock, status = connect(listener, f"{NAME}:443")
    sock.close()
    assert status.startswith(b"HTTP/1.1 502 ")
    assert listener.broker.refusals() == ()


def test_a_closed_port_is_a_failure_and_no_refusal(serve_tunnels: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    listener = serve_tunnels(tunnel_grant(port))
    sock, status = connect(listener, f"{NAME}:{port}")
    sock.close()
    assert status.startswith(b"HTTP/1.1 502 ")
    assert listener.broker.refusals() == ()


def test_a_tunnel_ends_with_its_phase(
    serve_tunnels: Open, authority: Authority, echo: TlsEcho
) -> None:
    listener = serve_tunnels(tunnel_grant(echo.port))
    with through(listener, authority, echo.port) as tls:
        assert tls.recv(10) == b"hi"
        listener.broker.phase = Phase.AGENT
        assert read_quietly(tls) == b""
    sock, status = connect(listener, f"{NAME}:{echo.port}")
    sock.close()
    assert status.startswith(b"HTTP/1.1 403 ")
    assert "belongs to setup, not to agent" in listener.broker.refusals()[0].reason


@pytest.mark.parametrize("change", [{"down_bytes": 100_000}, {"run_down_bytes": 100_000}])
def test_a_download_beyond_the_cap_is_cut_and_recorded(
    serve_tunnels: Open, authority: Authority, change: Mapping[str, int]
) -> None:
    server = TlsEcho(authority, greeting=b"x" * 3_000_000)
    try:
        listener = serve_tunnels(tunnel_grant(server.port), limits=replace(LIMITS, **change))
        got = 0
        with through(listener, authority, server.port) as tls, contextlib.suppress(OSError):
            while data := tls.recv(65536):
                got += len(data)
        assert got <= 100_000
        listener.close()
    finally:
        server.close()
    (refusal,) = listener.broker.refusals()
    assert "100000" in refusal.reason or "run's limit of bytes down" in refusal.reason


def test_an_upload_beyond_the_cap_is_cut_and_recorded(
    serve_tunnels: Open, authority: Authority, echo: TlsEcho
) -> None:
    listener = serve_tunnels(tunnel_grant(echo.port), limits=replace(LIMITS, up_bytes=50_000))
    with through(listener, authority, echo.port) as tls, contextlib.suppress(OSError):
        tls.recv(2)
        tls.sendall(b"x" * 200_000)
        while tls.recv(65536):
            continue
    listener.close()
    (refusal,) = listener.broker.refusals()
    assert "over 50000 bytes up" in refusal.reason


@pytest.mark.parametrize(
    ("change", "say_hello"),
    [({"hello_s": 0.1}, False), ({"idle_s": 0.1}, True), ({"total_s": 0.1}, True)],
)
def test_a_tunnel_that_waits_too_long_ends_without_a_refusal(
    serve_tunnels: Open,
    authority: Authority,
    echo: TlsEcho,
    change: Mapping[str, float],
    say_hello: bool,
) -> None:
    listener = serve_tunnels(tunnel_grant(echo.port), limits=replace(LIMITS, **change))
    sock, _ = connect(listener, f"{NAME}:{echo.port}")
    with sock:
        if say_hello:
            sock.sendall(openssl_hello(NAME))
        read_all(sock)
    assert listener.broker.refusals() == ()


def test_a_guests_credential_for_the_proxy_is_recorded(serve_tunnels: Open, echo: TlsEcho) -> None:
    listener = serve_tunnels(tunnel_grant(echo.port))
    target = f"{NAME}:{echo.port}"
    with listener.connect() as sock:
        sock.sendall(
            f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
            "Proxy-Authorization: Basic b3du\r\n\r\n".encode()
        )
        assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
    assert "credential of its own" in listener.broker.refusals()[0].reason


# ---- plain HTTP ------------------------------------------------------------------------------


def plain_grant(port: int, **changes: Any) -> Grant:
    return tunnel_grant(
        port,
        **{
            "name": "apt",
            "scheme": "http",
            "methods": frozenset({"GET", "HEAD"}),
            "path_prefix": "/debian",
            **changes,
        },
    )


def get(port: int, path: str = "/debian/InRelease", *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} http://{NAME}:{port}{path} HTTP/1.1", f"Host: {NAME}:{port}", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


def test_a_granted_plain_request_is_asked_and_its_answer_passed_on(serve_tunnels: Open) -> None:
    def play(sock: socket.socket, request: bytes) -> None:
        sock.sendall(json_answer(b'{"a": 1}', "ETag: x", "Set-Cookie: a=b"))

    with RawUpstream(play) as upstream:
        listener = serve_tunnels(plain_grant(upstream.port))
        asked = get(upstream.port, "/debian/x?y=1", "If-None-Match: x", "Cookie: a", "X-Own: b")
        answer = listener.raw(asked)
    (request,) = upstream.requests
    assert request.startswith(b"GET /debian/x?y=1 HTTP/1.1\r\n")
    assert f"{NAME}:{upstream.port}".encode() in request
    assert b"if-none-match" in request.lower()
    assert b"cookie" not in request.lower()
    assert b"x-own" not in request.lower()
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b'{"a": 1}')
    assert b"etag: x" in answer.lower()
    assert b"set-cookie" not in answer.lower()
    assert [each.reason for each in listener.broker.refusals()] == [
        "the guest sent a credential of its own: header cookie"
    ]


def test_a_redirect_goes_back_to_the_guest_which_may_not_follow_it(serve_tunnels: Open) -> None:
    away = b"HTTP/1.1 302 Found\r\nLocation: http://other.test/\r\nContent-Length: 0\r\n\r\n"
    with RawUpstream(away) as upstream:
        listener = serve_tunnels(plain_grant(upstream.port))
        answer = listener.raw(get(upstream.port))
        assert answer.startswith(b"HTTP/1.1 302 ")
        followed = listener.raw(b"GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n")
    assert followed.startswith(b"HTTP/1.1 403 ")


def test_several_plain_requests_share_a_connection(serve_tunnels: Open) -> None:
    with RawUpstream(json_answer(b"{}")) as upstream:
        listener = serve_tunnels(plain_grant(upstream.port))
        answers = listener.raw(get(upstream.port) * 3)
        assert len(upstream.requests) == 3
    assert answers.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (lambda port: get(port, method="POST"), 403),
        (lambda port: get(port, "/other"), 403),
        (lambda port: get(port, "/debian/../other"), 403),
        (lambda port: get(port).replace(f"Host: {NAME}".encode(), b"Host: other.test"), 400),
        (lambda port: get(port + 1 if port < 65535 else 1), 403),
        (lambda port: get(port, "/debian", "Content-Length: 1", "Content-Length: 2"), 400),
        (lambda port: get(port, "/debian", "Upgrade: websocket"), 403),
    ],
)
def test_other_plain_requests_are_refused(
    serve_tunnels: Open, data: Callable[[int], bytes], status: int
) -> None:
    with RawUpstream(json_answer(b"{}")) as upstream:
        listener = serve_tunnels(plain_grant(upstream.port))
        answer = listener.raw(data(upstream.port))
        assert upstream.requests == []
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert len(listener.broker.refusals()) == 1


def test_a_plain_host_that_leads_inside_is_refused(serve_tunnels: Open) -> None:
    with RawUpstream(json_answer(b"{}")) as upstream:
        listener = serve_tunnels(plain_grant(upstream.port, private=False))
        assert listener.raw(get(upstream.port)).startswith(b"HTTP/1.1 403 ")
        assert upstream.requests == []


def test_a_plain_answer_beyond_the_runs_bytes_is_cut(serve_tunnels: Open) -> None:
    body = json.dumps({"a": "x" * 200_000}).encode()
    with RawUpstream(json_answer(body)) as upstream:
        listener = serve_tunnels(
            plain_grant(upstream.port), limits=replace(LIMITS, run_down_bytes=1000)
        )
        answer = listener.raw(get(upstream.port))
    assert len(answer) < 100_000
    assert "run's limit of bytes down" in listener.broker.refusals()[0].reason


def test_an_upstream_that_speaks_no_http_is_a_failure(serve_tunnels: Open) -> None:
    with RawUpstream(b"SSH-2.0-x\r\n\r\n") as upstream:
        listener = serve_tunnels(plain_grant(upstream.port))
        assert listener.raw(get(upstream.port)).startswith(b"HTTP/1.1 502 ")
    assert listener.broker.refusals() == ()
