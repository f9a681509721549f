"""Running one command: its streams, its credit, its end."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox.guest.agent import Agent
if TYPE_CHECKING or __package__:
    from sandbox.guest import programs
    from sandbox.guest.task import CHUNK, Fields, Task
else:
    import programs
    from task import CHUNK, Fields, Task

DRAIN_LIMIT = 1024 * 1024  # the largest a pipe can be, by default (/proc/sys/fs/pipe-max-size)
READ, WRITE = select.EPOLLIN, select.EPOLLOUT


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


def _open_null() -> int:
    return os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)


def _discard(agent: Agent, fd: int) -> None:
    try:
        if os.read(fd, CHUNK):
            return
    except BlockingIOError:
        return
    agent.close(fd)
