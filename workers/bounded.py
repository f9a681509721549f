"""Work on what a machine gave back, in a process of its own: bounds end it, whatever it is doing.

    python -P -m workers.bounded CONTROL_FD      (with an environment that we built)

A regular expression that meets its worst text, or a list that grows without end, can be stopped in
no other way from within Python. So a run's heart goes on beating, and the host's memory is safe.

That process is a server that has imported the work once, without a thread, and forks for each job:
a worker has threads, and may be a kind of process (Celery's) that may not fork for itself. A job
comes on a socket of its own, and its outcome goes back there. When whoever asked closes it, or is
gone, the server kills the job with all that it started. The server ends with its worker.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from sandbox.supervisor import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, parents, prctl

T = TypeVar("T")

# What the work consists of: imported once.
PRELOADED = "workers.inspection"
_LENGTH = struct.Struct(">Q")
# How long what was killed may take to be gone.
_GONE_S = 30.0


class OutOfBounds(Exception):
    """The work took too long or too much; the text says which."""


@dataclass(frozen=True)
class Bounds:
    """`seconds` are by the clock; `data_bytes` are for each process that the work consists of."""

    seconds: float
    data_bytes: int


def run_bounded(bounds: Bounds, work: Callable[..., T], *args: object) -> T:
    """Return what `work` returns. OutOfBounds, or whatever it raises; EOFError without a process.

    All of it has to be picklable. None of its processes is left.
    """
    with _SERVER.begin() as job:
        try:
            value, error = _outcome(job, bounds, work, args)
        except TimeoutError:
            raise OutOfBounds(f"it took longer than {bounds.seconds:.0f} s") from None
        except EOFError:
            # The kernel or the interpreter ended it.
            value, error = None, MemoryError()
        finally:
            _end(job)
    if isinstance(error, MemoryError):
        raise OutOfBounds(f"it took more than {bounds.data_bytes >> 20} MiB of memory")
    if error is not None:
        raise error
    result: T = value
    return result


def _outcome(
    job: socket.socket, bounds: Bounds, work: Callable[..., object], args: tuple[object, ...]
) -> Any:
    deadline = time.monotonic() + bounds.seconds
    job.settimeout(bounds.seconds)
    # Its own folder is another one.
    _send(job, [os.path.abspath(entry) for entry in sys.path])  # noqa: PTH100
    _send(job, (bounds, work, args))
    return _receive(job, deadline)


def _end(job: socket.socket) -> None:
    """Have a job killed with all that it started, and wait until the last of it is gone."""
    deadline = time.monotonic() + _GONE_S
    with contextlib.suppress(OSError):
        job.shutdown(socket.SHUT_WR)
    with contextlib.suppress(EOFError):
        while True:
            _receive_bytes(job, 1, deadline)


class _Server:
    """The worker's end: one server for each process, started when it is first asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._owner = 0

    def begin(self) -> socket.socket:
        """Have a process forked, and return the socket to it."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            socket.send_fds(self._control(), [b"j"], [theirs.fileno()])
        return ours

    def _control(self) -> socket.socket:
        # One from before a fork is the parent's.
        mine = self._running if self._owner == os.getpid() else None
        if mine is None or mine[0].poll() is not None:
            mine = self._running = _start_server()
            self._owner = os.getpid()
        return mine[1]

    def end(self) -> None:
        if self._running is not None and self._owner == os.getpid():
            process, control = self._running
            control.close()
            process.wait()


def _start_server() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(theirs.fileno())],
            env={"LC_ALL": "C.UTF-8", "TZ": "UTC"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    return process, ours


_SERVER = _Server()
atexit.register(_SERVER.end)


def _send(sock: socket.socket, value: object) -> None:
    data = pickle.dumps(value)
    sock.sendall(_LENGTH.pack(len(data)) + data)


def _receive(sock: socket.socket, deadline: float | None = None) -> Any:
    """Return what was sent. EOFError when the other end is gone, TimeoutError at the deadline."""
    (length,) = _LENGTH.unpack(_receive_bytes(sock, _LENGTH.size, deadline))
    return pickle.loads(_receive_bytes(sock, length, deadline))  # noqa: S301  our own process


def _receive_bytes(sock: socket.socket, length: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < length:
        if deadline is not None:
            sock.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            piece = sock.recv(min(1 << 20, length - len(data)))
        except ConnectionError:
            piece = b""
        if not piece:
            raise EOFError("the process is gone")
        data += piece
    return bytes(data)


# ---- the server -------------------------------------------------------------------------------


class _Jobs:
    """The processes of the jobs, and what they leave: orphans of theirs become our children."""

    def __init__(self) -> None:
        # By pid; the number is nobody else's before we have collected it.
        self._running: dict[int, socket.socket] = {}
        self._killed: set[int] = set()
        self._ended: list[socket.socket] = []

    def awaited(self) -> dict[int, int]:
        """The pid of each that somebody may cease to wait for, by its socket's number."""
        alive = self._running.items()
        return {job.fileno(): pid for pid, job in alive if pid not in self._killed}

    def start(self, job: socket.socket) -> None:
        pid = os.fork()
        if pid == 0:
            # Held open here, they would never be seen to end.
            for other in (*self._running.values(), *self._ended):
                other.close()
            _be_job(job)
        self._running[pid] = job

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self._killed.add(pid)

    def collect(self) -> None:
        """Kill what ended jobs left (git leads sessions of its own); then say that all is gone."""
        self._reap()
        orphans = self._orphans()
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        while not orphans and self._ended:
            self._ended.pop().close()

    def end(self) -> None:
        for pid in self._running:
            self.kill(pid)
        while self._running or self._orphans():
            self.collect()
            time.sleep(0.01)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self._killed.discard(pid)
                if (job := self._running.pop(pid, None)) is not None:
                    self._ended.append(job)

    def _orphans(self) -> list[int]:
        me = os.getpid()
        return [
            pid for pid, parent in parents().items() if parent == me and pid not in self._running
        ]


