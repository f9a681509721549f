"""The agent: the first process inside every machine. Standard library and its own files only.

It speaks `protocol` over one byte stream (its standard input, a socket) and does five things:

- `exec`: run a command as uid 1000 (`work`) or as root, streaming its output under credit
- `warm`: start a program that is to become such a command later (`warm.py`)
- `put`, `get`: write and read one regular file
- listen on 127.0.0.1 and carry each connection to the host as an `egress` stream

One thread, one epoll loop. Where the agent is uid 0 it lowers its effective uid for whatever it
does in a user's name. Where the machine maps a single uid (rootless bubblewrap, fake) it is
started with `one`, and commands share its uid.

The agent keeps order among well-meant commands; it is no boundary. Whatever runs in the guest may
take it over, which is why the host's side trusts nothing that it says.

Modules are imported sparingly: under gVisor `json` alone costs 25 ms, `subprocess` or `tarfile`
more. Requires Python 3.11.
"""

# pathlib and contextlib are among the imports that cost:
# ruff: noqa: PTH100, PTH103, PTH120, PTH208

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.guest.warm import Warm
    from sandbox.protocol import Frame
if TYPE_CHECKING or __package__:
    from sandbox import protocol
    from sandbox.guest import programs
    from sandbox.guest.commands import Command
    from sandbox.guest.files import Get, Put
    from sandbox.guest.programs import WORK_UID
    from sandbox.guest.task import CHUNK, Fields, Task
    from sandbox.guest.tunnel import Proxy
else:  # in the machine the files lie side by side
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import programs
    import protocol
    from commands import Command
    from files import Get, Put
    from programs import WORK_UID
    from task import CHUNK, Fields, Task
    from tunnel import Proxy

OWNED_BY_WORK = ("/work", "/home/work")
KILL_ROUNDS = 200
READ, WRITE = select.EPOLLIN, select.EPOLLOUT


class Lost(Exception):
    """The host's side of the byte stream is gone."""


