"""What the broker costs: latency, memory, throughput and decisions, each against going direct."""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from cli.bench import Bench

ROUNDS = 200
STREAMS = 200
_MIB = 1024 * 1024
_ANSWER = "A sentence that is long enough to come in pieces. " * 20


def measure_egress(bench: Bench) -> list[Figure]:
    """Measure the broker, in this process."""
    bench.say("egress: latency")
    figures = [*_latency(bench.folder), _decisions()]
    bench.say("egress: concurrent streams")
    return [*figures, _streams(bench.folder)]


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
        with listening(broker.handle) as port:
            yield port, route
        broker.close()


class Connection:
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
def listening(handle: Callable[[Connection], None]) -> Iterator[int]:
    server = socket.create_server(("127.0.0.1", 0), backlog=STREAMS)

    def accept() -> None:
        while True:
            try:
                sock, _ = server.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=handle, args=(Connection(sock),), daemon=True).start()

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
    grants = [tunnel_grant(f"h{n}.example", 443, f"host.{n}") for n in range(20)]
    manifest = Manifest("bench", (*grants, model_route("gpt-4o").grant))
    begun, count = time.monotonic(), 0
    while time.monotonic() - begun < 0.5:
        decide_connect(manifest, Phase.AGENT, "H19.example.", 443)
        decide_request(manifest, Phase.AGENT, "openai", "POST", "/v1/chat/completions")
        count += 2
    rate = count / (time.monotonic() - begun)
    return Figure("egress_decisions_per_s", rate, "/s", "21 grants, one core, reported only")


def tunnel_grant(host: str, port: int, name: str = "bench") -> Grant:
    return Grant(
        name=name,
        kind=GrantKind.TUNNEL,
        scheme="https",
        host=host,
        port=port,
        phases=frozenset({Phase.AGENT}),
        private=True,
    )
