"""Attacks on the machine's own kernel and on the agent."""

from __future__ import annotations

# A machine's paths are text here, as in the agent.
# ruff: noqa: PTH103, PTH112, PTH123, PTH208
import ctypes
import os
import subprocess
from functools import partial

from cli.boundary.inside.attempt import Open, attack, first_of, refused
from cli.boundary.inside.search import search


def agent_pid() -> int:
    """Return the agent's process: the lowest one that runs it, else the first of all."""
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"agent" in file.read():
                    return pid
        except OSError:
            continue
    return 1


LIBC = ctypes.CDLL(None, use_errno=True)


def syscall(what: str, result: int) -> str:
    if result != -1:
        raise Open(f"{what} worked")
    return f"{what}: {os.strerror(ctypes.get_errno())}"


@attack
def becoming_root() -> str:
    """Where this already is the machine's root, there is nothing to gain; see what that may do."""
    if os.geteuid() == 0:
        return "is the machine's own root already"
    held = [refused(lambda: os.setuid(0), "setuid(0)"), refused(lambda: os.setgid(0), "setgid(0)")]
    for program in ("sudo", "su", "pkexec"):
        try:
            done = subprocess.run(
                [program, "-n", "id", "-u"] if program == "sudo" else [program, "-c", "id -u"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.strip() == b"0":
            raise Open(f"{program} gave root")
    return first_of(held)


@attack
def mounting_the_hosts_devices() -> str:
    """A tmpfs of its own harms nobody; a device or a file system of the host's would."""
    held = []
    os.makedirs("mount", exist_ok=True)
    for source, kind in ((b"/dev/sda1", b"ext4"), (b"/dev/nvme0n1p1", b"ext4"), (b"h", b"9p")):
        ctypes.set_errno(0)
        result = LIBC.mount(source, b"mount", kind, 0, None)
        held.append(syscall(f"mount {source.decode()}", result))
    return first_of(held)


@attack
def loading_modules() -> str:
    init_module, finit_module = 175, 313
    fd = os.open("/proc/self/exe", os.O_RDONLY)
    held = [
        syscall("init_module", LIBC.syscall(init_module, b"\x7fELF", 4, b"")),
        syscall("finit_module", LIBC.syscall(finit_module, fd, b"", 0)),
    ]
    os.close(fd)
    return first_of(held)


@attack
def ptrace_of_the_agent() -> str:
    """As root it is the machine's own process, and the channel holds no secret to be read."""
    attach = 16
    pid = agent_pid()
    result = LIBC.ptrace(attach, pid, None, None)
    if result == -1:
        return f"ptrace: {os.strerror(ctypes.get_errno())}"
    if os.geteuid() != 0:
        raise Open("a process of work may trace the agent")
    LIBC.ptrace(17, pid, None, None)
    search(f"/proc/{pid}/mem")
    return "the machine's root may trace it; it holds no secret"


@attack
def signals_to_the_agent() -> str:
    if os.geteuid() == 0:
        return "root's own attempt is the last one: killing_the_agent"
    return refused(lambda: os.kill(agent_pid(), 9), "kill")


@attack
def the_channel_device() -> str:
    """Only the agent may write to it."""
    if os.geteuid() == 0:
        return "root's own attempt is the last one: garbage_on_the_channel"
    held = [refused(partial(open_again, agent_pid(), fd), f"its fd {fd}") for fd in range(16)]
    ports = "/dev/virtio-ports"
    names = [f"{ports}/{each}" for each in os.listdir(ports)] if os.path.isdir(ports) else []
    names += [f"/dev/{each}" for each in os.listdir("/dev") if each.startswith(("vport", "hvc"))]
    held += [refused(partial(os.open, n, os.O_WRONLY | os.O_NONBLOCK), n) for n in names]
    return first_of(held)


def open_again(pid: int, fd: int) -> None:
    """Open what another process has open, for writing.

    No success are /dev/null (1, 3), which is anybody's, and the pipes that this process's own
    output goes through: the agent holds their other ends.
    """
    opened = os.open(f"/proc/{pid}/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        found = os.fstat(opened)
        if found.st_rdev == os.makedev(1, 3) or any(os.path.samestat(found, own) for own in mine()):
            raise OSError(0, "only /dev/null or its own output")
    finally:
        os.close(opened)


def mine() -> list[os.stat_result]:
    return [os.fstat(fd) for fd in (0, 1, 2)]
