"""Owns one machine: its time to live, its process tree, its files. Standard library only.

    python -I -S -c "…; supervisor.main(CONTROL_FD)"      (with an empty environment)

The worker sends one line of JSON on the control socket (`sandbox.launch` builds it and documents
its keys) and descriptors with it: the first becomes the machine's standard input and output, and it
inherits the others. Until then this process waits: a worker keeps one in reserve. A machine that
was started before its run was known gets a second line: run and deadline.

The machine ends when

- the control socket closes: the worker died, or wants it gone (`killed`)
- SIGTERM comes: another process of this host reaps it (`killed`)
- the deadline passes, on the monotonic clock, whatever the worker does (`deadline`)
- it uses more memory than it may (`oom`)
- its own process ends (`exited`)

and then, in every case: each process that descends from the machine is killed, its directory and
cgroups are removed, and one line of JSON says why. This process is a subreaper (prctl(2)), so no
descendant can leave it, and when no child is left nothing is. Should this process itself be
killed, PR_SET_PDEATHSIG takes the machine along.
"""

# Without pathlib it starts faster:
# ruff: noqa: PTH103, PTH104, PTH106, PTH118, PTH123, PTH208

from __future__ import annotations

import _socket  # `socket` itself would cost a tenth of the start-up time
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import time
from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sandbox.substitute import Substitutes

MAX_FDS = 8
FIRST_FD = 10  # where `open_paths` are found by the machine's argv
STDERR_TAIL = 8 * 1024
MEMORY_POLL_S = 0.5
MAX_WAIT_S = 3600.0  # poll(2) takes an int of milliseconds
CLEANUP_S = 10.0
CAUGHT = (signal.SIGTERM, signal.SIGCHLD)
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWUSER = 0x10000000
_libc = ctypes.CDLL(None, use_errno=True)


def main(control_fd: int) -> None:
    os.set_inheritable(control_fd, False)  # the machine gets copies of what it needs
    control = Control(control_fd)
    spec, fds = control.read_spec()
    if spec is None:
        return
    wakeup = catch_signals()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    machine = Machine(spec)
    try:
        machine.start(fds, control)
        for fd in fds:
            os.close(fd)
        reason = machine.watch(control, wakeup)
    except OSError as error:
        reason, machine.stderr = "exited", str(error).encode()
    everything_ended = machine.end()
    if reason == "exited" and machine.was_out_of_memory():
        reason = "oom"
    if everything_ended:  # or else its record stays, for somebody to find
        machine.remove()
    control.say(
        event="ended",
        reason=reason,
        status=machine.status,
        stderr=machine.stderr.decode("utf-8", "replace"),
    )


