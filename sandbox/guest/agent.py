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
# ruff: noqa: PTH100, PTH103, PTH104, PTH108, PTH118, PTH120, PTH123, PTH208, SIM105

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import stat
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
    from sandbox.guest.programs import WORK_UID
else:  # in the machine the files lie side by side
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import programs
    import protocol
    from programs import WORK_UID

OWNED_BY_WORK = ("/work", "/home/work")
CHUNK = protocol.MAX_DATA
DRAIN_LIMIT = 1024 * 1024  # the largest a pipe can be, by default (/proc/sys/fs/pipe-max-size)
KILL_ROUNDS = 200
READ, WRITE = select.EPOLLIN, select.EPOLLOUT

Fields = list[tuple[str, str]]


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


class Task:
    """One live stream. Sub-classes act on what the host sends."""

    def __init__(self, agent: Agent, stream: int) -> None:
        self.agent = agent
        self.stream = stream

    def start(self, fields: Fields) -> None:
        """Begin; an OSError becomes the result."""
        raise NotImplementedError

    def on_data(self, data: bytes) -> None:
        raise NotImplementedError

    def on_eof(self) -> None:
        raise NotImplementedError

    def on_credit(self) -> None:
        """More may be sent."""

    def on_end(self, *, reset: bool) -> None:
        """The host closed or reset the stream; it is already gone."""


class Agent:
    """The loop: what is watched, which streams are live, what waits to be written to the host."""

    def __init__(self, link: Link, proxy_port: int, *, two_users: bool) -> None:
        self.link = link
        self.connection = _new_connection()
        self.tasks: dict[int, Task | Warm] = {}
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

    def end(self, task: Task | Warm, fields: Fields) -> None:
        """Send a task's result and forget it."""
        del self.tasks[task.stream]
        self.send(self.connection.close(task.stream, fields))

    def fail(self, task: Task | Warm, error: OSError) -> None:
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
                _kill(pid)
            self.reap()
            if not targets:
                return
            time.sleep(0.002)

    def _processes_of(self, command: Command) -> set[int]:
        """All live processes that this command started.

        Orphans come back to the agent (it is process 1, or a subreaper). One belongs to the command
        unless it is, or comes from, another running command or a daemon from before this one.
        """
        table = _process_table()
        others = {pid for pid in self.commands if pid != command.pid} | command.strangers
        if self.warm is not None:
            others.add(self.warm.pid)
        spared = _with_descendants(table, others)
        roots = {
            pid
            for pid, (parent, session) in table.items()
            if session == command.pid or (parent == os.getpid() and session not in others)
        }
        return _with_descendants(table, roots - spared)

    def kill_session(self, leader: int) -> None:
        """Kill what a session holds now; not what has left it."""
        for pid in [pid for pid, row in _process_table().items() if row[1] == leader]:
            _kill(pid)

    def spawn(
        self, user: str, program: str, argv: list[str], env: dict[str, str], fds: list[int]
    ) -> int:
        """Start a program as a user; `fds` become its descriptors 0, 1, 2, … OSError."""
        return programs.start(program, argv, env, fds, lambda: self.enter(user))

    def enter(self, user: str) -> None:
        """In a new child, which is root as the agent is: become the user."""
        if self.lowers(user):
            programs.become_work()

    def acting_as(self, user: str) -> Scope:
        """What is opened and made meanwhile is the user's; signals can be sent by root alone."""
        return _effective_ids_of_work() if self.lowers(user) else _nothing()

    def lowers(self, user: str) -> bool:
        """Say whether what is done for this user is done with less than the agent's own ids."""
        return user == "work" and self.two_users

    def daemons(self) -> set[int]:
        """What earlier commands left running, and its sessions. Mostly free: there is nothing."""
        if not self.commands and not _has_children():
            return set()
        mine = {pid: row for pid, row in _process_table().items() if row[0] == os.getpid()}
        orphans = mine.keys() - self.commands.keys()
        return orphans | {mine[pid][1] for pid in orphans}