def serve(control: socket.socket) -> None:
    """Fork for each job until the worker is gone; kill those for which nobody waits any more."""
    importlib.import_module(PRELOADED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    jobs, wakeup = _Jobs(), _wake_at_ends()
    going_on = True
    while going_on:
        awaited = jobs.awaited()
        ready = _wait((control.fileno(), wakeup), awaited)
        for fd in ready & awaited.keys():
            jobs.kill(awaited[fd])
        if wakeup in ready:
            os.read(wakeup, 4096)
        if control.fileno() in ready:
            going_on = _start_next(control, jobs)
        jobs.collect()
    jobs.end()


def _wait(readable: Iterable[int], ended: Iterable[int]) -> set[int]:
    """Return those of `readable` that are, and of `ended` that the other side has closed."""
    poll = select.poll()
    for fd in readable:
        poll.register(fd, select.POLLIN)
    for fd in ended:
        poll.register(fd, select.POLLRDHUP)
    return {fd for fd, _ in poll.poll()}


def _wake_at_ends() -> int:
    """Return what becomes readable when a child ends."""
    ours, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return ours


def _start_next(control: socket.socket, jobs: _Jobs) -> bool:
    """Start a job, or return False: the worker is gone."""
    data, fds, _, _ = socket.recv_fds(control, 1, 1)
    if data:
        jobs.start(socket.socket(fileno=fds[0]))
    return bool(data)


def _be_job(job: socket.socket) -> NoReturn:
    """Do one job, and wait to be killed: whoever asked says when it may be gone."""
    try:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.path[:] = _receive(job)
        bounds, work, args = _receive(job)
        # Only the soft limit: a program that this starts may have one of its own.
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (bounds.data_bytes, most))
        _send(job, _outcome_of(work, args))
        threading.Event().wait()
    finally:
        os._exit(1)


def _outcome_of(work: Callable[..., object], args: tuple[object, ...]) -> object:
    try:
        return work(*args), None
    except Exception as error:  # noqa: BLE001  raised again where it is waited for
        error.add_note(traceback.format_exc())
        return None, error.with_traceback(None)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
