"""Programs: find them, start them as their user, see which of them run, end them.

A start is a fork, although posix_spawn takes half the time under gVisor. That could give a child
`work`'s ids only while they are the agent's own real ones, and for as long whoever is `work` may
send the agent signals: kill(2) asks for the target's real and saved ids.
"""

# The agent's rules for imports hold here too:
# ruff: noqa: PTH112, PTH118, PTH123, PTH208, SIM105

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO, NoReturn

WORK_UID = 1000
# A child that is stopped before it executes (it is `work`'s already) must not stop the agent.
START_LIMIT_S = 10.0
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def find(name: str, env: dict[str, str]) -> str:
    """Find a program as `execvp` would, on the PATH of its own environment."""
    if "/" in name:
        return name
    for directory in env.get("PATH", "").split(":"):
        path = os.path.join(directory or ".", name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def start(
    program: str, argv: list[str], env: dict[str, str], fds: list[int], enter: Callable[[], None]
) -> int:
    """Start a program in the present folder; returns its pid. OSError when it cannot be executed.

    `fds`, all of which are above their number, become its descriptors 0, 1, 2, …; `enter` is what
    the child does last as root: its limits, its ids.
    """
    ours, low = os.pipe()
    with open(ours, "rb", 0) as failure:
        try:
            # Above the numbers that the program's own descriptors take.
            theirs = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, len(fds))
        finally:
            os.close(low)
        with open(theirs, "wb", 0) as report:
            pid = os.fork()
            if pid == 0:
                _become(program, argv, env, fds, enter, report)
        _await_start(pid, failure)
        return pid


def become_work() -> None:
    """For good: none of the three ids stays root's, so the kernel clears all capabilities."""
    os.setresgid(WORK_UID, WORK_UID, WORK_UID)
    os.setresuid(WORK_UID, WORK_UID, WORK_UID)


class Scope:
    """A context manager from two callables; `contextlib` would cost an import."""

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_error: object) -> None:
        self._leave()


def act_as_self() -> Scope:
    return Scope(lambda: None, lambda: None)


def act_as_work() -> Scope:
    """Act on files as `work`. The kernel gives the capabilities back with the uid."""
    return Scope(lambda: _set_effective(WORK_UID), lambda: _set_effective(0))


def _set_effective(uid: int) -> None:
    if uid:
        os.setegid(uid)
        os.seteuid(uid)
    else:
        os.seteuid(uid)
        os.setegid(uid)


def _become(
    program: str,
    argv: list[str],
    env: dict[str, str],
    fds: list[int],
    enter: Callable[[], None],
    report: BinaryIO,
) -> NoReturn:
    """Be the program, or say why not: its errno. Whatever happens, nothing else of the agent runs.

    The agent's descriptors close by themselves when the program runs. Until then some have the
    numbers that the program's own are to have: what needs one of them comes first.
    """
    try:
        os.setsid()
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        enter()
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
        os.execve(program, argv, env)  # noqa: S606  no shell is the point
    except OSError as error:
        report.write(b"%d" % (error.errno or errno.EIO))
    finally:
        os._exit(127)


def _await_start(pid: int, failure: BinaryIO) -> None:
    """Return when the child has become the program, or has been killed; else raise its OSError."""
    poll = select.poll()
    poll.register(failure, select.POLLIN)
    if not poll.poll(START_LIMIT_S * 1000):
        os.kill(pid, signal.SIGKILL)
    number = failure.read(16)
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)))


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def process_table() -> dict[int, tuple[int, int]]:
    """pid → (parent, session) of all processes that are not zombies."""
    table = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                # The name, in parentheses, may hold anything. See proc_pid_stat(5) for the fields.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if fields[0] != b"Z":
            table[pid] = (int(fields[1]), int(fields[3]))
    return table


def with_descendants(table: dict[int, tuple[int, int]], roots: set[int]) -> set[int]:
    found = set(roots)
    while children := {pid for pid, row in table.items() if row[0] in found} - found:
        found |= children
    return found


def has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def become_subreaper() -> None:
    """Have orphans come back here where this is not process 1 of its PID namespace (fake)."""
    import ctypes  # noqa: PLC0415  only here

    pr_set_child_subreaper = 36
    if ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0):
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")
