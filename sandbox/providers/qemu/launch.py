"""How a virtual machine is started: which files it gets by which descriptor, and its limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandbox.cgroups import Cgroup, Limits
from sandbox.launch import Launch
from sandbox.provider import MachineSpec, ProviderFailed
from sandbox.providers.common import (
    MAX_OPEN_FILES,
    find_program,
    is_root,
    plan_own_cgroups,
    uid_base,
)
from sandbox.providers.qemu import command
from sandbox.providers.qemu.command import KVM, KVM_PATH, MEMORY_PATH, Descriptors, Shape
from sandbox.providers.qemu.snapshot import EMPTY, MEMORY, STATE, Snapshot
from sandbox.supervisor import FIRST_FD

PROGRAM, PACKAGE = "qemu-system-x86_64", "qemu-system-x86"
DISK_FILE = "disk0.qcow2"
# QEMU's own memory besides the guest's and its translated code: seen 40 MiB and less.
OWN_MIB = 256
# Its threads: one a CPU, one for events, and up to 64 for the disk.
MAX_THREADS = 256

_MIB = 1024 * 1024
# A disk's image holds tables besides data, and every cluster that ever was written.
_IMAGE_OVERHEAD = 1.02
_ROOT_LINKS = ("bin", "lib", "lib32", "lib64", "sbin")


@dataclass
class _Opened:
    """Paths in the order in which QEMU finds them open."""

    paths: list[tuple[str, int]] = field(default_factory=list)

    def add(self, path: Path, flags: int = os.O_RDONLY) -> int:
        self.paths.append((str(path), flags))
        return FIRST_FD + len(self.paths) - 1

    @property
    def next(self) -> int:
        return FIRST_FD + len(self.paths)


@dataclass(frozen=True)
class Planned:
    """A launch, where QEMU finds the state to load, and the snapshot as the machine holds it."""

    launch: Launch
    state_fd: int
    held: Snapshot


def plan_restore(
    snapshot: Snapshot, spec: MachineSpec, machine_id: str, directory: Path
) -> Planned:
    """A clone: memory mapped privately, an overlay of its own on the disk."""
    held, links = hold(snapshot, directory)
    opened = _Opened()
    base = opened.add(held.base)
    layers = tuple(opened.add(layer) for layer in held.layers)
    overlay = directory / DISK_FILE
    tops = (opened.add(overlay, os.O_RDWR), opened.add(overlay))
    state_fd = opened.add(held.state)
    argv = command.qemu_argv(
        find_program(PROGRAM, PACKAGE),
        held.accel,
        held.shape,
        Descriptors(base, layers, tops, opened.next),
        private=True,
    )
    launch = Launch(
        argv=_confined(argv, {}),
        memory_bytes=memory_ceiling(spec),
        copies={DISK_FILE: str(snapshot.empty)},
        links=links,
        open_paths=tuple(opened.paths),
        substitutes=_substitutes(held.accel, held.memory, os.O_RDONLY),
        uid_base=uid_base(),
        rlimits=_rlimits(spec, held.filled),
        cgroups=_cgroups(spec, machine_id),
    )
    return Planned(launch, state_fd, held)


def hold(snapshot: Snapshot, directory: Path) -> tuple[Snapshot, dict[str, str]]:
    """The snapshot by hard links in a machine's directory, which keep it as long as the machine.

    On another file system it stays where it is: that is a template's, and guarded by its store.
    """
    if snapshot.path.stat().st_dev != directory.parent.stat().st_dev:
        return snapshot, {}
    names = {f"layer{number}.qcow2": layer for number, layer in enumerate(snapshot.layers)}
    held = replace(snapshot, path=directory, layers=tuple(directory / name for name in names))
    links = {name: str(path) for name, path in names.items()}
    links |= {name: str(snapshot.path / name) for name in (MEMORY, STATE, EMPTY)}
    return held, links


@dataclass(frozen=True)
class BootFiles:
    """What a cold boot needs; memory and overlay are written to."""

    base: Path
    filled: int
    overlay: Path
    memory: Path
    kernel: Path
    initrd: Path


def plan_boot(
    files: BootFiles,
    accel: str,
    shape: Shape,
    kernel_command: str,
    spec: MachineSpec,
    machine_id: str,
) -> Launch:
    """A cold boot whose memory is shared with its file, so that the file becomes the snapshot."""
    opened = _Opened()
    base = opened.add(files.base)
    tops = (opened.add(files.overlay, os.O_RDWR), opened.add(files.overlay))
    data = {
        command.KERNEL_PATH: opened.add(files.kernel),
        command.INITRD_PATH: opened.add(files.initrd),
    }
    argv = command.qemu_argv(
        find_program(PROGRAM, PACKAGE),
        accel,
        shape,
        Descriptors(base, (), tops, opened.next),
        private=False,
        kernel=kernel_command,
    )
    return Launch(
        argv=_confined(argv, data),
        memory_bytes=memory_ceiling(spec),
        open_paths=tuple(opened.paths),
        substitutes=_substitutes(accel, files.memory, os.O_RDWR),
        uid_base=uid_base(),
        rlimits=_rlimits(spec, files.filled),
        cgroups=_cgroups(spec, machine_id),
    )


def memory_ceiling(spec: MachineSpec) -> int:
    """Bytes that a machine's processes may hold. Its disk is a file, which the kernel can drop."""
    return (spec.memory_mib + command.TCG_CACHE_MIB + OWN_MIB) * _MIB


def _confined(argv: list[str], data: Mapping[str, int]) -> tuple[str, ...]:
    links = {f"/{name}": target for name in _ROOT_LINKS if (target := _link_into_usr(name))}
    if "/lib64" not in links and "/lib" not in links:
        raise ProviderFailed("/lib of this host is no link into /usr, which qemu machines rely on")
    return tuple(
        command.confined_argv(
            find_program("bwrap", "bubblewrap"), argv, is_root=is_root(), links=links, data=data
        )
    )


def _link_into_usr(name: str) -> str:
    path = Path("/", name)
    return str(path.readlink()) if path.is_symlink() else ""


def _substitutes(accel: str, memory: Path, flags: int) -> tuple[tuple[str, str, int], ...]:
    found = [(MEMORY_PATH, str(memory), flags)]
    if accel == KVM:
        found.append((KVM_PATH, KVM_PATH, os.O_RDWR))
    return tuple(found)


def _rlimits(spec: MachineSpec, filled: int) -> dict[str, int]:
    size = int((filled + spec.disk_mib * _MIB) * _IMAGE_OVERHEAD) + 64 * _MIB
    counted = {"NPROC": MAX_THREADS} if is_root() else {}  # else it would count the user's others
    return {**counted, "FSIZE": size, "NOFILE": MAX_OPEN_FILES, "CORE": 0}


def _cgroups(spec: MachineSpec, machine_id: str) -> tuple[Cgroup, ...]:
    return plan_own_cgroups(machine_id, Limits(memory_ceiling(spec), MAX_THREADS, spec.cpus))
