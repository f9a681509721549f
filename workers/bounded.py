"""Work on what a machine gave back, in a process of its own: bounds end it, whatever it is doing.

    python -P -m workers.bounded CONTROL_FD      (with an environment that we built)

A regular expression that meets its worst text, or a list that grows without end, can be stopped in
no other way from within Python. So a run's heart goes on beating, and the host's memory is safe.

That process is a server that has imported the work once, without a thread, and forks for each job:
a worker has threads, and may be a kind of process (Celery's) that may not fork for itself. A job
comes on a socket of its own and answers there: first with its pid, at last with what came of it.
The server ends with its worker, a job when nobody waits for it any more.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

# What the work consists of: imported once.
PRELOADED = "workers.inspection"
_LENGTH = struct.Struct(">Q")
# How long what was killed may take to be gone.
_GONE_S = 5.0


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
        deadline = time.monotonic() + bounds.seconds
        job.settimeout(bounds.seconds)
        # Its own folder is another one.
        _send(job, [os.path.abspath(entry) for entry in sys.path])  # noqa: PTH100
        _send(job, (bounds, work, args))
        pid = _receive(job, deadline)
        try:
            value, error = _receive(job, deadline)
        except TimeoutError:
            raise OutOfBounds(f"it took longer than {bounds.seconds:.0f} s") from None
        except EOFError:
            # The kernel or the interpreter ended it.
            value, error = None, MemoryError()
        finally:
            _end_group(pid)
    if isinstance(error, MemoryError):
        raise OutOfBounds(f"it took more than {bounds.data_bytes >> 20} MiB of memory")
    if error is not None:
        raise error
    result: T = value
    return result


def _end_group(pid: int) -> None:
    """Kill a job with all that it started, and wait until it is gone."""
    give_up = time.monotonic() + _GONE_S
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
        while time.monotonic() < give_up:
            os.killpg(pid, 0)
            time.sleep(0.002)


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


def serve(control: socket.socket) -> None:
    """Fork for each job until the worker is gone."""
    importlib.import_module(PRELOADED)
    # Whoever ends is collected by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, fds, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            return
        with socket.socket(fileno=fds[0]) as job:
            if os.fork() == 0:
                control.close()
                _be_job(job)


def _be_job(job: socket.socket) -> None:
    """Do one job, and end. It is the leader of a group, by which it is killed."""
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.path[:] = _receive(job)
        bounds, work, args = _receive(job)
        threading.Thread(target=_end_with_asker, args=(job,), daemon=True).start()
        _send(job, os.getpid())
        _limit(resource.RLIMIT_DATA, bounds.data_bytes)
        # For what keeps that thread from being heard.
        _limit(resource.RLIMIT_CPU, int(bounds.seconds) + 1)
        _send(job, _outcome_of(work, args))
        # Until it is killed: the number of one that is gone could be somebody else's.
        threading.Event().wait()
    finally:
        os._exit(0)


def _outcome_of(work: Callable[..., object], args: tuple[object, ...]) -> object:
    try:
        return work(*args), None
    except Exception as error:  # noqa: BLE001  raised again where it is waited for
        error.add_note(traceback.format_exc())
        return None, error.with_traceback(None)


def _end_with_asker(job: socket.socket) -> None:
    """Nobody waits for the result any more: be gone, with all that was started."""
    with contextlib.suppress(OSError):
        job.recv(1)
    os.killpg(0, signal.SIGKILL)


def _limit(what: int, most: int) -> None:
    """Only the soft limit: a program that this starts may have one of its own."""
    resource.setrlimit(what, (most, resource.getrlimit(what)[1]))


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