class Command(Task):
    """One `exec` stream. DATA from the host is its input; the result is how it ended."""

    def start(self, fields: Fields) -> None:
        options = dict(fields)
        self.pid = 0
        self.status: int | None = None
        self.timed_out = False
        self.truncated = False
        self.room = [int(options["output_cap"])] * 2
        self.drained = [0, 0]
        self.outputs: dict[int, int] = {}
        self.paused: set[int] = set()
        self.input: int | None = None
        self.input_buffer = bytearray()
        self.input_ended = False
        self.deadline = time.monotonic() + float(options["timeout_s"])
        self.strangers = self.agent.daemons()
        self.warm = False
        self._spawn(fields, options)

    def _spawn(self, fields: Fields, options: dict[str, str]) -> None:
        user = options["user"]
        with self.agent.acting_as(user):  # who else could not open them again, as /dev/stdin or so
            ends = [os.pipe(), os.pipe()]
            input_end = os.pipe() if options["stdin"] == "pipe" else None
        self.theirs = [input_end[0] if input_end else _open_null(), ends[0][1], ends[1][1]]
        try:
            os.chdir(options["cwd"])
            if not self._spawn_warm(fields, user):
                self._spawn_cold(fields, user)
        except OSError:
            for fd in [ends[0][0], ends[1][0], *([input_end[1]] if input_end else [])]:
                os.close(fd)
            raise
        finally:
            os.chdir("/")
        self._watch_ends([end[0] for end in ends], input_end[1] if input_end else None)

    def _spawn_warm(self, fields: Fields, user: str) -> bool:
        """Have the waiting program become this command, if it is the one. It may yet decline."""
        warm = self.agent.warm
        argv0 = next(value for key, value in fields if key == "argv")
        if warm is None or not warm.is_for(user, argv0):
            return False
        return warm.hand_over(self, fields, self.theirs)

    def _spawn_cold(self, fields: Fields, user: str) -> None:
        """Start the program itself, in the working folder that this process is in now."""
        argv = [value for key, value in fields if key == "argv"]
        env = dict(value.split("=", 1) for key, value in fields if key == "env")
        try:
            self.pid = self.agent.spawn(user, programs.find(argv[0], env), argv, env, self.theirs)
        finally:
            self._close_theirs()
        self.agent.commands[self.pid] = self

    def start_cold(self, fields: Fields) -> None:
        """The warm program did not become this command after all."""
        options = dict(fields)
        try:
            os.chdir(options["cwd"])
            self._spawn_cold(fields, options["user"])
        except OSError as error:
            self._close_ends()
            self.agent.fail(self, error)
        finally:
            os.chdir("/")

    def become_warm(self, pid: int) -> None:
        """The warm program is this command from now on."""
        self.pid = pid
        self.warm = True
        self.strangers.discard(pid)  # it was there before
        self.agent.commands[pid] = self
        self._close_theirs()

    def _close_theirs(self) -> None:
        for fd in self.theirs:
            os.close(fd)
        self.theirs = []

    def _watch_ends(self, outputs: list[int], input_end: int | None) -> None:
        for lane, fd in enumerate(outputs):
            os.set_blocking(fd, False)
            self.outputs[fd] = lane
            self.agent.watch(fd, READ, self._reader(fd))
        if input_end is not None:
            os.set_blocking(input_end, False)
            self.input = input_end

    # Output

    def _reader(self, fd: int) -> Callable[[int], None]:
        return lambda _events: self._read(fd)

    def _read(self, fd: int) -> None:
        """Move one chunk on; pause without credit; after the exit, stop when the pipe is empty."""
        lane = self.outputs[fd]
        limit = CHUNK
        if self.room[lane]:
            limit = min(CHUNK, self.agent.connection.sendable(self.stream))
        if not limit:
            self.paused.add(fd)
            self.agent.unwatch(fd)
            return
        try:
            data = os.read(fd, limit)
        except BlockingIOError:
            data = None
        if data:
            self._pass_on(lane, data)
        elif data is not None or self.status is not None:
            self._output_ended(fd, at_eof=data is not None)
        if self.status is not None and self.drained[lane] > DRAIN_LIMIT and fd in self.outputs:
            self._output_ended(fd, at_eof=False)

    def _pass_on(self, lane: int, data: bytes) -> None:
        kept = data[: self.room[lane]]
        self.truncated |= len(kept) < len(data)
        self.room[lane] -= len(kept)
        self.drained[lane] += len(data) if self.status is not None else 0
        if kept:
            self.agent.send(self.agent.connection.data(self.stream, kept, lane))

    def _output_ended(self, fd: int, *, at_eof: bool) -> None:
        """Forget a pipe. A daemon may still hold its other end: read on, so that it can live."""
        del self.outputs[fd]
        self.paused.discard(fd)
        if at_eof:
            self.agent.close(fd)
        else:
            self.agent.watch(fd, READ, lambda _events: _discard(self.agent, fd))
        self._finish_if_done()

    def on_credit(self) -> None:
        for fd in list(self.paused):
            self.paused.discard(fd)
            self.agent.watch(fd, READ, self._reader(fd))
            if self.status is not None:
                self._drain(fd)

    # The end

    def on_exit(self, status: int) -> None:
        self.status = status
        self._close_input()
        for fd in list(self.outputs):
            if fd not in self.paused:
                self._drain(fd)
        self._finish_if_done()

    def _drain(self, fd: int) -> None:
        while fd in self.outputs and fd not in self.paused:
            self._read(fd)

    def _finish_if_done(self) -> None:
        if self.status is None or self.outputs or self.stream not in self.agent.tasks:
            return
        code = os.waitstatus_to_exitcode(self.status)
        how = ("signal", str(-code)) if code < 0 else ("exit_code", str(code))
        names = ("timed_out", "truncated", "warm")
        flags = [(name, "1") for name in names if getattr(self, name)]
        self.agent.end(self, [how, *flags])

    def on_end(self, *, reset: bool) -> None:
        """The host gave the command up."""
        self._close_ends()
        if self.theirs and self.agent.warm is not None:
            self.agent.warm.withdraw(self)
        elif self.status is None:
            self.agent.kill_tree(self)
        self._close_theirs()

    def _close_ends(self) -> None:
        for fd in list(self.outputs):
            self.agent.close(fd)
        self.outputs.clear()
        self._close_input()

    # Input

    def on_data(self, data: bytes) -> None:
        if self.input is None:  # the command closed it, or has ended
            self.agent.send(self.agent.connection.credit(self.stream, len(data)))
            return
        self.input_buffer += data
        self._write_input()

    def on_eof(self) -> None:
        self.input_ended = True
        self._write_input()

    def _write_input(self, _events: int = 0) -> None:
        if self.input is None:
            return
        try:
            written = os.write(self.input, self.input_buffer) if self.input_buffer else 0
        except BlockingIOError:
            written = 0
        except OSError:  # EPIPE: the command reads no more, and its input goes nowhere
            written = len(self.input_buffer)
            self.input_ended = True
        del self.input_buffer[:written]
        if written:
            self.agent.send(self.agent.connection.credit(self.stream, written))
        if self.input_buffer:
            self.agent.watch(self.input, WRITE, self._write_input)
        elif self.input_ended:
            self._close_input()
        else:
            self.agent.unwatch(self.input)

    def _close_input(self) -> None:
        if self.input is not None:
            self.agent.close(self.input)
            self.input = None


