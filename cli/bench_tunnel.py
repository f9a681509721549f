"""A tunnel's throughput out of a machine, against the same fetch without one.

On gVisor that is the same program in the same kind of machine, only with the host's network: what
gVisor itself costs is in both. Other kinds of machine are only reported.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli.bench_egress import Connection, listening, tunnel_grant
from cli.boundary.baits import server_context
from cli.errors import fail
from cli.figures import Figure, middle
from egress.audit import AuditLog
from egress.broker import Broker
from egress.meter import Meter
from egress.policy import Manifest
from sandbox.launch import Launch
from sandbox.pool import refuse
from sandbox.provider import EgressHandler, MachineSpec, Provider
from sandbox.providers import make_provider
from sandbox.providers.gvisor import GvisorProvider

if TYPE_CHECKING:
    from cli.bench import Bench

ROUNDS = 3
DOWNLOAD = 128 * 1024 * 1024
NAME = "bench.invalid"
_MIB = 1024 * 1024

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


class Connected(GvisorProvider):
    """Machines that share the host's network, as no run's does: what a tunnel is held against."""

    def plan(self, spec: MachineSpec, machine_id: str, directory: Path) -> Launch:
        planned = super().plan(spec, machine_id, directory)
        config = json.loads(planned.files["config.json"])
        spaces = config["linux"]["namespaces"]
        config["linux"]["namespaces"] = [each for each in spaces if each["type"] != "network"]
        swap = {"--network=none": "--network=host"}
        return replace(
            planned,
            argv=tuple(swap.get(word, word) for word in planned.argv),
            files={**planned.files, "config.json": json.dumps(config)},
        )


def measure_tunnel(bench: Bench) -> list[Figure]:
    """Fetch over TLS through a tunnel and directly, in turn, from the same server."""
    bench.say("egress: tunnel throughput")
    state = bench.folder / "egress-state"
    provider = make_provider(bench.settings.provider, state)
    spec = MachineSpec("bench", bench.template)
    with _pouring() as port, _broker(bench.folder, port) as broker:
        through, direct = [], []
        for _ in range(ROUNDS):
            through.append(_fetch(provider, spec, broker.handle, port, "proxy"))
            if provider.name == GvisorProvider.name:
                direct.append(_fetch(Connected(state), spec, refuse, port))
    figures = [Figure("egress_tunnel_mib_s", middle(through), "MiB/s", f"p50 of {ROUNDS}")]
    return [*figures, *_ratio(middle(through), direct)]


def _ratio(through: float, direct: list[float]) -> list[Figure]:
    if not direct:
        return []
    here = middle(direct)
    held_to = f"a machine with the host's network: {here:.0f} MiB/s, p50 of {ROUNDS}"
    return [Figure("egress_direct_over_tunnel_ratio", here / through, "x", held_to, bar=2.0)]


@contextmanager
def _broker(folder: Path, port: int) -> Iterator[Broker]:
    with AuditLog(folder / f"bench-audit-{secrets.token_hex(4)}.jsonl") as audit:
        broker = Broker(
            Manifest("bench", (tunnel_grant(NAME, port),)),
            credentials={},
            meter=Meter({}),
            audit=audit,
            resolve=lambda _host, _port: ["127.0.0.1"],
        )
        try:
            yield broker
        finally:
            broker.close()


def _fetch(
    provider: Provider, spec: MachineSpec, egress: EgressHandler, port: int, *how: str
) -> float:
    """Return MiB a second."""
    machine = provider.create(spec, egress)
    try:
        done = machine.exec(["python3", "-c", _FETCH, NAME, str(port), *how], timeout_s=300)
    finally:
        machine.kill()
    words = done.stdout.split()
    if len(words) != 2 or words[0] != str(DOWNLOAD).encode():
        raise fail(f"the tunnel's download failed: {done.stdout[-100:]!r} {done.stderr[-300:]!r}")
    return DOWNLOAD / _MIB / float(words[1])


@contextmanager
def _pouring() -> Iterator[int]:
    """Serve DOWNLOAD bytes over TLS to whoever connects."""
    context = server_context(NAME)

    def pour(duplex: Connection) -> None:
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(duplex.sock, server_side=True) as tls,
        ):
            piece = bytes(_MIB)
            for _ in range(DOWNLOAD // _MIB):
                tls.sendall(piece)

    with listening(pour) as port:
        yield port
