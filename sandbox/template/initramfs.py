"""The first file system of a virtual machine's kernel, as bytes (pure).

It loads the modules that the kernel lacks, mounts the disk, puts the agent's code beside it in
memory and becomes the agent. Made anew for every boot, in milliseconds, so that a changed agent
changes neither the kernel's layer nor the disk's.

Format: cpio "newc", https://docs.kernel.org/driver-api/early-userspace/buffer-format.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

ROOT = "/root"
# Where `guest/vm.py` writes what tells one machine from another.
IDENTITY_DIR = "/run/identity"
_MAGIC = b"070701"
_DIRECTORY, _FILE, _LINK, _CHARACTER = 0o040000, 0o100000, 0o120000, 0o020000
_CONSOLE = (5, 1)
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")

_INIT = """\
#!/bin/busybox sh
# The way from an empty kernel to the agent; whatever fails here ends the machine at once (panic).
set -e
busybox mount -t devtmpfs dev /dev
for module in {modules}; do busybox insmod /modules/$module.ko; done
busybox mount -t ext4 -o noatime /dev/vda {root}
busybox mount --move /dev {root}/dev
busybox mkdir -p {root}/dev/pts {root}/dev/shm
busybox mount -t devpts -o mode=0620,ptmxmode=0666 pts {root}/dev/pts
busybox mount -t tmpfs -o mode=1777,nosuid,nodev shm {root}/dev/shm
busybox mount -t proc -o nosuid,nodev,noexec proc {root}/proc
busybox mount -t sysfs -o nosuid,nodev,noexec sys {root}/sys
busybox mount -t tmpfs -o mode=0755,nosuid,nodev,size=64m run {root}/run
busybox mkdir {root}{agent_dir} {root}{identity_dir}
for name in hosts machine-id; do
  busybox ln -sf {identity_dir}/$name {root}/etc/$name
done
busybox cp -r /agent/. {root}{agent_dir}/
exec busybox switch_root {root} {command}
"""


def build(
    busybox: bytes,
    modules: Mapping[str, bytes],
    agent: Mapping[str, bytes],
    agent_dir: str,
    command: Sequence[str],
) -> bytes:
    """The archive. `modules` by name without ".ko"; `agent` are files for `agent_dir`."""
    init = _INIT.format(
        modules=" ".join(load_order(modules)),
        root=ROOT,
        agent_dir=agent_dir,
        identity_dir=IDENTITY_DIR,
        command=" ".join(command),
    )
    entries = [
        *(_entry(name, _DIRECTORY | 0o755) for name in ("bin", "dev", "root", "modules", "agent")),
        _entry("dev/console", _CHARACTER | 0o600, device=_CONSOLE),
        _entry("bin/busybox", _FILE | 0o755, busybox),
        _entry("init", _FILE | 0o755, init.encode()),
        *(_entry(f"modules/{name}.ko", _FILE | 0o644, data) for name, data in modules.items()),
        *(_entry(f"agent/{name}", _FILE | 0o444, data) for name, data in agent.items()),
    ]
    return b"".join((*entries, _entry("TRAILER!!!", 0)))


def load_order(modules: Mapping[str, bytes]) -> list[str]:
    """Names with each module after those it needs. What is not here is in the kernel itself."""
    ordered: list[str] = []

    def add(name: str) -> None:
        for needed in depends_of(modules[name]):
            if needed in modules:
                add(needed)
        if name not in ordered:
            ordered.append(name)

    for name in modules:
        add(name)
    return ordered


def depends_of(module: bytes) -> list[str]:
    """What a module's own `.modinfo` says that it needs, by names with underscores."""
    found = _DEPENDS.search(module)
    return [name for name in found[1].decode().split(",") if name] if found else []


def _entry(name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    """One member: a header of 13 numbers in hex, its name and its data, each padded to 4 bytes."""
    raw = name.encode() + b"\0"
    numbers: Iterable[int] = (
        *(0, mode, 0, 0, 1, 0, len(data)),  # inode, mode, uid, gid, links, time, size
        *(0, 0, *device, len(raw), 0),  # device, rdev, length of the name, checksum
    )
    head = _MAGIC + b"".join(b"%08X" % number for number in numbers) + raw
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