class Put(Task):
    """Create or replace one file: written beside its place, moved there when it is whole."""

    def start(self, fields: Fields) -> None:
        options = dict(fields)
        self.user = options["user"]
        self.path = options["path"]
        self.mode = int(options["mode"], 8)
        directory = os.path.dirname(self.path)
        self.partial = os.path.join(directory, f".drydock-{self.stream}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.agent.acting_as(self.user):
            os.makedirs(directory, exist_ok=True)
            self.fd = os.open(self.partial, flags, 0o600)

    def on_data(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self.fd, view) :]
        except OSError as error:
            self._give_up()
            self.agent.fail(self, error)
            return
        self.agent.send(self.agent.connection.credit(self.stream, len(data)))

    def on_eof(self) -> None:
        try:
            os.fchmod(self.fd, self.mode)
            os.close(self.fd)
            with self.agent.acting_as(self.user):
                os.rename(self.partial, self.path)
        except OSError as error:
            os.unlink(self.partial)
            self.agent.fail(self, error)
            return
        self.agent.end(self, [])

    def on_end(self, *, reset: bool) -> None:
        self._give_up()

    def _give_up(self) -> None:
        os.close(self.fd)
        os.unlink(self.partial)


class Get(Task):
    """Send one regular file. A symlink, a FIFO, a device or a directory is an error, not read."""

    def start(self, fields: Fields) -> None:
        options = dict(fields)
        path = options["path"]
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        self.fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        info = os.fstat(self.fd)
        problem = _unreadable(info, int(options["max_bytes"]))
        if problem:
            os.close(self.fd)
            raise OSError(problem, os.strerror(problem))
        self.on_credit()

    def on_credit(self) -> None:
        connection = self.agent.connection
        try:
            while room := min(CHUNK, connection.sendable(self.stream)):
                data = os.read(self.fd, room)
                if not data:
                    os.close(self.fd)
                    self.agent.end(self, [])
                    return
                self.agent.send(connection.data(self.stream, data))
        except OSError as error:
            os.close(self.fd)
            self.agent.fail(self, error)

    def on_data(self, data: bytes) -> None:
        raise protocol.ProtocolError("DATA for a get")

    def on_eof(self) -> None:
        """The host has nothing to add."""

    def on_end(self, *, reset: bool) -> None:
        os.close(self.fd)


