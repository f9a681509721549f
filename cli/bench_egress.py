"""What the broker costs: latency, memory, throughput and decisions, each against going direct."""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cli.boundary.baits import server_context
from cli.errors import fail
from cli.figures import Figure, middle
from demo.model import ScriptedModel
from demo.scenario import Message, Text, prose_only
from egress.audit import AuditLog
from egress.broker import Broker
from egress.meter import Meter
from egress.policy import (
    Grant,
    GrantKind,
    Manifest,
    Phase,
    decide_connect,
    decide_request,
)
from egress.routes import ModelRoute, model_route
from sandbox.provider import MachineSpec
from sandbox.providers import make_provider

if TYPE_CHECKING:
    from cli.bench import Bench

ROUNDS = 200
STREAMS = 200
DOWNLOAD = 128 * 1024 * 1024
NAME = "bench.invalid"
_MIB = 1024 * 1024
_ANSWER = "A sentence that is long enough to come in pieces. " * 20


def measure_egress(bench: Bench) -> list[Figure]:
    """Measure the broker in this process, and a tunnel out of a machine of the provider in use."""
    bench.say("egress: latency")
    figures = [*_latency(bench.folder), _decisions()]
    bench.say("egress: concurrent streams")
    figures.append(_streams(bench.folder))
    bench.say("egress: tunnel throughput")
    return [*figures, *_throughput(bench)]


# ---- latency ---------------------------------------------------------------------------------


def _latency(folder: Path) -> list[Figure]:
    """Ask directly and through the broker, in turn, so that both see the same host."""
    with ScriptedModel(prose_only(_ANSWER)) as model, _serving(folder, model) as (port, route):
        through = f"/model/{route.provider}/v1/chat/completions"
        pairs = [
            (_ask(model.port, "/v1/chat/completions", stream=s), _ask(port, through, stream=s))
            for s in (False, True)
            for _ in range(ROUNDS)
        ]
    whole, streamed = pairs[:ROUNDS], pairs[ROUNDS:]
    added = (middle(b for _, b in whole) - middle(a for a, _ in whole)) * 1000
    first = (middle(b for _, b in streamed) - middle(a for a, _ in streamed)) * 1000
    reference = f"the same scripted server asked directly, p50 of {ROUNDS}"
    return [
        Figure("egress_model_added_p50_ms", added, "ms", reference, bar=5.0),
        Figure("egress_first_byte_added_p50_ms", first, "ms", reference, bar=5.0),
    ]


def _ask(port: int, path: str, *, stream: bool) -> float:
    """Return the seconds until the whole answer was there, or a stream's first byte."""
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "stream": stream}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    begun = time.monotonic()
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read(1 if stream else None)
    seconds = time.monotonic() - begun
    answer.read()
    connection.close()
    if answer.status != 200:
        raise fail(f"the bench's model call was answered {answer.status}")
    return seconds


@contextmanager
def _serving(folder: Path, model: ScriptedModel) -> Iterator[tuple[int, ModelRoute]]:
    """Put a broker for the model behind a loopback listener, as the guest's agent is one."""
    route = model_route("openai/m", model.openai_base)
    key = secrets.token_hex(16)
    with AuditLog(folder / f"bench-audit-{secrets.token_hex(4)}.jsonl") as audit:
        broker = Broker(
            Manifest("bench", (route.grant,)),
            credentials={route.provider: route.credential(key)},
            meter=Meter({}),
            audit=audit,
        )
        with _listening(broker.handle) as port:
            yield port, route
        broker.close()


class _Duplex:
    """A connected socket as the broker takes it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def recv(self, limit: int) -> bytes:
        return self.sock.recv(limit)

    def sendall(self, data: bytes) -> None:
        self.sock.sendall(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


@contextmanager
def _listening(handle: Callable[[_Duplex], None]) -> Iterator[int]:
    server = socket.create_server(("127.0.0.1", 0), backlog=STREAMS)

    def accept() -> None:
        while True:
            try:
                sock, _ = server.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=handle, args=(_Duplex(sock),), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield int(server.getsockname()[1])
    finally:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


# ---- many at once ----------------------------------------------------------------------------


def _streams(folder: Path) -> Figure:
    """Hold many calls open; what the model's own threads take is measured first, and left out."""
    direct = _held_memory(folder, through_broker=False)
    both = _held_memory(folder, through_broker=True)
    reference = f"the same {STREAMS} calls held directly: {direct:.1f} MiB"
    return Figure("egress_200_streams_mib", both - direct, "MiB", reference, bar=64.0)