class Link:
    """The byte stream to the host. A device that can be opened again would only replace this."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        os.set_blocking(fd, False)

    def read(self) -> bytes:
        """Return what there is, b"" when there is nothing now. Lost at the end."""
        try:
            data = os.read(self.fd, 4 * CHUNK)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise Lost from error
        if not data:
            raise Lost
        return data

    def write(self, data: bytearray) -> int:
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Lost from error


class Agent:
    """The loop: what is watched, which streams are live, what waits to be written to the host."""

    def __init__(self, link: Link, proxy_port: int, *, two_users: bool) -> None:
        self.link = link
        self.connection = _new_connection()
        self.tasks: dict[int, Task] = {}
        self.commands: dict[int, Command] = {}
        self.warm: Warm | None = None
        self.two_users = two_users
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._out = bytearray()
        self._blocked = False
        self._awaits_host = False
        self._wakeup, self._wakeup_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_writer, warn_on_full_buffer=False)
        self.watch(self._wakeup, READ, self._on_child)
        self.watch(link.fd, READ, self._on_link)
        self.proxy = Proxy(self, proxy_port)

    def run(self) -> None:
        """Serve until the host is gone (Lost)."""
        self._greet()
        while True:
            self._flush()
            for fd, events in self._epoll.poll(self._next_deadline()):
                if fd in self._handlers:  # an earlier handler of this round may have closed it
                    self._handlers[fd](events)
            self._end_overdue()

    def end_with(self, pipe: int) -> None:
        """Serve no longer than somebody reads from this pipe: then Lost."""
        self.watch(pipe, 0, _lose)

    # A connection's beginning and end

    def _greet(self) -> None:
        self.send(self.connection.hello([("proxy_port", str(self.proxy.port))]))

    def leave(self) -> None:
        """Forget this connection: the next byte belongs to another one, which the host begins.

        That host may be another: the machine may have been stopped, copied and continued meanwhile.
        """
        self.connection = _new_connection()
        self._awaits_host = True
        self.proxy.pause()

    def abandon(self) -> None:
        """Give up all that a lost host had asked for, so that another agent can take over."""
        for task in list(self.tasks.values()):
            task.on_end(reset=True)
        if self.warm is not None:
            self.warm.give_up()
        signal.set_wakeup_fd(-1)
        self.proxy.close()
        for fd in (self.link.fd, self._wakeup, self._wakeup_writer):
            os.close(fd)
        self._epoll.close()

    def _on_hello(self) -> None:
        if self._awaits_host:
            self._awaits_host = False
            self._greet()
            self.proxy.resume()

    # Watching

    def watch(self, fd: int, events: int, handler: Callable[[int], None]) -> None:
        if fd in self._handlers:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def unwatch(self, fd: int) -> None:
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self, fd: int) -> None:
        self.unwatch(fd)
        os.close(fd)

    # The host's side

    def send(self, data: bytes) -> None:
        self._out += data

    def end(self, task: Task, fields: Fields) -> None:
        """Send a task's result and forget it."""
        del self.tasks[task.stream]
        self.send(self.connection.close(task.stream, fields))

    def fail(self, task: Task, error: OSError) -> None:
        self.end(task, [("errno", str(error.errno or errno.EIO))])

    def _flush(self) -> None:
        if self._out:
            del self._out[: self.link.write(self._out)]
        if self._blocked != bool(self._out):
            self._blocked = not self._blocked
            self.watch(self.link.fd, READ | (WRITE if self._blocked else 0), self._on_link)

    def _on_link(self, events: int) -> None:
        if not events & ~WRITE:
            return
        for frame in self.connection.receive(self.link.read()):
            self._on_frame(frame)

    def _on_frame(self, frame: Frame) -> None:
        if frame.kind == protocol.HELLO:
            self._on_hello()
            return
        if frame.kind == protocol.OPEN:
            self._on_open(frame)
            return
        task = self.tasks.get(frame.stream)
        if task is None:
            return
        if frame.kind == protocol.DATA:
            task.on_data(frame.payload)
        elif frame.kind == protocol.EOF:
            task.on_eof()
        elif frame.kind == protocol.CREDIT:
            task.on_credit()
        else:
            del self.tasks[frame.stream]
            task.on_end(reset=frame.kind == protocol.RESET)

    def _on_open(self, frame: Frame) -> None:
        fields = protocol.unpack_fields(frame.payload)
        kind = dict(fields)["kind"]
        task = (KINDS.get(kind) or _kind_of_warm())(self, frame.stream)
        self.tasks[frame.stream] = task
        try:
            task.start(fields)
        except OSError as error:
            self.fail(task, error)

    # Children

    def _on_child(self, _events: int) -> None:
        os.read(self._wakeup, 4096)
        self.reap()

    def reap(self) -> None:
        """Collect every child that ended, orphans handed to this process included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            command = self.commands.pop(pid, None)
            if command is not None:
                command.on_exit(status)
            elif self.warm is not None and self.warm.pid == pid:
                self.warm.on_exit(status)

    def _next_deadline(self) -> float | None:
        deadlines = [command.deadline for command in self.commands.values()]
        if self.warm is not None and self.warm.deadline is not None:
            deadlines.append(self.warm.deadline)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for command in list(self.commands.values()):
            if command.deadline <= now and command.pid in self.commands:
                command.timed_out = True
                self.kill_tree(command)
        if self.warm is not None and self.warm.deadline is not None and self.warm.deadline <= now:
            self.warm.give_up()

    def kill_tree(self, command: Command) -> None:
        """Kill a command's processes, daemonised ones included, until none is left.

        KILL_ROUNDS bounds it for a tree that forks as fast as it dies; the host, which waits for
        the answer, then ends the machine.
        """
        for _ in range(KILL_ROUNDS):
            targets = self._processes_of(command)
            for pid in targets:
                programs.kill(pid)
            self.reap()
            if not targets:
                return
            time.sleep(0.002)

    def _processes_of(self, command: Command) -> set[int]:
        """All live processes that this command started.

        Orphans come back to the agent (it is process 1, or a subreaper). One belongs to the command
        unless it is, or comes from, another running command or a daemon from before this one.
        """
        table = programs.process_table()
        others = {pid for pid in self.commands if pid != command.pid} | command.strangers
        if self.warm is not None:
            others.add(self.warm.pid)
        spared = programs.with_descendants(table, others)
        roots = {
            pid
            for pid, (parent, session) in table.items()
            if session == command.pid or (parent == os.getpid() and session not in others)
        }
        return programs.with_descendants(table, roots - spared)

    def kill_session(self, leader: int) -> None:
        """Kill what a session holds now; not what has left it."""
        for pid in [pid for pid, row in programs.process_table().items() if row[1] == leader]:
            programs.kill(pid)

    def spawn(
        self, user: str, program: str, argv: list[str], env: dict[str, str], fds: list[int]
    ) -> int:
        """Start a program as a user; `fds` become its descriptors 0, 1, 2, … OSError."""
        return programs.start(program, argv, env, fds, lambda: self.enter(user))

    def enter(self, user: str) -> None:
        """In a new child, which is root as the agent is: become the user."""
        if self.lowers(user):
            programs.become_work()

    def acting_as(self, user: str) -> programs.Scope:
        """What is opened and made meanwhile is the user's; signals can be sent by root alone."""
        return programs.act_as_work() if self.lowers(user) else programs.act_as_self()

    def lowers(self, user: str) -> bool:
        """Say whether what is done for this user is done with less than the agent's own ids."""
        return user == "work" and self.two_users

    def daemons(self) -> set[int]:
        """What earlier commands left running, and its sessions. Mostly free: there is nothing."""
        if not self.commands and not programs.has_children():
            return set()
        mine = {pid: row for pid, row in programs.process_table().items() if row[0] == os.getpid()}
        orphans = mine.keys() - self.commands.keys()
        return orphans | {mine[pid][1] for pid in orphans}


