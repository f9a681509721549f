"""What every provider of machines promises, and the values that cross that border.

A provider supplies a root filesystem and one byte stream; everything else (exec, files, egress)
is the same agent speaking the same protocol over that stream, so one contract suite
(`tests/contract/`) holds all providers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol

DEFAULT_OUTPUT_CAP = 4 * 1024 * 1024
DEFAULT_FILE_CAP = 512 * 1024 * 1024
GUEST_PROXY_PORT = 3128
WORK_DIR = "/work"
# How the `run_id` of a machine begins that waits for a run. It belongs to a living process.
WAITING = "waiting-"


class GuestUser(StrEnum):
    """Who a command runs as inside the machine: `work` (uid 1000) unless `root` is asked for."""

    WORK = "work"
    ROOT = "root"


class OutputStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True)
class Template:
    """A baked template: content-addressed, read-only. `digest` is hex SHA-256 of what made it."""

    name: str
    digest: str
    path: Path


@dataclass(frozen=True)
class WarmProgram:
    """A Python program that a new machine starts beforehand, so that its later `exec` is ready.

    `python` is the interpreter's path, `program` the script's: the `argv[0]` of an `exec` that it
    is meant for. It rehearses with `argv` (arguments alone) in a scratch repository, against a
    canned model inside the machine that gives `replies`, one after the other. `files` are path
    (relative to that repository) → text; those inside it are committed. An `exec` whose environment
    differs from `env` (a PATH and HOME are added) in more than the names of `late_env` runs cold:
    other variables may have been read during the imports.
    """

    python: str
    program: str
    argv: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    late_env: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    replies: tuple[str, ...] = ()


@dataclass(frozen=True)
class MachineSpec:
    """What to create. `ttl_s` is a ceiling in seconds that the supervisor enforces."""

    run_id: str
    template: Template
    memory_mib: int = 2048
    cpus: int = 2
    disk_mib: int = 4096
    ttl_s: float = 3600.0
    warm: WarmProgram | None = None


@dataclass(frozen=True)
class Warmth:
    """How a machine's warm program is. `detail` is untrusted text: what its rehearsal lacked."""

    ready: bool
    detail: str = ""


@dataclass(frozen=True)
class ExecResult:
    """What came of one command.

    `exit_code` is None when a signal or the timeout ended it; `signal` is then the number.
    `truncated` says that output beyond the cap was dropped (the head is kept). `warm` says that a
    `WarmProgram` became this command.
    """

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    seconds: float
    signal: int | None = None
    timed_out: bool = False
    truncated: bool = False
    warm: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """A machine's memory and disk at a moment. Only QEMU's provider makes one."""

    id: str
    path: Path


@dataclass(frozen=True)
class Receipt:
    """What was renewed before the first command: clock, entropy, identity. Kept with the run."""

    tier: str
    template_digest: str
    created_at: float
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MachineInfo:
    """One machine that this host's state directory knows of, alive or not."""

    id: str
    run_id: str
    provider: str
    supervisor_pid: int
    alive: bool
    created_at: float

    @property
    def waits(self) -> bool:
        """Whether it waits for a run: a living process keeps it, and it dies with that."""
        return self.alive and self.run_id.startswith(WAITING)


@dataclass(frozen=True)
class Probe:
    """Whether a provider works here, found by trying, and why (not)."""

    ok: bool
    reason: str


class Duplex(Protocol):
    """One guest-opened connection, as the host sees it: a blocking byte stream."""

    def recv(self, limit: int) -> bytes:
        """Return up to `limit` bytes; b"" at the end of the stream. OSError on reset."""

    def sendall(self, data: bytes) -> None:
        """Write all of it, waiting for the guest's credit. OSError when the guest is gone."""

    def close(self) -> None:
        """End both directions; idempotent."""


EgressHandler = Callable[[Duplex], None]
OnOutput = Callable[[OutputStream, bytes], None]


class Sandbox(Protocol):
    """One live machine. Methods may be called from several threads; `kill` in any state.

    Errors: `MachineLost` when the machine is gone, `GuestMisbehaved` when its side of the channel
    broke the protocol (the machine is killed first), `ProviderFailed` when the host's side did.
    """

    @property
    def id(self) -> str: ...

    @property
    def tier(self) -> str: ...

    @property
    def receipt(self) -> Receipt: ...

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = WORK_DIR,
        user: GuestUser = GuestUser.WORK,
        stdin: bytes = b"",
        timeout_s: float = 600.0,
        output_cap: int = DEFAULT_OUTPUT_CAP,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """Run one command to its end. `env` is the whole environment (a PATH and HOME are added).

        The timeout kills the whole process tree, daemonised children included.
        """

    def write_file(
        self,
        path: str,
        data: bytes | IO[bytes],
        *,
        mode: int = 0o644,
        user: GuestUser = GuestUser.WORK,
    ) -> None:
        """Create or replace one file, parents included, owned by `user`."""

    def read_file(self, path: str, *, max_bytes: int = DEFAULT_FILE_CAP) -> bytes:
        """Read one regular file. FileNotFoundError; `GuestMisbehaved` beyond `max_bytes`."""

    def copy_out(self, path: str, into: IO[bytes], *, max_bytes: int = DEFAULT_FILE_CAP) -> int:
        """Stream one regular file into `into`; returns its bytes. Errors as `read_file`."""

    def write_tree(self, path: str, tar: IO[bytes], *, user: GuestUser = GuestUser.WORK) -> None:
        """Unpack a tar stream below `path` inside the guest."""

    def read_tree(self, path: str, into: IO[bytes], *, max_bytes: int = DEFAULT_FILE_CAP) -> int:
        """Pack `path` as a tar stream into `into`; returns its bytes. Not unpacked on the host."""

    def await_warm(self, timeout_s: float) -> Warmth:
        """Wait until the machine's `WarmProgram` is ready, or will not be, or for so long."""

    def kill(self) -> None:
        """End the machine and remove its files; idempotent, in every state, from any thread."""


class Provider(Protocol):
    """Makes machines of one kind on this host."""

    name: str

    def probe(self) -> Probe:
        """Try it here, once, cheaply."""

    def create(self, spec: MachineSpec, egress: EgressHandler) -> Sandbox:
        """Start a machine; `egress` is called in its own thread for each guest connection.

        Errors: `ProviderFailed` with a reason an operator can act on.
        """

    def list(self) -> list[MachineInfo]:
        """All machines of this provider below its state directory, leftovers included."""

    def reap(self, run_id: str) -> int:
        """Kill that run's machines and clear their files; returns how many there were."""


class ProviderFailed(Exception):
    """The host's side failed: the operator can act on the message."""


class GuestMisbehaved(Exception):
    """The guest's side of the channel broke a rule; its machine is dead."""


class MachineLost(Exception):
    """The machine is gone. `reason` is one of killed, deadline, oom, exited, channel."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"machine lost ({reason})" + (f": {detail}" if detail else ""))
        self.reason = reason
        self.detail = detail


class Unsupported(Exception):
    """This provider cannot do that (checkpoint, restore or fork)."""
