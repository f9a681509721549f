"""Starts a supervisor and hears from it: the worker's end of `supervisor`."""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox import supervisor
from sandbox.cgroups import Cgroup
from sandbox.machines import end_machine, read_record
from sandbox.provider import MachineLost

_log = logging.getLogger(__name__)
_RECORD_TIMEOUT_S = 5.0
_KILL_TIMEOUT_S = supervisor.CLEANUP_S + 5.0


@dataclass(frozen=True)
class Launch:
    """How one machine is started; what a provider decides.

    `argv` and `env` are the machine's own process; fd 0 and 1 are its byte stream. `files`,
    `directories`, `copies` and hard `links` (name, source) are made in the machine's directory
    first. Each of `open_paths` (path, flags) is opened before anything is given up and found at fd
    10, 11, …; more descriptors of the worker's follow them. `substitutes` (name, path, flags): what
    the machine's process gets when it opens that name for reading and writing; see
    `sandbox.substitute`. With `uid_base`, the process gets a user namespace in which it is uid 0
    and the host sees uids from that number on. `memory_bytes` is the ceiling that is polled where
    cgroups cannot be had.
    """

    argv: tuple[str, ...]
    memory_bytes: int
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    open_paths: tuple[tuple[str, int], ...] = ()
    substitutes: tuple[tuple[str, str, int], ...] = ()
    uid_base: int | None = None
    rlimits: Mapping[str, int] = field(default_factory=dict)
    cgroups: tuple[Cgroup, ...] = ()


@dataclass(frozen=True)
class Identity:
    """Whose machine it is, for its record."""

    id: str
    run_id: str
    provider: str
    template_digest: str
    created_at: float


@dataclass(frozen=True)
class Ended:
    """Why a machine ended, from its supervisor. `stderr` is the tail of the machine's own."""

    reason: str
    stderr: str


class Supervised:
    """One supervisor process, and through it one machine."""

    def __init__(
        self, launch: Launch, identity: Identity, directory: Path, ttl_s: float, *machine_fds: int
    ) -> None:
        """Start it. `machine_fds` (its byte stream, then more) are duplicated: close your own."""
        self.limited_by = ""
        self.report: Ended | None = None
        self._recorded = threading.Event()
        self._directory = directory
        self._process, self._control = _RESERVE.take()
        self._listener = threading.Thread(target=self._listen, name="supervisor", daemon=True)
        self._listener.start()
        line = json.dumps(spec_of(launch, identity, directory, ttl_s)) + "\n"
        with suppress(BrokenPipeError):  # it died at once; its report, or none, says so
            _send(self._control, line.encode(), machine_fds)

    def wait(self, timeout_s: float | None = None) -> Ended | None:
        """Wait until everything of the machine is gone; None if it is not by then."""
        self._listener.join(timeout_s)
        return None if self._listener.is_alive() else self.report

    def hand_over(self, run_id: str, ttl_s: float) -> None:
        """Give a machine that waited to a run, whose time begins now; its record says so then.

        Nothing if it has ended: whoever uses the machine is told.
        """
        line = json.dumps({"record": {"run_id": run_id}, "ttl_s": ttl_s}) + "\n"
        with suppress(OSError):
            self._control.sendall(line.encode())
            self._recorded.wait(_RECORD_TIMEOUT_S)

    def kill(self) -> None:
        """End the machine and wait for it; idempotent, from any thread."""
        try:
            self._control.shutdown(socket.SHUT_WR)
        except OSError:
            _log.debug("the supervisor of %s has ended already", self._directory.name)
        if self.wait(_KILL_TIMEOUT_S) is not None:
            _RESERVE.fill()
            return
        record = read_record(self._directory)
        if record is not None:
            end_machine(record)
        self._process.kill()
        self._listener.join()

    def _listen(self) -> None:
        ended = Ended("exited", "the supervisor itself was killed")
        with self._control.makefile("rb") as lines, suppress(ConnectionResetError):
            for line in lines:
                message: dict[str, Any] = json.loads(line)
                if message["event"] == "started":
                    self.limited_by = message["limited_by"]
                elif message["event"] == "recorded":
                    self._recorded.set()
                else:
                    ended = Ended(message["reason"], message["stderr"])
        self._process.wait()
        self.report = ended
        self._recorded.set()
        self._control.close()


class _Reserve:
    """One supervisor that waits for its machine, so that a machine need not wait for Python.

    Where the time of a machine's start goes otherwise: 30 of 270 ms. Like any supervisor, it ends
    when this process does. One that was started before a fork is the parent's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: tuple[subprocess.Popen[bytes], socket.socket] | None = None
        self._owner = 0

    def take(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """The one that waits, else a new one."""
        with self._lock:
            taken, self._waiting = self._waiting, None
            mine = self._owner == os.getpid()
        if taken is not None and mine and taken[0].poll() is None:
            return taken
        return _start_supervisor()

    def fill(self) -> None:
        """Start one, if none waits. Call it when nothing else is in a hurry."""
        with self._lock:
            if self._waiting is None or self._owner != os.getpid():
                self._waiting, self._owner = _start_supervisor(), os.getpid()

    def empty(self) -> None:
        with self._lock:
            taken, self._waiting = self._waiting, None
        if taken is not None and self._owner == os.getpid():
            process, control = taken
            control.close()
            process.wait()


_RESERVE = _Reserve()
atexit.register(_RESERVE.empty)


_IMPORT = (
    "import sys; folder, name, fd = sys.argv[1:]; sys.path.append(folder)"
    "; __import__(name).main(int(fd))"
)


def _start_supervisor() -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            supervisor_argv(theirs.fileno()),
            env={},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    return process, ours


def _send(sock: socket.socket, data: bytes, fds: Sequence[int]) -> None:
    sent = socket.send_fds(sock, [data], list(fds))
    sock.sendall(data[sent:])


def supervisor_argv(control_fd: int) -> list[str]:
    """Isolated and without site-packages: it imports the standard library alone, and fast.

    Imported, it need not be compiled each time, as a script would be.
    """
    path = Path(supervisor.__file__).resolve()
    return [sys.executable, "-I", "-S", "-c", _IMPORT, str(path.parent), path.stem, str(control_fd)]


def spec_of(launch: Launch, identity: Identity, directory: Path, ttl_s: float) -> dict[str, Any]:
    """The one line that the supervisor is told. It goes by socket, for argv is public."""
    return {
        "directory": str(directory),
        "record": {
            "id": identity.id,
            "run_id": identity.run_id,
            "provider": identity.provider,
            "template_digest": identity.template_digest,
            "created_at": identity.created_at,
            "cgroups": [group.path for group in launch.cgroups],
        },
        "ttl_s": ttl_s,
        "argv": list(launch.argv),
        "env": dict(launch.env),
        "files": dict(launch.files),
        "directories": list(launch.directories),
        "copies": dict(launch.copies),
        "links": dict(launch.links),
        "open_paths": [list(item) for item in launch.open_paths],
        "substitutes": [list(item) for item in launch.substitutes],
        "uid_base": launch.uid_base,
        "rlimits": dict(launch.rlimits),
        "memory_bytes": launch.memory_bytes,
        "cgroups": [{"path": g.path, "files": dict(g.files)} for g in launch.cgroups],
    }


def lost(ended: Ended) -> MachineLost:
    return MachineLost(ended.reason, ended.stderr.strip()[-2000:])