class Control:
    """The socket to the worker. A worker that is gone is no error."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read_spec(self) -> tuple[dict[str, Any] | None, list[int]]:
        """Wait for the first line, and the descriptors that come with its first byte."""
        received = array("i")
        with contextlib.closing(_socket.socket(fileno=os.dup(self.fd))) as control:
            room = _socket.CMSG_SPACE(MAX_FDS * received.itemsize)
            piece, extra, _, _ = control.recvmsg(65536, room, _socket.MSG_CMSG_CLOEXEC)
        for _, _, data in extra:
            received.frombytes(data)
        return self.read_line(piece) if piece else None, list(received)

    def read_line(self, line: bytes = b"") -> dict[str, Any] | None:
        """Wait for the rest of a line; None when the worker wants no more, or is gone."""
        while not line.endswith(b"\n"):
            piece = os.read(self.fd, 65536)
            if not piece:
                return None
            line += piece
        said: dict[str, Any] = json.loads(line)
        return said

    def say(self, **fields: object) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            os.write(self.fd, json.dumps(fields).encode() + b"\n")


class Machine:
    """The machine's process tree and what belongs to it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.directory = ""
        self.deadline = time.monotonic() + spec["ttl_s"]
        self.pid = 0
        self.status: int | None = None
        self.stderr = b""
        self._stderr_fd = -1
        self._substitutes: Substitutes | None = None
        self._cgroups: list[str] = []
        self._over_limit = False

    # Start

    def start(self, fds: list[int], control: Control) -> None:
        self._make_directory()
        limited_by = "cgroup" if self._make_cgroups() else "watch"
        self._stderr_fd, stderr_writer = os.pipe()
        self._substitutes = _substitutes(self.spec["substitutes"])
        self.pid = self._spawn(fds, stderr_writer)
        os.close(stderr_writer)
        self._record(self.pid)
        control.say(event="started", pid=self.pid, limited_by=limited_by)

    def _make_directory(self) -> None:
        """Make it elsewhere and move it, so that a machine's directory always holds its record."""
        final = self.spec["directory"]
        self.directory = final + ".new"
        os.makedirs(self.directory, mode=0o700)
        for name in self.spec["directories"]:
            os.makedirs(os.path.join(self.directory, name))
        for name, text in self.spec["files"].items():
            _write_text(os.path.join(self.directory, name), text)
        for name, source in self.spec["copies"].items():
            shutil.copyfile(source, os.path.join(self.directory, name))
        for name, source in self.spec["links"].items():
            os.link(source, os.path.join(self.directory, name))
        self._record(0)
        os.rename(self.directory, final)
        self.directory = final

    def _record(self, machine_pid: int) -> None:
        """Write machine.json, by which another process finds this machine again."""
        record = dict(self.spec["record"])
        for name, pid in (("supervisor", os.getpid()), ("machine", machine_pid)):
            record[f"{name}_pid"] = pid
            record[f"{name}_started"] = start_time(pid) if pid else 0
        path = os.path.join(self.directory, "machine.json")
        _write_text(path + ".new", json.dumps(record))
        os.rename(path + ".new", path)

    def _make_cgroups(self) -> bool:
        """Make all cgroups of the plan, or none: a limit that holds only partly is polled."""
        try:
            for group in self.spec["cgroups"]:
                os.makedirs(group["path"])
                self._cgroups.append(group["path"])
                for name, value in group["files"].items():
                    _write_text(os.path.join(group["path"], name), value)
        except OSError:
            self._remove_cgroups()
        return bool(self._cgroups)

    def _spawn(self, fds: list[int], stderr_fd: int) -> int:
        """Fork the machine's process. It waits until its uid map is written."""
        ready_reader, ready_writer = os.pipe()
        mapped_reader, mapped_writer = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(mapped_writer)
                self._enter_cgroups()
                self._take_identity(ready_writer, mapped_reader)
                if os.getppid() == parent:  # else it died before it could take us along
                    self._exec(fds, stderr_fd)
            except BaseException as error:  # noqa: BLE001  nothing may return from a forked child
                os.write(stderr_fd, f"{type(error).__name__}: {error}\n".encode())
            os._exit(127)
        os.close(ready_writer)
        os.close(mapped_reader)
        if os.read(ready_reader, 1) and self.spec["uid_base"] is not None:
            _write_id_maps(pid, self.spec["uid_base"])
        os.close(ready_reader)
        os.close(mapped_writer)
        if self._substitutes:
            self._substitutes.receive()
        return pid

    def _enter_cgroups(self) -> None:
        for path in self._cgroups:
            _write_text(os.path.join(path, "cgroup.procs"), "0")

    def _take_identity(self, ready: int, mapped: int) -> None:
        """In the child: its session, user namespace and ids. Order matters."""
        os.setsid()
        # Opened as ourselves: in its user namespace the child may not walk down to these any more.
        self._opened = [os.open(path, flags) for path, flags in self.spec["open_paths"]]
        shifted = self.spec["uid_base"] is not None
        if shifted and _libc.unshare(_CLONE_NEWUSER):
            raise _os_error("unshare(CLONE_NEWUSER)")
        os.write(ready, b"x")
        os.read(mapped, 1)  # returns when the supervisor has written the maps and closed its end
        if shifted:
            os.setgroups([])
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
        # Last, because a change of ids clears it.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def _exec(self, fds: list[int], stderr_fd: int) -> None:
        """In the child: the machine's own program, with nothing of ours left."""
        signal.set_wakeup_fd(-1)
        for number in CAUGHT + IGNORED + (signal.SIGXFSZ,):
            signal.signal(number, signal.SIG_DFL)
        _set_limits(self.spec["rlimits"])
        if self._substitutes:
            self._substitutes.install()
        _arrange_fds([fds[0], fds[0], stderr_fd], [*self._opened, *fds[1:]])
        os.chdir("/")
        os.execve(self.spec["argv"][0], self.spec["argv"], self.spec["env"])  # noqa: S606

    # Life

    def watch(self, control: Control, wakeup: int) -> str:
        """Wait for the first reason to end, and return it."""
        asking = self._substitutes.fd if self._substitutes else -1
        poll = _poll_for(control.fd, wakeup, self._stderr_fd, asking)
        while True:
            left = self.deadline - time.monotonic()
            if left <= 0:
                return "deadline"
            if not self._cgroups and self._is_over_limit():
                return "oom"
            ready = [fd for fd, _ in poll.poll(self._patience_ms(left))]
            reason = self._reason_in(ready, control, wakeup)
            if reason:
                return reason
            if self._stderr_fd in ready and not self._read_stderr():
                poll.unregister(self._stderr_fd)
            if self._substitutes and asking in ready:
                self._substitutes.answer()

    def _reason_in(self, ready: list[int], control: Control, wakeup: int) -> str:
        """What somebody wants, or has happened, to end it; "" when nothing."""
        if control.fd in ready and not self._is_handed_over(control):
            return "killed"
        if wakeup in ready and signal.SIGTERM in _drain(wakeup):
            return "killed"
        return "exited" if wakeup in ready and self._reap() else ""

    def _is_handed_over(self, control: Control) -> bool:
        """Whether the worker has a run for this machine; False when it wants it gone."""
        said = control.read_line()
        if said is None:
            return False
        self.spec["record"].update(said["record"])
        self.deadline = time.monotonic() + said["ttl_s"]
        self._record(self.pid)
        control.say(event="recorded")
        return True

    def _patience_ms(self, left_s: float) -> float:
        """How long to wait for the next event; rounded up, for poll rounds down."""
        return min(left_s, MAX_WAIT_S if self._cgroups else MEMORY_POLL_S) * 1000 + 1

    def _read_stderr(self) -> bool:
        piece = os.read(self._stderr_fd, STDERR_TAIL)
        self.stderr = (self.stderr + piece)[-STDERR_TAIL:]
        return bool(piece)

    def _reap(self) -> bool:
        """Collect ended children, and say whether the machine's own process was among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self.status is not None
            if pid == 0:
                return self.status is not None
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)

    def _is_over_limit(self) -> bool:
        used = sum(memory_of(pid) for pid in descendants(os.getpid()))
        self._over_limit = used > self.spec["memory_bytes"]
        return self._over_limit

    # End

    def end(self) -> bool:
        """Kill descendants until there is no child left, orphans of orphans included.

        False when some could not be killed in CLEANUP_S (one hangs in the kernel).
        """
        give_up = time.monotonic() + CLEANUP_S
        while _has_children() and time.monotonic() < give_up:
            for pid in descendants(os.getpid()):
                _kill(pid)
            self._reap()
            time.sleep(0.002)
        if self._stderr_fd >= 0:
            self._read_last_words()
        return not _has_children()

    def _read_last_words(self) -> None:
        os.set_blocking(self._stderr_fd, False)
        try:
            while self._read_stderr():
                pass
        except BlockingIOError:
            pass

    def was_out_of_memory(self) -> bool:
        return self._over_limit or any(_oom_kills(path) for path in self._cgroups)

    def remove(self) -> None:
        self._remove_cgroups()
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _remove_cgroups(self) -> None:
        """Remove them; the kernel may take a moment to notice that one is empty."""
        give_up = time.monotonic() + 1.0
        while self._cgroups:
            try:
                os.rmdir(self._cgroups[-1])
            except OSError as error:
                if error.errno == errno.EBUSY and time.monotonic() < give_up:
                    time.sleep(0.005)
                    continue
            self._cgroups.pop()


def _poll_for(*fds: int) -> select.poll:
    poll = select.poll()
    for fd in fds:
        if fd >= 0:
            poll.register(fd, select.POLLIN)
    return poll


def catch_signals() -> int:
    """Have SIGTERM and SIGCHLD show up as bytes to read; ignore what a terminal would send."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in CAUGHT:
        signal.signal(number, lambda *_: None)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 when there is none.

    Together with the pid this names a process for good. See proc_pid_stat(5), field 22.
    """
    fields = _stat_fields(pid)
    return int(fields[19]) if fields and fields[0] != b"Z" else 0


def descendants(root: int) -> list[int]:
    """All living processes below `root`."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, queue = [], [root]
    while queue:
        below = children.pop(queue.pop(), [])
        found += below
        queue += below
    return found


