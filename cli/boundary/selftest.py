"""Boots a machine of a provider and attacks its boundary from inside, through the real path.

`attack_provider` returns one `Attempt` for each attack, as `work` and again as the machine's own
root. What the guest says is checked against what the host saw: a guest that was let through and
does not notice is still found.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from cli.boundary import baits as bait
from cli.boundary.baits import Baits
from egress.audit import AuditLog, verify
from egress.broker import Broker, Limits
from egress.dial import Resolve
from egress.inject import Credential
from egress.meter import Meter
from egress.policy import Grant, GrantKind, Manifest, Phase, Wire
from egress.tunnel import TunnelLimits
from egress.upstream import UpstreamLimits
from sandbox.provider import (
    WORK_DIR,
    GuestMisbehaved,
    GuestUser,
    MachineLost,
    MachineSpec,
    Provider,
    Sandbox,
    Template,
)

SCRIPT = Path(__file__).with_name("inside")
# As the script runs them.
_MODULES = ("network", "broker", "leaks", "kernel")
BYTE_CAP = 8 * 1024 * 1024
GRANTED, INWARD, PLAIN = (f"{name}.invalid" for name in ("granted", "inward", "plain"))
# One for each user, since each is to be asked for the first time.
MOVING = {user: f"moving-{user}.invalid" for user in GuestUser}
MODEL = "bait"
NEIGHBOUR_PORT = 7777
METADATA = ("169.254.169.254", "169.254.170.2", "100.100.100.200", "fd00:ec2::254")
PUBLIC = ("1.1.1.1", "8.8.8.8")
PUBLIC_IPV6 = ("2001:4860:4860::8888",)
# As the agent's own last attempts: they may end the machine, and that is all that may happen.
LAST = ("garbage_on_the_channel", "killing_the_agent")
_ROUTES = ("chat", "redirect", "echo", "endless")
_GUEST_DIR = f"{WORK_DIR}/attack"
_PACKAGE = "cli/boundary/inside"


@dataclass(frozen=True)
class Attempt:
    """One attack: `held`, or the boundary is open. `detail` is what was seen; untrusted text."""

    name: str
    user: str
    held: bool
    detail: str

    @property
    def title(self) -> str:
        return f"{self.name.replace('_', ' ')} (as {self.user})"


@dataclass(frozen=True)
class Canaries:
    """Secrets of this host, made for the test: nobody inside may find any."""

    key: str
    token: str
    webhook_secret: str
    other_run: str

    @property
    def hashes(self) -> list[str]:
        values = (self.key, self.token, self.webhook_secret, self.other_run)
        return [hashlib.sha256(each.encode()).hexdigest() for each in values]


def make_canary() -> str:
    return f"drydock-canary-{secrets.token_hex(16)}"


def attack_provider(
    provider: Provider, template: Template, say: Callable[[Attempt], None] = lambda _: None
) -> tuple[Attempt, ...]:
    """Run every attack. ProviderFailed when no machine can be had."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drydock-boundary-")))
        canaries = stack.enter_context(planted(folder))
        baits = stack.enter_context(Baits(GRANTED))
        audit = stack.enter_context(AuditLog(folder / "audit.jsonl"))
        own_secret = secrets.token_hex(16)
        broker = make_broker(baits, canaries, audit)
        stack.callback(broker.close)
        siege = Siege(provider, template, folder, canaries, baits, broker, own_secret)
        attempts = []
        for attempt in siege.run(stack):
            say(attempt)
            attempts.append(attempt)
        broker.close()
        attempts.append(_audit_holds(folder / "audit.jsonl"))
        say(attempts[-1])
    return tuple(attempts)


@contextlib.contextmanager
def planted(folder: Path) -> Iterator[Canaries]:
    """Put secrets where a careless host would have them: environment, files, another run."""
    canaries = Canaries(make_canary(), make_canary(), make_canary(), make_canary())
    places = {
        "DRYDOCK_BAIT_MODEL_API_KEY": canaries.key,
        "DRYDOCK_BAIT_TOKEN": canaries.token,
        "DRYDOCK_BAIT_WEBHOOK_SECRET": canaries.webhook_secret,
    }
    other = folder / "runs" / "other-run"
    other.mkdir(parents=True)
    (other / "in.bundle").write_text(canaries.other_run)
    (folder / "host.env").write_text("\n".join(f"{k}={v}" for k, v in places.items()))
    os.environ.update(places)
    try:
        yield canaries
    finally:
        for name in places:
            os.environ.pop(name, None)