class Leave(Task):
    """The host's last word on this connection. EBUSY while anything else is live on it."""

    def start(self, fields: Fields) -> None:
        if self.agent.commands or len(self.agent.tasks) > 1:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self.agent.end(self, [])
        self.agent.leave()


KINDS: dict[str, type[Task]] = {
    "exec": Command,
    "put": Put,
    "get": Get,
    "leave": Leave,
}


def _kind_of_warm() -> type[Warm]:
    """A machine that wants none need not read it."""
    if TYPE_CHECKING or __package__:
        from sandbox.guest.warm import Warm  # noqa: PLC0415
    else:
        from warm import Warm  # noqa: PLC0415
    return Warm


def _new_connection() -> protocol.Connection:
    return protocol.Connection(protocol.GUEST, max_meta=protocol.MAX_COMMAND_META)


def _lose(_events: int) -> None:
    raise Lost


def _prepare() -> Link:
    """Take the byte stream off fd 0 and close whatever else was inherited."""
    link = Link(os.dup(0))
    # fd 1 is the same socket. It must stay open somewhere: gVisor imports the two descriptors
    # separately, and shuts the socket down when it closes either.
    kept = {0, 1, 2, link.fd, os.dup(1)}
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd not in kept:
            os.closerange(fd, fd + 1)  # unlike close, no error for the listing's own descriptor
    os.umask(0o022)
    return link


def _give_work_its_directories() -> None:
    os.setgroups([])
    for path in OWNED_BY_WORK:
        os.makedirs(path, exist_ok=True)
        os.chown(path, WORK_UID, WORK_UID)


def main(proxy_port: str, users: str) -> None:
    """Serve on fd 0. `users` is `two` (root and work) or `one` (whoever runs this)."""
    link = _prepare()
    if users == "two":
        _give_work_its_directories()
    if os.getpid() != 1:
        programs.become_subreaper()
    agent = Agent(link, int(proxy_port), two_users=users == "two")
    # Standard error is the supervisor's. Should that die, PR_SET_PDEATHSIG would take this process
    # along, but any change of the effective ids has cleared it (see prctl(2)).
    agent.end_with(2)
    try:
        agent.run()
    except Lost:
        return  # and where this is process 1, the kernel ends all others


if __name__ == "__main__":
    main(*sys.argv[1:])