def _held_memory(folder: Path, *, through_broker: bool) -> float:
    """Return MiB that a call to a model that does not answer yet takes, for all of them."""
    release = threading.Event()

    def wait(_messages: Sequence[Message]) -> Text:
        release.wait(60)
        return Text("Now.")

    with ScriptedModel(wait) as model, _serving(folder, model) as (port, route):
        path = f"/model/{route.provider}" if through_broker else ""
        gc.collect()
        before = _resident()
        socks = [
            _hold(port if through_broker else model.port, f"{path}/v1/chat/completions")
            for _ in range(STREAMS)
        ]
        time.sleep(1.0)
        used = _resident() - before
        release.set()
        for sock in socks:
            sock.close()
    return used / _MIB


def _hold(port: int, path: str) -> socket.socket:
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "stream": True}
    )
    sock = socket.create_connection(("127.0.0.1", port), timeout=30)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    sock.sendall(head.encode() + body.encode())
    return sock


def _resident() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise fail("/proc/self/status names no VmRSS")


# ---- decisions -------------------------------------------------------------------------------


def _decisions() -> Figure:
    grants = [_tunnel_grant(f"h{n}.example", 443, f"host.{n}") for n in range(20)]
    manifest = Manifest("bench", (*grants, model_route("gpt-4o").grant))
    begun, count = time.monotonic(), 0
    while time.monotonic() - begun < 0.5:
        decide_connect(manifest, Phase.AGENT, "H19.example.", 443)
        decide_request(manifest, Phase.AGENT, "openai", "POST", "/v1/chat/completions")
        count += 2
    rate = count / (time.monotonic() - begun)
    return Figure("egress_decisions_per_s", rate, "/s", "21 grants, one core, reported only")


def _tunnel_grant(host: str, port: int, name: str = "bench") -> Grant:
    return Grant(
        name=name,
        kind=GrantKind.TUNNEL,
        scheme="https",
        host=host,
        port=port,
        phases=frozenset({Phase.AGENT}),
        private=True,
    )


# ---- throughput ------------------------------------------------------------------------------

_FETCH = """
import socket, ssl, sys, time
host, port, proxy = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
sock = socket.create_connection(("127.0.0.1", 3128 if proxy else port))
if proxy:
    sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
    while not (seen := locals().get("seen", b"") + sock.recv(1)).endswith(b"\\r\\n\\r\\n"):
        pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
tls = context.wrap_socket(sock, server_hostname=host)
begun, total, buffer = time.monotonic(), 0, bytearray(1 << 20)
while size := tls.recv_into(buffer):
    total += size
print(total, time.monotonic() - begun)
"""


def _throughput(bench: Bench) -> list[Figure]:
    """Fetch over TLS in a machine by a tunnel, and on the host directly, from the same server."""
    provider = make_provider(bench.settings.provider, bench.folder / "egress-state")
    context = server_context(NAME)
    audit = AuditLog(bench.folder / f"bench-audit-{secrets.token_hex(4)}.jsonl")
    with audit, _pouring(context) as port:
        broker = Broker(
            Manifest("bench", (_tunnel_grant(NAME, port),)),
            credentials={},
            meter=Meter({}),
            audit=audit,
            resolve=lambda _host, _port: ["127.0.0.1"],
        )
        sandbox = provider.create(MachineSpec("bench", bench.template), broker.handle)
        try:
            done = sandbox.exec(["python3", "-c", _FETCH, NAME, str(port), "proxy"], timeout_s=300)
        finally:
            sandbox.kill()
            broker.close()
        direct = _fetch_here(port)
    through = _rate(done.stdout, done.stderr)
    reference = f"{direct:.0f} MiB/s: a client on the host, the same server"
    slowest = 0.5 if provider.name == "gvisor" else None
    return [
        Figure("egress_tunnel_mib_s", through, "MiB/s", reference),
        Figure(
            "egress_direct_over_tunnel_ratio",
            direct / through,
            "x",
            reference,
            bar=1 / slowest if slowest else None,
        ),
    ]


def _rate(stdout: bytes, stderr: bytes = b"") -> float:
    words = stdout.split()
    if len(words) != 2 or words[0] != str(DOWNLOAD).encode():
        raise fail(f"the tunnel's download failed: {stdout[-100:]!r} {stderr[-300:]!r}")
    return DOWNLOAD / _MIB / float(words[1])


def _fetch_here(port: int) -> float:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port)) as sock,
        context.wrap_socket(sock, server_hostname=NAME) as tls,
    ):
        begun, total, buffer = time.monotonic(), 0, bytearray(_MIB)
        while size := tls.recv_into(buffer):
            total += size
    return total / _MIB / (time.monotonic() - begun)


@contextmanager
def _pouring(context: ssl.SSLContext) -> Iterator[int]:
    """Serve DOWNLOAD bytes over TLS to whoever connects."""

    def pour(duplex: _Duplex) -> None:
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(duplex.sock, server_side=True) as tls,
        ):
            piece = bytes(_MIB)
            for _ in range(DOWNLOAD // _MIB):
                tls.sendall(piece)

    with _listening(pour) as port:
        yield port