def make_broker(baits: Baits, canaries: Canaries, audit: AuditLog) -> Broker:
    """Grant just what the attacks start from."""
    origin = ("http", "127.0.0.1", baits.http.port)
    limits = Limits(
        upstream=UpstreamLimits(connect_s=5, silence_s=20, response_bytes=BYTE_CAP),
        tunnel=TunnelLimits(connect_s=5, hello_s=10, down_bytes=BYTE_CAP, up_bytes=BYTE_CAP),
    )
    return Broker(
        Manifest("boundary-test", (*_routes(baits), *_tunnels(baits))),
        credentials={"model": Credential("model", "authorization", canaries.key, origin)},
        meter=Meter({}),
        audit=audit,
        limits=limits,
        resolve=_resolver(),
    )


def _routes(baits: Baits) -> list[Grant]:
    return [
        Grant(
            name=name,
            kind=GrantKind.MODEL_ROUTE,
            scheme="http",
            host="127.0.0.1",
            port=baits.http.port,
            methods=frozenset({"POST"}),
            path_prefix=f"/{name}",
            credential="model",
            wire=Wire.OPENAI,
        )
        for name in _ROUTES
    ]


def _tunnels(baits: Baits) -> list[Grant]:
    tls = Grant(
        name="granted",
        kind=GrantKind.TUNNEL,
        scheme="https",
        host=GRANTED,
        port=baits.tls.port,
        phases=frozenset({Phase.AGENT}),
        private=True,
    )
    plain = replace(tls, name="plain", scheme="http", host=PLAIN, port=baits.http.port)
    return [
        tls,
        replace(tls, name="inward", host=INWARD, private=False),
        *(replace(tls, name=f"moving.{user}", host=host) for user, host in MOVING.items()),
        replace(plain, methods=frozenset({"GET"})),
    ]


def _resolver() -> Resolve:
    """A moving name has an address where nobody listens, and ever after the bait's."""
    answers = {GRANTED: ["127.0.0.1"], PLAIN: ["127.0.0.1"], INWARD: ["127.0.0.1"]}
    asked: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        if host not in MOVING.values():
            return answers.get(host, [])
        asked.append(host)
        return ["127.0.0.2"] if asked.count(host) == 1 else ["127.0.0.1"]

    return resolve


