"""Looking for secrets of the host, and for another run's."""

from __future__ import annotations

# A machine's paths are text here, as in the agent.
# ruff: noqa: PTH112, PTH118, PTH208
import os
from functools import partial

from cli.boundary.inside.attempt import FACTS, Open, attack, first_of, refused
from cli.boundary.inside.search import files, search


@attack
def secrets_in_any_file() -> str:
    count = 0
    for path in files():
        search(path)
        count += 1
    return f"{count} files searched"


@attack
def secrets_in_any_process() -> str:
    count = 0
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        for leaf in ("environ", "cmdline", "maps", "status"):
            search(f"/proc/{pid}/{leaf}")
        count += 1
    return f"{count} processes searched"


@attack
def secrets_on_the_kernel_command_line() -> str:
    for path in ("/proc/cmdline", "/proc/bootconfig", "/proc/self/mountinfo", "/proc/config.gz"):
        search(path)
    return "searched"


@attack
def secrets_on_a_disk() -> str:
    """Reads block devices whole, as far as they can be opened."""
    names = os.listdir("/sys/block") if os.path.isdir("/sys/block") else []
    for name in names:
        search(f"/dev/{name}", limit=8 << 30)
    return f"{len(names)} block devices"


@attack
def secrets_in_memory_devices() -> str:
    paths = ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore")
    return first_of([refused(partial(read_byte, path), path) for path in paths])


def read_byte(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 1)
    finally:
        os.close(fd)


@attack
def secrets_in_dmi() -> str:
    roots = ("/sys/class/dmi/id", "/sys/firmware")
    count = 0
    for root in roots:
        for folder, _, leaves in os.walk(root):
            for leaf in leaves:
                search(os.path.join(folder, leaf))
                count += 1
    return f"{count} entries"


@attack
def another_runs_files() -> str:
    """Each run's files hold a canary of their own on the host: nothing of them is here."""
    names = [FACTS["other_run"], FACTS["host_folder"]]
    for path in files():
        if any(name in path for name in names):
            raise Open(f"{path} belongs to the host")
    return "nothing of another run is here"
