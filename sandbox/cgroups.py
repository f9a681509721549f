"""Where a machine's cgroups go and what is written into them (pure).

The supervisor makes them, all or none; where it may not (no root, a read-only cgroup file system),
it polls the machine's memory instead, and process counts are held by rlimits alone. See cgroups(7);
version 1 and hybrid hosts are common among the hosts that Drydock is tested on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_PERIOD_US = 100_000


@dataclass(frozen=True)
class Cgroup:
    """A directory to make, and the control files to write in it, in order."""

    path: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class Limits:
    memory_bytes: int
    pids: int
    cpus: int


def plan_cgroups(mounts: str, own: str, name: str, limits: Limits) -> tuple[Cgroup, ...]:
    """From /proc/self/mounts and /proc/self/cgroup. Empty when memory cannot be limited here."""
    homes = _version_1_homes(mounts, own)
    if "memory" in homes:
        files = _version_1_files(limits)
        return tuple(Cgroup(f"{homes[c]}/{name}", files[c]) for c in files if c in homes)
    for _, target, kind, *_ in map(str.split, mounts.splitlines()):
        if kind == "cgroup2":
            return (Cgroup(f"{target}/{name}", _version_2_files(limits)),)
    return ()


def _version_1_homes(mounts: str, own: str) -> dict[str, str]:
    """Controller → our own directory in its hierarchy, below which a child may be made."""
    ours = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        ours.update(dict.fromkeys(controllers.split(","), path.rstrip("/")))
    homes = {}
    for _, target, kind, options, *_ in map(str.split, mounts.splitlines()):
        if kind == "cgroup":
            homes.update({c: target + ours[c] for c in options.split(",") if c in ours})
    return homes


def _version_1_files(limits: Limits) -> dict[str, dict[str, str]]:
    return {
        "memory": {"memory.limit_in_bytes": str(limits.memory_bytes)},
        "pids": {"pids.max": str(limits.pids)},
        "cpu": {
            "cpu.cfs_period_us": str(_PERIOD_US),
            "cpu.cfs_quota_us": str(limits.cpus * _PERIOD_US),
        },
    }


def _version_2_files(limits: Limits) -> dict[str, str]:
    return {
        "memory.max": str(limits.memory_bytes),
        "pids.max": str(limits.pids),
        "cpu.max": f"{limits.cpus * _PERIOD_US} {_PERIOD_US}",
    }