class Proxy:
    """The listener: every connection becomes an `egress` stream, as many as the host takes."""

    def __init__(self, agent: Agent, port: int) -> None:
        self.agent = agent
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.resume()

    def pause(self) -> None:
        self.agent.unwatch(self._listener.fileno())

    def close(self) -> None:
        self.pause()
        self._listener.close()

    def resume(self) -> None:
        self.agent.watch(self._listener.fileno(), READ, self._on_connection)

    def _on_connection(self, _events: int) -> None:
        if self.agent.connection.local_streams >= protocol.MAX_STREAMS:
            self.pause()  # the rest waits in the backlog
            return
        try:
            sock, _ = self._listener.accept()
        except OSError:  # it went away again, or descriptors are short: it stays in the backlog
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream, opening = self.agent.connection.open([("kind", "egress")])
        self.agent.send(opening)
        self.agent.tasks[stream] = Egress(self.agent, stream, sock)


class Egress(Task):
    """One connection from a program in the guest, carried to the host. Half-closes pass through."""

    def __init__(self, agent: Agent, stream: int, sock: socket.socket) -> None:
        super().__init__(agent, stream)
        self.sock = sock
        self.buffer = bytearray()
        self.reading = True
        self.paused = False
        self.finishing = False  # the host sends no more: shut down when the buffer is written
        self.ended = False  # the stream is gone: close when the buffer is written
        self._watch()

    def _watch(self) -> None:
        wanted = READ if self.reading and not self.paused and not self.ended else 0
        wanted |= WRITE if self.buffer else 0
        if wanted:
            self.agent.watch(self.sock.fileno(), wanted, self._on_socket)
        else:
            self.agent.unwatch(self.sock.fileno())

    def _on_socket(self, events: int) -> None:
        try:
            if events & WRITE:
                self._write()
            if events & ~WRITE and self.reading and not self.ended and self.sock.fileno() >= 0:
                self._read()
        except OSError:
            self._broken()
            return
        if self.sock.fileno() >= 0:
            self._watch()

    def _read(self) -> None:
        limit = min(CHUNK, self.agent.connection.sendable(self.stream))
        if not limit:
            self.paused = True
            return
        try:
            data = self.sock.recv(limit)
        except BlockingIOError:
            return
        if data:
            self.agent.send(self.agent.connection.data(self.stream, data))
            return
        self.reading = False
        self.agent.send(self.agent.connection.eof(self.stream))
        self._close_if_over()

    def _write(self) -> None:
        try:
            written = self.sock.send(self.buffer) if self.buffer else 0
        except BlockingIOError:
            return
        del self.buffer[:written]
        if written and self.agent.connection.is_live(self.stream):
            self.agent.send(self.agent.connection.credit(self.stream, written))
        if not self.buffer and (self.finishing or self.ended):
            self.sock.shutdown(socket.SHUT_WR)
            self.finishing = False
            self._close_if_over()

    def _close_if_over(self) -> None:
        """Close once nothing is left to write and the stream is gone from the connection."""
        if not self.buffer and not self.finishing and not self._live():
            self._close()

    def _live(self) -> bool:
        return not self.ended and self.agent.connection.is_live(self.stream)

    def on_data(self, data: bytes) -> None:
        self.buffer += data
        self._on_socket(WRITE)

    def on_eof(self) -> None:
        self.finishing = True
        self._on_socket(WRITE)

    def on_credit(self) -> None:
        self.paused = False
        self._watch()

    def on_end(self, *, reset: bool) -> None:
        self.ended = True
        if reset:
            self.buffer.clear()
            self._abort()
        else:
            self._on_socket(WRITE)

    def _broken(self) -> None:
        """The program in the guest went away."""
        if self._live():
            self.agent.send(self.agent.connection.reset(self.stream, "connection reset"))
        self._close()

    def _abort(self) -> None:
        """Let the program see a reset: SO_LINGER with a time of 0."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._close()

    def _close(self) -> None:
        self.agent.unwatch(self.sock.fileno())
        self.sock.close()
        self.agent.tasks.pop(self.stream, None)
        self.agent.proxy.resume()


class Leave(Task):
    """The host's last word on this connection. EBUSY while anything else is live on it."""

    def start(self, fields: Fields) -> None:
        if self.agent.commands or len(self.agent.tasks) > 1:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self.agent.end(self, [])
        self.agent.leave()


