"""What no command of a virtual machine may do, its root's included.

- take all of its memory: commands live in a control group of their own (cgroup v2), which ends
  where the agent's reserve begins, so that the kernel ends the greediest of them, and never has
  nobody left to end but the agent (which would be a panic)
- use a device or a privilege that other kinds of machine do not have either
- change the kernel's settings

The kernel is the machine's own, so this is no wall between runs: it keeps what runs in the machine
from its devices, and the machine alive. Standard library only, as the agent.
"""

# The agent's rules for imports hold here too:
# ruff: noqa: PTH102, PTH106, PTH108, PTH118, PTH123, PTH208, PTH211

from __future__ import annotations

import ctypes
import os

# <linux/capability.h>. The same as `sandbox.providers.common.CAPABILITIES`.
KEPT_CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
}
KEPT_DEVICES = frozenset(("full", "null", "ptmx", "pts", "random", "shm", "tty", "urandom", "zero"))
CHANNEL_PREFIX = "vport"
LINKS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
# For the agent and what the kernel counts to nobody.
RESERVE = 16 * 1024 * 1024
CGROUPS = "/run/cgroups"

# <linux/prctl.h>, <sys/mount.h>
_PR_CAPBSET_DROP = 24
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND = 1, 2, 4, 8, 32, 4096
_MNT_DETACH = 2


def confine(max_processes: int) -> Fence:
    """Set all of it up; the fence is what each command is to be started in. OSError."""
    fence = Fence(max_processes)
    remove_devices("/dev")
    for path in ("/proc/sys", "/sys"):
        make_read_only(path)
    drop_capabilities()
    return fence


class Fence:
    """The control group of all commands. The agent itself is in the root's, without a limit.

    The hierarchy is mounted only while this begins: commands cannot leave what they cannot see.
    """

    def __init__(self, max_processes: int) -> None:
        os.mkdir(CGROUPS)
        # favordynmods: joining is to be quick, at the cost of each fork and exit by a trifle.
        _call("mount", b"cgroup", CGROUPS.encode(), b"cgroup2", 0, b"favordynmods")
        commands = f"{CGROUPS}/commands"
        _write(f"{CGROUPS}/cgroup.subtree_control", "+memory +pids")
        os.mkdir(commands)
        _write(f"{commands}/memory.max", str(available_memory() - RESERVE))
        _write(f"{commands}/pids.max", str(max_processes))
        self._procs = os.open(f"{commands}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        _call("umount2", CGROUPS.encode(), _MNT_DETACH)
        os.rmdir(CGROUPS)

    def join(self) -> None:
        """Put this process, with all that comes of it, inside for good."""
        os.write(self._procs, b"0")  # whoever writes


def available_memory() -> int:
    """Bytes that could be given to programs now."""
    with open("/proc/meminfo") as file:
        sizes = dict(line.split(":") for line in file)
    return int(sizes["MemAvailable"].split()[0]) * 1024


def remove_devices(folder: str) -> None:
    """Leave the usual ones, which hold nothing, and the agent's own."""
    for name in os.listdir(folder):
        if name not in KEPT_DEVICES and not name.startswith(CHANNEL_PREFIX):
            _remove(os.path.join(folder, name))
    for name, target in LINKS.items():
        os.symlink(f"/proc/self/{target}", os.path.join(folder, name))


def make_read_only(path: str) -> None:
    name = path.encode()
    kept = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    _call("mount", name, name, None, _MS_BIND, None)
    _call("mount", None, name, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | kept, None)


def drop_capabilities() -> None:
    """Take them from all that is executed from now on. The agent keeps its own."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for number in range(last + 1):
        if number not in KEPT_CAPABILITIES.values():
            _call("prctl", _PR_CAPBSET_DROP, number, 0, 0, 0)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
        for name in os.listdir(path):
            _remove(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)


def _call(name: str, *arguments: bytes | int | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