def parents() -> dict[int, int]:
    """Every process of the host, those that nobody has collected yet too, and its parent."""
    found = {}
    for name in os.listdir("/proc"):
        fields = _stat_fields(int(name)) if name.isdigit() else None
        if fields:
            found[int(name)] = int(fields[1])
    return found


def memory_of(pid: int) -> int:
    """Return a process's share of memory in bytes (PSS); its anonymous memory where hidden."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
        return next((int(line[1]) * 1024 for line in lines if line[0] == b"Pss:"), 0)
    except PermissionError:
        return _anonymous_memory_of(pid)
    except (OSError, ValueError):  # it ended meanwhile
        return 0


def _anonymous_memory_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared = map(int, file.read().split()[:3])
    except (OSError, ValueError):
        return 0
    return (resident - shared) * resource.getpagesize()


def _stat_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat after the name, which may itself hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return None


def _oom_kills(cgroup: str) -> int:
    """How often the kernel killed for memory in a cgroup: memory.events in v2, or v1's file."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            with open(os.path.join(cgroup, name), encoding="ascii") as file:
                counts = dict(line.split() for line in file)
        except OSError:
            continue
        return int(counts.get("oom_kill", 0))
    return 0


def _substitutes(wanted: list[Any]) -> Substitutes | None:
    """Open what is to be substituted. The module lies beside this file; few machines need it."""
    if not wanted:
        return None
    if not TYPE_CHECKING:
        from substitute import Substitutes  # noqa: PLC0415
    return Substitutes({name: os.open(path, flags) for name, path, flags in wanted})


def _write_id_maps(pid: int, base: int) -> None:
    for name in ("uid_map", "gid_map"):
        _write_text(f"/proc/{pid}/{name}", f"0 {base} 65536\n")


def _set_limits(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _arrange_fds(standard: list[int], opened: list[int]) -> None:
    """Put descriptors where the machine expects them. Everything else closes on exec."""
    wanted = dict(enumerate(standard)) | {FIRST_FD + i: fd for i, fd in enumerate(opened)}
    above = FIRST_FD + len(opened) + len(wanted)
    moved = {target: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for target, fd in wanted.items()}
    for target, fd in moved.items():
        os.dup2(fd, target)
    os.closerange(3, FIRST_FD)
    os.closerange(FIRST_FD + len(opened), above)


def prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0):
        raise _os_error("prctl")


def _os_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def _drain(fd: int) -> bytes:
    return os.read(fd, 4096)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
