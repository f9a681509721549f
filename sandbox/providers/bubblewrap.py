"""Machines out of Linux namespaces, by bubblewrap. They share the host's kernel.

Only for operators who name it. All namespaces are new, the template is mounted read-only, and
everything writable is a tmpfs of bounded size, gone with the machine.

Two shapes, by who runs Drydock:

- root: the supervisor makes a user namespace of 65,536 ids first, so that the guest has its `root`
  and its `work` (uid 1000), which are unprivileged high uids to the host, other ones in each
  machine. The template's files, owned by the host's root, belong to nobody inside.
- anyone else: the kernel lets one uid be mapped. Agent and commands share uid 1000, and
  `user=root` raises `Unsupported`.

What the guest can see of the host: `/proc/self/mountinfo` names the template's path on its file
system, which bind mounts cannot hide; no other path, argument, environment or descriptor.
bubblewrap is given descriptors instead of paths, and the agent's code as a copy in memory.

Of the host's kernel it can make sockets of four families, no more: see `syscalls`.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from sandbox.cgroups import Limits
from sandbox.launch import Launch
from sandbox.machine import Tier
from sandbox.provider import GUEST_PROXY_PORT, MachineSpec, Probe, ProviderFailed
from sandbox.providers.common import (
    CAPABILITIES,
    GUEST_AGENT_DIR,
    HOSTNAME,
    MAX_OPEN_FILES,
    MAX_PIDS,
    LocalProvider,
    agent_files,
    find_program,
    is_root,
    memory_ceiling,
    plan_own_cgroups,
    rootfs_of,
    scratch_mounts,
    try_command,
    uid_base,
)
from sandbox.providers.kept_files import keep
from sandbox.providers.syscalls import socket_filter
from sandbox.supervisor import FIRST_FD

_ROOTFS_FD = FIRST_FD
_FILTER_FD = _ROOTFS_FD + 1
_AGENT_FD = _FILTER_FD + 1
_FILTER = "sockets.bpf"


class BubblewrapProvider(LocalProvider):
    name = "bubblewrap"

    def tier(self) -> Tier:
        return Tier(self.name, two_users=is_root())

    def probe(self) -> Probe:
        try:
            program = find_program("bwrap", "bubblewrap")
            self._filter()
        except ProviderFailed as error:
            return Probe(ok=False, reason=str(error))
        return try_command([program, "--unshare-all", "--ro-bind", "/", "/", "/bin/true"])

    def plan(self, spec: MachineSpec, machine_id: str, directory: Path) -> Launch:
        files = agent_files()
        sources = {Path(name).name: directory / name for name in files}
        return Launch(
            argv=(
                find_program("bwrap", "bubblewrap"),
                *arguments(spec, tuple(sources), is_root()),
            ),
            memory_bytes=memory_ceiling(spec),
            files=files,
            directories=("agent",),
            open_paths=(
                (str(rootfs_of(spec)), os.O_PATH | os.O_DIRECTORY),
                (str(self._filter()), os.O_RDONLY),
                *((str(path), os.O_RDONLY) for path in sources.values()),
            ),
            uid_base=uid_base(),
            rlimits=_rlimits(spec),
            cgroups=plan_own_cgroups(machine_id, Limits(memory_ceiling(spec), MAX_PIDS, spec.cpus)),
        )

    def _filter(self) -> Path:
        files = {_FILTER: socket_filter(platform.machine())}
        return keep(self._state_dir / "bubblewrap", files) / _FILTER


def arguments(spec: MachineSpec, agent_files: tuple[str, ...], is_root: bool) -> list[str]:
    """bubblewrap's command line (pure). The agent is process 1, so every orphan comes to it."""
    return [
        *_namespaces(is_root),
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        "--clearenv",
        *("--setenv", "PATH", "/usr/bin:/bin"),
        *("--hostname", HOSTNAME),
        *_capabilities(is_root),
        *("--seccomp", str(_FILTER_FD)),
        *("--ro-bind", f"/proc/self/fd/{_ROOTFS_FD}", "/"),
        *("--proc", "/proc"),
        *("--dev", "/dev"),
        *_scratch(spec),
        *_agent(agent_files),
        *("--chdir", "/"),
        "--",
        *("/usr/bin/python3", "-I", "-S", f"{GUEST_AGENT_DIR}/agent.py"),
        *(str(GUEST_PROXY_PORT), "two" if is_root else "one"),
    ]


def _namespaces(is_root: bool) -> list[str]:
    """All of them. For root the supervisor has made the user namespace already."""
    mine = [] if is_root else ["--unshare-user", "--uid", "1000", "--gid", "1000"]
    others = ["ipc", "pid", "net", "uts", "cgroup-try"]
    return [*mine, *(f"--unshare-{name}" for name in others)]


def _capabilities(is_root: bool) -> list[str]:
    if not is_root:
        return []
    kept = [part for name in CAPABILITIES for part in ("--cap-add", f"CAP_{name}")]
    return ["--cap-drop", "ALL", *kept]


def _scratch(spec: MachineSpec) -> list[str]:
    flags = []
    for target, (size, mode) in scratch_mounts(spec).items():
        flags += ["--perms", mode, "--size", str(size), "--tmpfs", target]
    return flags


def _agent(names: tuple[str, ...]) -> list[str]:
    flags = ["--dir", GUEST_AGENT_DIR]
    for number, name in enumerate(names, start=_AGENT_FD):
        flags += ["--perms", "0444", "--ro-bind-data", str(number), f"{GUEST_AGENT_DIR}/{name}"]
    return flags


def _rlimits(spec: MachineSpec) -> dict[str, int]:
    """Not RLIMIT_AS: runtimes reserve far more address space than they use."""
    counted = {"NPROC": MAX_PIDS} if is_root() else {}  # else it would count the user's others
    return {
        **counted,
        "NOFILE": MAX_OPEN_FILES,
        "FSIZE": spec.disk_mib * 1024 * 1024,
        "CORE": 0,
    }
