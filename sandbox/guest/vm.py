"""The agent as process 1 of a virtual machine: its byte stream is a virtio-serial port.

What only a whole machine needs is here: bringing loopback up, opening the port (again), and
`renew`, by which a restored machine gets what must never be a copy of the template's: the time,
fresh randomness, a name. The host asks for it before anything of a run executes.

Mounts are the initramfs's work (`sandbox.template.initramfs`); what commands must not do is kept
from them by `confine`.
"""

# The agent's rules for imports hold here too:
# ruff: noqa: PTH100, PTH118, PTH120, PTH208

from __future__ import annotations

import fcntl
import os
import resource
import select
import socket
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandbox.guest.task import Fields
if TYPE_CHECKING or __package__:
    from sandbox.guest import agent, confine, programs
    from sandbox.guest.task import Task
else:  # in the machine the files lie side by side
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import agent
    import confine
    import programs
    from task import Task

MAX_PROCESSES = 4096
MAX_OPEN_FILES = 4096
BLOCK = 4096
IDENTITY = "/run/identity"
HOSTS = "127.0.0.1 localhost {name}\n::1 localhost\n"
# A large reservation is nobody's mistake; who then uses too much is ended (see `confine`).
KNOBS = {
    "/proc/sys/vm/overcommit_memory": "1",
    "/sys/kernel/mm/lru_gen/enabled": "y",
}
_RETRY_S = 0.05

# <linux/random.h>, <linux/sockios.h>, <linux/if.h>, <linux/ext4.h>
_RNDADDENTROPY, _RNDRESEEDCRNG = 0x40085203, 0x5207
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_EXT4_IOC_RESIZE_FS = 0x40086610


class Agent(agent.Agent):
    """Has commands inside their fence before they begin."""

    def __init__(self, link: agent.Link, proxy_port: int, fence: confine.Fence) -> None:
        super().__init__(link, proxy_port, two_users=True)
        self._fence = fence

    def enter(self, user: str) -> None:
        self._fence.join()
        super().enter(user)


class Renew(Task):
    """Give the machine its own time, randomness, name and disk size; says what it got."""

    def start(self, fields: Fields) -> None:
        options = dict(fields)
        stepped_ns = step_clock(int(options["time_ns"]))
        add_entropy(bytes.fromhex(options["entropy"]))
        set_identity(options["hostname"], options["machine_id"])
        grow_disk(int(options["disk_bytes"]))
        limit_files(int(options["file_bytes"]))
        self.agent.end(self, [("stepped_ns", str(stepped_ns)), ("hostname", socket.gethostname())])


def step_clock(time_ns: int) -> int:
    """Set the wall clock; returns by how much it moved. The monotonic clock goes on."""
    before = time.time_ns()
    time.clock_settime_ns(time.CLOCK_REALTIME, time_ns)
    return time_ns - before


def add_entropy(seed: bytes) -> None:
    """Mix the seed in and have every CPU's generator use it from now on. See random(4)."""
    pool = os.open("/dev/random", os.O_WRONLY)
    fcntl.ioctl(pool, _RNDADDENTROPY, struct.pack("ii", 8 * len(seed), len(seed)) + seed)
    fcntl.ioctl(pool, _RNDRESEEDCRNG)
    os.close(pool)


def set_identity(hostname: str, machine_id: str) -> None:
    """The files lie in memory, and /etc has links to them (the initramfs's work): five times as
    fast as the disk's, emulated."""
    socket.sethostname(hostname)
    _write("hosts", HOSTS.format(name=hostname))
    _write("machine-id", machine_id + "\n")


def grow_disk(size: int, known: list[int] = [0]) -> None:  # noqa: B006  kept on purpose
    """Make the file system of `/` that large, in bytes. It never shrinks.

    What it was grown to last is remembered, for asking costs a tenth of a restored machine's start.
    """
    if size > known[0]:
        root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(root, _EXT4_IOC_RESIZE_FS, struct.pack("Q", size // BLOCK))
        finally:
            os.close(root)
        known[0] = size


def limit_files(size: int) -> None:
    """The largest file that commands may write, in bytes. The agent's own writes get EFBIG."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def main(proxy_port: str) -> None:
    """Serve one host after the other on the port, for ever: an end of process 1 is a panic."""
    os.umask(0o022)
    _set_limits()
    for path, value in KNOBS.items():
        _set_knob(path, value)
    _close_console()
    _bring_loopback_up()
    _give_work_its_directories()
    fence = confine.confine(MAX_PROCESSES)
    agent.KINDS["renew"] = Renew
    while True:
        port = open_port()
        served = Agent(agent.Link(port), int(proxy_port), fence)
        try:
            served.run()
        except agent.Lost:
            served.abandon()


def open_port() -> int:
    """Wait until the port is there and the host's side of it is connected."""
    while True:
        names = [name for name in os.listdir("/dev") if name.startswith("vport")]
        if names:
            port = os.open(f"/dev/{names[0]}", os.O_RDWR | os.O_CLOEXEC)
            if is_connected(port):
                return port
            os.close(port)
        time.sleep(_RETRY_S)


def is_connected(port: int) -> bool:
    poll = select.poll()
    poll.register(port, 0)
    return not any(events & select.POLLHUP for _, events in poll.poll(0))


def _set_limits() -> None:
    """What every command starts with, as in the other kinds of machine."""
    for kind, limit in (
        (resource.RLIMIT_NPROC, MAX_PROCESSES),
        (resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, limit))


def _set_knob(path: str, value: str) -> None:
    try:
        knob = os.open(path, os.O_WRONLY)
    except FileNotFoundError:  # a kernel without it
        return
    os.write(knob, value.encode())
    os.close(knob)


def _close_console() -> None:
    """Let go of the kernel's console and of what else process 1 was born with."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.closerange(3, MAX_OPEN_FILES)


def _bring_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _give_work_its_directories() -> None:
    """All of its home: an image that was baked without root holds it as root's."""
    os.setgroups([])
    for top in agent.OWNED_BY_WORK:
        os.makedirs(top, exist_ok=True)  # noqa: PTH103
        for folder, _, files in os.walk(top):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chown(path, programs.WORK_UID, programs.WORK_UID, follow_symlinks=False)


def _write(name: str, text: str) -> None:
    fd = os.open(f"{IDENTITY}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, text.encode())
    os.close(fd)


if __name__ == "__main__":
    main(*sys.argv[1:])
