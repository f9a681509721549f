"""Work on what a machine gave back, in a process of its own: bounds end it, whatever it is doing.

A regular expression that meets its worst text, or a list that grows without end, can be stopped in
no other way from within Python. So a run's heart goes on beating, and its worker stays small.

A worker has threads, and may be a kind of process (Celery's) that may not fork for itself. So it
starts a server that has imported the work once and forks for each job (`bounded_server`). Every
job has a socket of its own: the request goes there, and at last how it ended comes back, when
nothing of it is left. Closing our end has it killed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from workers.bounded_server import LENGTH, SECONDS, receive

T = TypeVar("T")

# How long a server may take to import the work, and what was killed to be gone.
_HELLO_S = 60.0
_GONE_S = 30.0
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1])"
    "; from workers.bounded_server import main; main(int(sys.argv[2]))"
)


class OutOfBounds(Exception):
    """The work took too long or too much; the text says which."""


class JobLost(Exception):
    """The process of the work ended for a reason of its own, or there was none to be had."""


@dataclass(frozen=True)
class Bounds:
    """`seconds` are by the clock; `data_bytes` are for each process that the work consists of."""

    seconds: float
    data_bytes: int


def run_bounded(bounds: Bounds, work: Callable[..., T], *args: object) -> T:
    """Return what `work` returns. OutOfBounds, JobLost, or whatever it raises.

    All of it has to be picklable. None of its processes is left.
    """
    request = pickle.dumps((bounds.data_bytes, work, args))
    with _SERVER.begin(bounds.seconds) as job:
        try:
            status, outcome = _ask(job, request, bounds.seconds)
        except TimeoutError:
            _end(job)
            raise OutOfBounds(f"it took longer than {bounds.seconds:.0f} s") from None
        except (EOFError, ConnectionError) as error:
            raise JobLost(f"whoever looks after it is gone: {error}") from error
    _check(status, bounds)
    value, raised = pickle.loads(outcome)  # noqa: S301  our own process
    if isinstance(raised, MemoryError):
        raise _too_much(bounds)
    if raised is not None:
        raise raised
    result: T = value
    return result


def _ask(job: socket.socket, request: bytes, seconds: float) -> tuple[int, bytes]:
    deadline = time.monotonic() + seconds
    job.settimeout(seconds)
    job.sendall(LENGTH.pack(len(request)) + request)
    status = int(receive(job, deadline))
    return status, receive(job, deadline)


def _end(job: socket.socket) -> None:
    """Have a job killed with all that it started, and wait until the last of it is gone."""
    try:
        job.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + _GONE_S
        while True:
            receive(job, deadline)
    except (EOFError, ConnectionError):
        return
    except TimeoutError as error:
        raise JobLost(f"it was not gone within {_GONE_S:.0f} s") from error


def _check(status: int, bounds: Bounds) -> None:
    """OutOfBounds or JobLost unless the process ended as it should."""
    code = os.waitstatus_to_exitcode(status)
    # Nobody but the kernel kills one that is still waited for.
    if code == -signal.SIGKILL:
        raise _too_much(bounds)
    if code != 0:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
        raise JobLost(f"its process ended {how}")


def _too_much(bounds: Bounds) -> OutOfBounds:
    return OutOfBounds(f"it took more than {bounds.data_bytes >> 20} MiB of memory")


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[bytes]
    control: socket.socket

    def end(self, patience_s: float = 5.0) -> None:
        # For all copies of it, a forked child's too.
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)
        self.control.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class _Server:
    """One server for each process of ours, started when it is first asked, and again if need be."""

    def __init__(self) -> None:
        self.start_afresh()

    def start_afresh(self) -> None:
        """In a forked child: the server is the parent's, and the lock may be held for ever."""
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def begin(self, seconds: float) -> socket.socket:
        """Have a process forked, and return the socket to it. JobLost when that cannot be had."""
        with self._lock:
            for _ in range(2):
                try:
                    return _begin(self._current().control, seconds)
                except (OSError, EOFError) as error:
                    trouble = error
                    self._forget()
        raise JobLost(f"no process could be started for it: {trouble}") from trouble

    def _current(self) -> _Running:
        if self._running is None:
            self._running = _start_server()
        return self._running

    def _forget(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.end(patience_s=0)

    def end(self) -> None:
        if self._running is not None:
            self._running.end()


def _begin(control: socket.socket, seconds: float) -> socket.socket:
    """Hand a job's socket over, and hear that somebody has taken it."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            socket.send_fds(control, [SECONDS.pack(seconds)], [theirs.fileno()])
        receive(ours, time.monotonic() + _HELLO_S)
    except BaseException:
        ours.close()
        raise
    return ours


def _start_server() -> _Running:
    """It finds what we find: an installation is not the only place to run from."""
    folders = json.dumps([str(os.path.abspath(entry)) for entry in sys.path])  # noqa: PTH100
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, folders, str(theirs.fileno())],
            env={"LC_ALL": "C.UTF-8", "TZ": "UTC"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    return _Running(process, ours)


_SERVER = _Server()
atexit.register(_SERVER.end)
os.register_at_fork(after_in_child=_SERVER.start_afresh)
