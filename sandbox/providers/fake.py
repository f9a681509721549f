"""No machine at all: the same agent as an ordinary process of this host, in a temporary directory.

For tests, and only when named. It isolates nothing. Paths below /work and /home/work, and the
proxy's address, are replaced by the real ones wherever they are named in an argument, environment
value or path; a *file's contents* are not touched, so commands see where they really are. There is
one user, whoever runs this.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from sandbox.launch import Identity, Launch
from sandbox.machine import Machine, Tier
from sandbox.provider import (
    DEFAULT_FILE_CAP,
    DEFAULT_OUTPUT_CAP,
    GUEST_PROXY_PORT,
    WORK_DIR,
    EgressHandler,
    ExecResult,
    GuestUser,
    MachineSpec,
    OnOutput,
    Probe,
    Sandbox,
)
from sandbox.providers.common import LocalProvider, agent_files, memory_ceiling

_MAPPED = re.compile(r"(?<![\w./-])/(?:home/)?work(?![\w.-])")
_PROXY = re.compile(rf"\b(127\.0\.0\.1|localhost):{GUEST_PROXY_PORT}\b")
_ANY_PORT = "0"


class FakeProvider(LocalProvider):
    name = "fake"

    def tier(self) -> Tier:
        return Tier(self.name, two_users=False)

    def probe(self) -> Probe:
        return Probe(ok=True, reason="works, and isolates nothing")

    def plan(self, spec: MachineSpec, machine_id: str, directory: Path) -> Launch:
        return Launch(
            argv=(sys.executable, "-I", "-S", str(directory / "agent/agent.py"), _ANY_PORT, "one"),
            memory_bytes=memory_ceiling(spec),
            files=agent_files(),
            directories=("agent", "work", "home/work"),
            rlimits={"FSIZE": spec.disk_mib * 1024 * 1024, "CORE": 0},
        )

    def machine(
        self,
        launch: Launch,
        identity: Identity,
        directory: Path,
        spec: MachineSpec,
        egress: EgressHandler,
    ) -> Sandbox:
        return FakeMachine(launch, identity, directory, self.tier(), spec, egress)


class FakeMachine(Machine):
    """Says the host's names where the guest's were meant."""

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
        whole = {"HOME": "/home/work", **(env or {})}
        return super().exec(
            [self.place(item) for item in argv],
            env={name: self.place(value) for name, value in whole.items()},
            cwd=self.place(cwd),
            user=user,
            stdin=stdin,
            timeout_s=timeout_s,
            output_cap=output_cap,
            on_output=on_output,
        )

    def write_file(
        self,
        path: str,
        data: bytes | IO[bytes],
        *,
        mode: int = 0o644,
        user: GuestUser = GuestUser.WORK,
    ) -> None:
        super().write_file(self.place(path), data, mode=mode, user=user)

    def copy_out(self, path: str, into: IO[bytes], *, max_bytes: int = DEFAULT_FILE_CAP) -> int:
        return super().copy_out(self.place(path), into, max_bytes=max_bytes)

    def write_tree(self, path: str, tar: IO[bytes], *, user: GuestUser = GuestUser.WORK) -> None:
        super().write_tree(self.place(path), tar, user=user)

    def read_tree(self, path: str, into: IO[bytes], *, max_bytes: int = DEFAULT_FILE_CAP) -> int:
        return super().read_tree(self.place(path), into, max_bytes=max_bytes)

    def place(self, text: str) -> str:
        return translate(text, self.directory, self.hello["proxy_port"])


def translate(text: str, directory: Path, proxy_port: str) -> str:
    """Replace the guest's paths and proxy address in one value (pure)."""
    text = _MAPPED.sub(lambda match: f"{directory}{match[0]}", text)
    return _PROXY.sub(lambda match: f"{match[1]}:{proxy_port}", text)
