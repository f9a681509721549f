"""Machines with a kernel of their own in user space: gVisor's runsc, without a network.

As root, runsc runs the sentry (the guest's kernel) as nobody in a user namespace; for anyone else
it is run `--rootless`. The guest's `root` and `work` are the sentry's own, so both always exist.
Writes to the template's file system stay in the sentry's memory.

Written for Debian's runsc (2022-12), whose flags later versions still know. What that one refuses
is mended from outside: see `automount`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.cgroups import Limits
from sandbox.launch import Launch
from sandbox.machine import Tier
from sandbox.provider import GUEST_PROXY_PORT, MachineSpec, Probe, ProviderFailed
from sandbox.providers.automount import replacement
from sandbox.providers.common import (
    CAPABILITIES,
    GUEST_AGENT_DIR,
    HOSTNAME,
    MAX_OPEN_FILES,
    MAX_PIDS,
    PROGRAM_PATH,
    LocalProvider,
    agent_files,
    find_program,
    memory_ceiling,
    plan_own_cgroups,
    rootfs_of,
    scratch_mounts,
    try_command,
)

_OCI_VERSION = "1.0.2"
_NAMESPACES = ("pid", "network", "ipc", "uts", "mount")


class GvisorProvider(LocalProvider):
    name = "gvisor"

    def tier(self) -> Tier:
        return Tier(self.name, two_users=True)

    def probe(self) -> Probe:
        try:
            program = find_program("runsc", "runsc")
        except ProviderFailed as error:
            return Probe(ok=False, reason=str(error))
        return try_command([program, *_rootless(), "--network=none", "do", "/bin/true"])

    def plan(self, spec: MachineSpec, machine_id: str, directory: Path) -> Launch:
        rootfs = rootfs_of(spec)
        replaced = replacement(self._state_dir, rootfs, GUEST_AGENT_DIR)
        binds = replaced.binds if replaced else {}
        config = oci_config(spec, rootfs, {GUEST_AGENT_DIR: str(directory / "agent"), **binds})
        return Launch(
            argv=(find_program("runsc", "runsc"), *arguments(machine_id, directory)),
            # runsc looks for its helpers; the guest never sees this environment.
            env={"PATH": PROGRAM_PATH},
            memory_bytes=memory_ceiling(spec),
            files={"config.json": json.dumps(config), **agent_files()},
            directories=("agent", "state"),
            copies=replaced.copies if replaced else {},
            rlimits={"CORE": 0},
            cgroups=plan_own_cgroups(machine_id, Limits(memory_ceiling(spec), MAX_PIDS, spec.cpus)),
        )


def arguments(machine_id: str, directory: Path) -> list[str]:
    return [
        *_rootless(),
        "--network=none",
        "--ignore-cgroups",  # the supervisor's cgroups hold runsc and all of its processes
        "--overlay2=root:memory",
        f"--root={directory / 'state'}",
        "run",
        f"--bundle={directory}",
        machine_id,
    ]


def oci_config(spec: MachineSpec, rootfs: Path, binds: Mapping[str, str]) -> dict[str, Any]:
    """The machine as an OCI runtime specification (pure). `binds`: guest path → host path, to read.

    https://github.com/opencontainers/runtime-spec/blob/v1.0.2/config.md
    """
    return {
        "ociVersion": _OCI_VERSION,
        "process": _process(spec),
        "root": {"path": str(rootfs), "readonly": False},
        "hostname": HOSTNAME,
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            *_scratch(spec),
            *(
                {"destination": target, "type": "bind", "source": source, "options": ["ro"]}
                for target, source in binds.items()
            ),
        ],
        "linux": {"namespaces": [{"type": name} for name in _NAMESPACES]},
    }


def _process(spec: MachineSpec) -> dict[str, Any]:
    capabilities = [f"CAP_{name}" for name in CAPABILITIES]
    limits = {
        "RLIMIT_NOFILE": MAX_OPEN_FILES,
        "RLIMIT_NPROC": MAX_PIDS,
        "RLIMIT_FSIZE": spec.disk_mib * 1024 * 1024,
        "RLIMIT_CORE": 0,
    }
    return {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": [
            *("/usr/bin/python3", "-I", "-S", f"{GUEST_AGENT_DIR}/agent.py"),
            *(str(GUEST_PROXY_PORT), "two"),
        ],
        "env": ["PATH=/usr/bin:/bin"],
        "cwd": "/",
        "noNewPrivileges": True,
        "capabilities": {
            "bounding": capabilities,
            "effective": capabilities,
            "permitted": capabilities,
            "inheritable": [],
            "ambient": [],
        },
        "rlimits": [{"type": k, "hard": v, "soft": v} for k, v in limits.items()],
    }


def _scratch(spec: MachineSpec) -> list[dict[str, Any]]:
    return [
        {
            "destination": target,
            "type": "tmpfs",
            "source": "tmpfs",
            "options": [f"mode={mode}", f"size={size}", "nosuid", "nodev"],
        }
        for target, (size, mode) in scratch_mounts(spec).items()
    ]


def _rootless() -> list[str]:
    return [] if os.geteuid() == 0 else ["--rootless"]