class Scope:
    """A context manager from two callables; `contextlib` would cost an import."""

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_error: object) -> None:
        self._leave()


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


def _nothing() -> Scope:
    return Scope(lambda: None, lambda: None)


def _effective_ids_of_work() -> Scope:
    """Act on files as `work`. The kernel gives the capabilities back with the uid."""
    return Scope(lambda: _set_effective(WORK_UID), lambda: _set_effective(0))


def _set_effective(uid: int) -> None:
    if uid:
        os.setegid(uid)
        os.seteuid(uid)
    else:
        os.seteuid(uid)
        os.setegid(uid)


def _open_null() -> int:
    return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)


def _unreadable(info: os.stat_result, limit: int) -> int:
    """Return why a file is not read, as an errno; 0 when it is fine."""
    if stat.S_ISDIR(info.st_mode):
        return errno.EISDIR
    if not stat.S_ISREG(info.st_mode):
        return errno.EINVAL
    return errno.EFBIG if info.st_size > limit else 0


def _discard(agent: Agent, fd: int) -> None:
    try:
        if os.read(fd, CHUNK):
            return
    except BlockingIOError:
        return
    agent.close(fd)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _process_table() -> dict[int, tuple[int, int]]:
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


def _with_descendants(table: dict[int, tuple[int, int]], roots: set[int]) -> set[int]:
    found = set(roots)
    while children := {pid for pid, row in table.items() if row[0] in found} - found:
        found |= children
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _become_subreaper() -> None:
    """Have orphans come back here where this is not process 1 of its PID namespace (fake)."""
    import ctypes  # noqa: PLC0415  only here

    pr_set_child_subreaper = 36
    if ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0):
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")


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
        _become_subreaper()
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
