"""What all providers on this host share. Each supplies a `Launch` and a probe, nothing else."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from sandbox import protocol
from sandbox.cgroups import Cgroup, Limits, plan_cgroups
from sandbox.launch import Identity, Launch
from sandbox.machine import Machine, Tier
from sandbox.machines import find_records, machines_dir, reap_run
from sandbox.provider import (
    WORK_DIR,
    EgressHandler,
    MachineInfo,
    MachineSpec,
    Probe,
    ProviderFailed,
    Sandbox,
)

PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
GUEST_AGENT_DIR = "/run/drydock"
HOSTNAME = "drydock"
# Kept by the agent's user drop (SETUID, SETGID), the files it hands to `work` (CHOWN, FOWNER,
# DAC_OVERRIDE) and ending what `work` started (KILL). Nothing here reaches outside the machine.
CAPABILITIES = ("SETUID", "SETGID", "CHOWN", "FOWNER", "DAC_OVERRIDE", "KILL")
MAX_PIDS = 4096
MAX_OPEN_FILES = 4096
SMALL_TMPFS_MIB = 64
_MIB = 1024 * 1024
# systemd hands out 0x00080000 to 0x6fffffff for containers (systemd.io/UIDS-GIDS);
# the ids beyond are free of that up to 2^31, where some tools stop.
_FIRST_UID_BASE = 0x70000000
_UID_BASES = 4096
_PROBE_TIMEOUT_S = 20.0


class LocalProvider(ABC):
    """A provider whose machines are processes of this host. `state_dir` holds their records."""

    name: str

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir.resolve()

    @abstractmethod
    def probe(self) -> Probe:
        """See `Provider.probe`."""

    @abstractmethod
    def plan(self, spec: MachineSpec, machine_id: str, directory: Path) -> Launch:
        """Decide how to start one machine. ProviderFailed when a program is missing."""

    @abstractmethod
    def tier(self) -> Tier: ...

    def create(self, spec: MachineSpec, egress: EgressHandler) -> Sandbox:
        identity = Identity(
            new_machine_id(), spec.run_id, self.name, spec.template.digest, time.time()
        )
        directory = machines_dir(self._state_dir) / identity.id
        directory.parent.mkdir(parents=True, exist_ok=True)
        launch = self.plan(spec, identity.id, directory)
        return self.machine(launch, identity, directory, spec, egress)

    def machine(
        self,
        launch: Launch,
        identity: Identity,
        directory: Path,
        spec: MachineSpec,
        egress: EgressHandler,
    ) -> Sandbox:
        return Machine(launch, identity, directory, self.tier(), spec, egress)

    def list(self) -> list[MachineInfo]:
        return [record.info() for record in find_records(self._state_dir, self.name)]

    def reap(self, run_id: str) -> int:
        return reap_run(self._state_dir, self.name, run_id)


def new_machine_id() -> str:
    return "m-" + secrets.token_hex(8)


def rootfs_of(spec: MachineSpec) -> Path:
    """ProviderFailed when the template is not there (removed, or its bake was interrupted)."""
    rootfs = spec.template.path / "rootfs"
    if not (rootfs / "usr/bin/python3").exists():
        raise ProviderFailed(
            f"template {spec.template.name} has no root file system at {rootfs}: "
            "bake it again with `drydock template`"
        )
    return rootfs


AGENT_MODULES = (
    *("agent", "commands", "files", "programs", "task", "tunnel"),
    *("warm", "warm_aider"),
)


def agent_files() -> dict[str, str]:
    """What a machine needs of ours, as files of its directory: the agent and what it imports."""
    ours = Path(protocol.__file__).parent
    sources = (ours / "protocol.py", *(ours / "guest" / f"{name}.py" for name in AGENT_MODULES))
    return {f"agent/{source.name}": source.read_text() for source in sources}


def is_root() -> bool:
    return os.geteuid() == 0


def uid_base() -> int | None:
    """Return the first of the 65,536 host ids of a machine; None for who is not root."""
    return _FIRST_UID_BASE + secrets.randbelow(_UID_BASES) * 65536 if is_root() else None


def memory_ceiling(spec: MachineSpec) -> int:
    """Bytes a machine may hold. Its disk is in memory too (tmpfs), so both count."""
    return (spec.memory_mib + spec.disk_mib) * _MIB


def plan_own_cgroups(machine_id: str, limits: Limits) -> tuple[Cgroup, ...]:
    """Return the control groups to make for a machine below this process's own."""
    mounts = Path("/proc/self/mounts").read_text()
    own = Path("/proc/self/cgroup").read_text()
    return plan_cgroups(mounts, own, f"drydock-{machine_id}", limits)


def scratch_mounts(spec: MachineSpec) -> dict[str, tuple[int, str]]:
    """Where the guest may write: mount point → (bytes, mode). The template itself it may not."""
    disk, small = spec.disk_mib * _MIB, SMALL_TMPFS_MIB * _MIB
    return {
        WORK_DIR: (disk, "0755"),
        "/tmp": (disk, "1777"),  # noqa: S108  in the guest
        "/var/tmp": (disk, "1777"),  # noqa: S108
        "/home": (disk, "0755"),
        "/root": (small, "0700"),
        "/run": (small, "0755"),
    }


def find_program(name: str, package: str) -> str:
    """ProviderFailed when it is not installed, with the command that installs it."""
    found = shutil.which(name, path=PROGRAM_PATH)
    if found is None:
        raise ProviderFailed(f"{name} is not installed: apt-get install {package}")
    return found


def try_command(argv: Sequence[str]) -> Probe:
    """Run a probe's command, with an empty environment."""
    try:
        done = subprocess.run(
            list(argv),
            env={"PATH": PROGRAM_PATH},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Probe(ok=False, reason=f"{argv[0]} did not answer in {_PROBE_TIMEOUT_S:.0f} s")
    if done.returncode == 0:
        return Probe(ok=True, reason="works")
    said = done.stderr.decode("utf-8", "replace").strip()[-500:]
    return Probe(ok=False, reason=f"{argv[0]} ended with {done.returncode}: {said}")
