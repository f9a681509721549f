"""Who drives a run: a name that tells host, process and its start, so that death can be seen.

A process id alone is recycled; with the start time from `/proc/PID/stat` (field 22, in clock ticks
since boot, https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html) it is not.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]


def _start_time(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]


def this_owner() -> str:
    """Return this process's name, `host/boot/pid/start`."""
    pid = os.getpid()
    return f"{socket.gethostname()}/{_boot_id()}/{pid}/{_start_time(pid)}"


def is_dead(owner: str) -> bool:
    """Say whether that owner is known to be gone. Owners on other hosts are never known to be."""
    parts = owner.split("/")
    if len(parts) != 4 or parts[0] != socket.gethostname():
        return False
    _, boot, pid, start = parts
    return boot != _boot_id() or not pid.isdecimal() or _start_time(int(pid)) != start