@dataclass(frozen=True)
class Siege:
    """One provider under attack."""

    provider: Provider
    template: Template
    folder: Path
    canaries: Canaries
    baits: Baits
    broker: Broker
    own_secret: str

    def run(self, stack: ExitStack) -> Iterator[Attempt]:
        neighbour = self._machine(stack, "other-run")
        self._settle(neighbour)
        machine = self._machine(stack, "boundary-test")
        for user in GuestUser:
            said = self._attack(machine, user)
            yield from self._judge(user, said)
        for name in LAST:
            yield self._last(name, self._machine(stack, f"boundary-{name}"), neighbour)

    def _machine(self, stack: ExitStack, run_id: str) -> Sandbox:
        spec = MachineSpec(run_id, self.template, memory_mib=1024, cpus=1, ttl_s=1800)
        sandbox = self.provider.create(spec, self.broker.handle)
        stack.callback(sandbox.kill)
        return sandbox

    def _settle(self, neighbour: Sandbox) -> None:
        """Have another run's machine listen, and hold something of its own."""
        neighbour.write_file(f"{WORK_DIR}/secret", self.canaries.other_run.encode())
        listen = (
            f"import socket,time;s=socket.create_server(('',{NEIGHBOUR_PORT}));time.sleep(1700)"
        )
        neighbour.exec(["sh", "-c", f'nohup python3 -c "{listen}" >/dev/null 2>&1 &'])

    def _attack(self, machine: Sandbox, user: GuestUser) -> dict[str, tuple[bool, str]]:
        for path in SCRIPT.glob("*.py"):
            machine.write_file(f"{_GUEST_DIR}/{_PACKAGE}/{path.name}", path.read_bytes())
        facts = json.dumps(self._facts(user)).encode()
        machine.write_file(f"{_GUEST_DIR}/facts.json", facts)
        done = machine.exec(
            ["python3", "-B", "-m", _PACKAGE.replace("/", "."), "facts.json"],
            cwd=_GUEST_DIR,
            user=user,
            timeout_s=900,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
        said = {line["name"]: (bool(line["held"]), str(line["detail"])) for line in lines}
        tail = done.stderr.decode("utf-8", "replace")[-200:]
        lost = (False, f"the attack was not run: {tail}")
        return {name: said.get(name, lost) for name in attack_names()}

    def _facts(self, user: GuestUser) -> Mapping[str, object]:
        return {
            "abstract_bait": self.baits.abstract_name,
            "byte_cap": BYTE_CAP,
            "canaries": self.canaries.hashes,
            "gateways": bait.gateways(),
            "granted": GRANTED,
            "host_addresses": bait.host_addresses(),
            "host_folder": self.folder.name,
            "inward": INWARD,
            "ipv6_addresses": [*bait.ipv6_addresses(), *PUBLIC_IPV6],
            "metadata": METADATA,
            "model": MODEL,
            "moving": MOVING[user],
            "neighbour_port": NEIGHBOUR_PORT,
            "other_run": "other-run",
            "own_secret": self.own_secret,
            "plain": PLAIN,
            "plain_port": self.baits.http.port,
            "public_addresses": PUBLIC,
            "resolvers": list(dict.fromkeys([*bait.resolvers(), *PUBLIC])),
            # What everybody may read was searched as `work`.
            "searched_already": ["/usr", "/opt"] if user is GuestUser.ROOT else [],
            "tcp_bait": self.baits.tcp.port,
            "tls_port": self.baits.tls.port,
            "udp_bait": self.baits.udp.port,
            "vsock_bait": self.baits.vsock.port if self.baits.vsock else 1024,
        }

    def _judge(self, user: GuestUser, said: dict[str, tuple[bool, str]]) -> Iterator[Attempt]:
        seen = self._seen_by_the_host()
        for name, (held, detail) in said.items():
            trouble = seen.get(name)
            if held and trouble is not None:
                held, detail = False, trouble
            yield Attempt(name, user.value, held, detail)

    def _seen_by_the_host(self) -> dict[str, str]:
        """Return what the host saw and should not have, or did not record, by attack."""
        requests = "\n".join(self.baits.http.seen)
        reasons = "\n".join(each.reason for each in self.broker.refusals())
        names = {name for name in self.baits.tls.names if name != GRANTED}
        checks: dict[str, tuple[bool, str]] = {
            "tcp_to_the_host": (self.baits.tcp.visits > 0, "the bait was reached"),
            "udp_to_the_host": (self.baits.udp.visits > 0, "the bait was reached"),
            "abstract_unix_sockets": (self.baits.abstract.visits > 0, "the bait was reached"),
            "a_credential_of_its_own": (self.own_secret in requests, "it reached the upstream"),
            "a_websocket_upgrade": ("websocket" in requests.lower(), "it reached the upstream"),
            "another_server_name": (bool(names - {None}), f"the upstream was asked for {names}"),
            "no_server_name": (None in names, "the upstream was asked without a name"),
            "an_echo_of_the_injected_key": ("key back" not in reasons, "it was not recorded"),
            "a_redirect_to_another_host": ("a redirect" not in reasons, "it was not recorded"),
        }
        return {name: text for name, (wrong, text) in checks.items() if wrong}

    def _last(self, name: str, machine: Sandbox, neighbour: Sandbox) -> Attempt:
        """As root, end or confuse the agent: the machine may end by that, and nothing else may."""
        command = _LAST_COMMANDS[name]
        try:
            done = machine.exec(["sh", "-c", command], user=GuestUser.ROOT, timeout_s=20)
            detail = f"nothing happened (exit status {done.exit_code})"
            machine.exec(["true"], timeout_s=20)
        except (MachineLost, GuestMisbehaved) as error:
            detail = f"the machine ended: {error}"
        held = neighbour.exec(["true"], timeout_s=20).exit_code == 0
        return Attempt(name, "root", held, detail if held else "another machine went with it")


_GARBAGE = "head -c 100000 /dev/urandom"
_LAST_COMMANDS = {
    "garbage_on_the_channel": (
        f"for f in /proc/1/fd/0 /proc/1/fd/3 /dev/vport* /dev/virtio-ports/* /dev/hvc*; do "
        f'[ -e "$f" ] && {_GARBAGE} > "$f" 2>/dev/null; done; true'
    ),
    "killing_the_agent": (
        "for p in /proc/[0-9]*; do grep -q agent $p/cmdline 2>/dev/null && kill -9 ${p#/proc/}; "
        "done; kill -9 1; sleep 2; true"
    ),
}


def attack_names() -> list[str]:
    """Return the attacks of the script, in its order, without running it."""
    paths = (SCRIPT / f"{module}.py" for module in _MODULES)
    return [
        after.removeprefix("def ").partition("(")[0]
        for path in paths
        for line, after in pairwise(path.read_text(encoding="utf-8").splitlines())
        if line == "@attack"
    ]


def _audit_holds(path: Path) -> Attempt:
    found = verify(path)
    detail = f"{found.head.seq} records" if found.ok else found.reason
    return Attempt("the_audit_chain", "host", found.ok, detail)
