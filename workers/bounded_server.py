"""The other side of `bounded`: a server that forks a keeper for each job, and what these do.

The keeper is the job's parent and the reaper of its orphans, as a machine's supervisor is; so it
alone kills, by numbers that cannot be another's yet. The job writes its outcome into memory that
both have; the keeper passes it on when the last of the job is gone, together with how it ended.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

from sandbox.supervisor import PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG, parents, prctl

# What the work consists of: imported once.
PRELOADED = "workers.inspection"
LENGTH = struct.Struct(">Q")
SECONDS = struct.Struct(">d")
# What the keeper adds to a job's time, for whoever asked to end it first.
GRACE_S = 3.0
_CHUNK = 1 << 20


def main(control_fd: int) -> None:
    """Fork for each job until the worker is gone."""
    os.set_inheritable(control_fd, False)
    # A service's stop reaches every process of it: the worker decides what ends, by its sockets.
    # Handlers and not SIG_IGN, which git would inherit.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    importlib.import_module(PRELOADED)
    serve(socket.socket(fileno=control_fd))


def serve(control: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects keepers
    while True:
        data, fds, _, _ = socket.recv_fds(control, SECONDS.size, 1)
        if not data:
            return
        with socket.socket(fileno=fds[0]) as job, contextlib.suppress(BlockingIOError):
            if os.fork() == 0:
                control.close()
                _end_after(keep, job, *SECONDS.unpack(data))


def _end_after(act: Callable[..., None], *args: object) -> NoReturn:
    """In a forked child: nothing of the parent's is to go on here."""
    try:
        act(*args)
        os._exit(0)
    except BaseException:  # noqa: BLE001  shown, and told by the exit status
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


# ---- the keeper -------------------------------------------------------------------------------


def keep(job: socket.socket, seconds: float) -> None:
    """Have the job done, kill what is left of it, and say how it ended.

    Whoever asked keeps the time. Should it stand still itself, or a child of its hold its socket,
    the job ends here, somewhat later.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    ended, outcome = _watch_children(), os.memfd_create("outcome")
    keeper, pid = os.getpid(), os.fork()
    if pid == 0:
        os.close(ended)
        _end_after(work, job, outcome, keeper)
    status = _wait(pid, job, ended, time.monotonic() + seconds + GRACE_S)
    _kill_orphans(ended)
    with contextlib.suppress(ConnectionError):  # whoever gave it up hears no more
        _send(job, str(status).encode())
        _send(job, _contents(outcome))


def _watch_children() -> int:
    """Return what becomes readable when a child ends."""
    ours, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return ours


def _wait(pid: int, job: socket.socket, ended: int, deadline: float) -> int:
    """Return the job's wait status; it is killed as soon as nobody waits for it any more."""
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(job, select.POLLRDHUP)
    while True:
        left = max(0.0, deadline - time.monotonic())
        ready = {fd for fd, _ in poll.poll(left * 1000)}
        if job.fileno() in ready or not left:
            os.kill(pid, signal.SIGKILL)
            return os.waitpid(pid, 0)[1]
        if ended in ready:
            _drain(ended)
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status


def _kill_orphans(ended: int) -> None:
    """Until none is left: what one of them leaves becomes our child in turn."""
    while children := [pid for pid, parent in parents().items() if parent == os.getpid()]:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        select.select([ended], [], [], 0.1)
        _drain(ended)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue


def _drain(fd: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(fd, 4096)


def _contents(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return b"".join(os.pread(fd, _CHUNK, at) for at in range(0, size, _CHUNK))


# ---- the job ----------------------------------------------------------------------------------


def work(job: socket.socket, outcome: int, keeper: int) -> None:
    """Do one job, as long as its keeper lives."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:  # it was gone before that
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _send(job, b"")  # somebody is here
    data_bytes, act, args = pickle.loads(receive(job))  # noqa: S301  from our own worker
    _limit_data(data_bytes)
    with open(outcome, "wb", closefd=False) as file:
        file.write(_pickled(_outcome_of(act, args)))


def _limit_data(most: int) -> None:
    """Only the soft limit: a program that this starts may have one of its own."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _outcome_of(act: Callable[..., object], args: tuple[object, ...]) -> tuple[object, object]:
    try:
        return act(*args), None
    except Exception as error:  # noqa: BLE001  raised again where it is waited for
        error.add_note(traceback.format_exc())
        return None, error.with_traceback(None)


def _pickled(outcome: tuple[object, object]) -> bytes:
    try:
        data = pickle.dumps(outcome)
        pickle.loads(data)  # noqa: S301  some errors can be written and not read
    except MemoryError as error:
        return pickle.dumps((None, error))
    except Exception as error:  # noqa: BLE001  whatever a class of somebody's raises here
        said = f"its outcome cannot be passed on ({error}): {outcome[1] or type(outcome[0])}"
        return pickle.dumps((None, RuntimeError(said)))
    return data


# ---- the wire ---------------------------------------------------------------------------------


def _send(sock: socket.socket, data: bytes) -> None:
    sock.sendall(LENGTH.pack(len(data)))
    sock.sendall(data)


def receive(sock: socket.socket, deadline: float | None = None) -> bytes:
    """Return what was sent. EOFError when the other end is gone, TimeoutError at the deadline."""
    (length,) = LENGTH.unpack(_receive_exactly(sock, LENGTH.size, deadline))
    return _receive_exactly(sock, length, deadline)


def _receive_exactly(sock: socket.socket, length: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < length:
        if deadline is not None:
            sock.settimeout(max(0.001, deadline - time.monotonic()))
        piece = sock.recv(min(_CHUNK, length - len(data)))
        if not piece:
            raise EOFError("the process is gone")
        data += piece
    return bytes(data)
