"""The agent's side of a warm program: who starts it, hands it a command, and does without it.

A `warm` stream of the host starts `warm_aider.py` as `work`; its result says when it is ready, or
that there is none. An `exec` of that program is then handed over on a socket pair that no other
process has an end of. The warm process becomes the command: the agent's child, leader of its own
session, with the pid that was known all along, so that timeout, exit status and the killing of its
tree need nothing new. Until it has said `taken`, everything that may happen to it (it declines, it
dies, it does not answer) has one answer: the command is started cold.
"""

# ruff: noqa: PTH100, PTH118, PTH120  the agent's reasons

from __future__ import annotations

import os
import select
import signal
import socket
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandbox.guest.agent import Agent
    from sandbox.guest.commands import Command
if TYPE_CHECKING or __package__:
    from sandbox import protocol
    from sandbox.guest.task import Fields, Task
else:
    import protocol
    from task import Fields, Task

PROGRAM = "warm_aider.py"
# How long a command waits for an answer: from a process that is ready, and from one that imports.
READY_PATIENCE_S = 15.0
WAKING_PATIENCE_S = 150.0
_MAX_LINE = 4096


class Warm(Task):
    """One warm process, and the stream that asked for it.

    The host may give the stream up: the process may still become a command.
    """

    def __init__(self, agent: Agent, stream: int) -> None:
        super().__init__(agent, stream)
        self.pid = 0
        self.is_ready = False
        self.command: Command | None = None  # handed over, not answered
        self.deadline: float | None = None  # of that answer
        self._fields: Fields = []
        self._received = b""

    # The stream

    def start(self, fields: Fields) -> None:
        options = dict(fields)
        self.program = options["program"]
        env = dict(value.split("=", 1) for key, value in fields if key == "env")
        ours, theirs = socket.socketpair()
        rehearsal = _memory_file([*fields, ("model", f"127.0.0.1:{self.agent.proxy.port}")])
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), PROGRAM)
        argv = [options["python"], script, self.program]
        try:
            self.pid = self.agent.spawn(
                "work", argv[0], argv, env, [null, null, null, theirs.fileno(), rehearsal]
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(rehearsal)
            os.close(null)
        ours.setblocking(False)
        self._socket = ours
        self.agent.warm = self
        self.agent.watch(ours.fileno(), select.EPOLLIN, self._on_socket)

    # The warm process

    def is_for(self, user: str, program: str) -> bool:
        return self.command is None and user == "work" and program == self.program

    def hand_over(self, command: Command, fields: Fields, fds: list[int]) -> bool:
        """Ask it to become a command, whose three streams `fds` are, in the present folder."""
        request = _memory_file(fields)
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            socket.send_fds(self._socket, [b"!"], [request, *fds, folder])
        except OSError:
            return False
        finally:
            os.close(request)
            os.close(folder)
        patience = READY_PATIENCE_S if self.is_ready else WAKING_PATIENCE_S
        self.command, self._fields = command, fields
        self.deadline = min(time.monotonic() + patience, command.deadline)
        return True

    def withdraw(self, command: Command) -> None:
        """The host gave up a command that was handed over."""
        if self.command is command:
            self.command = None
            self.give_up()

    def give_up(self) -> None:
        """It has not answered: kill it. What it was asked for is seen to when it has ended."""
        self._read_lines()
        self.deadline = None
        if self.agent.warm is self:
            self.agent.kill_session(self.pid)

    def on_exit(self, status: int) -> None:
        """It has ended; perhaps as the command that it had become already."""
        self._read_lines()
        command = self.agent.commands.pop(self.pid, None)
        if command is not None:
            command.on_exit(status)
            return
        self._forget()
        self._answer("failed", "it ended")
        command, self.command = self.command, None
        if command is not None and command.deadline <= time.monotonic():
            command.timed_out = True
            command.on_exit(signal.SIGKILL)
        elif command is not None:
            command.start_cold(self._fields)

    # What it says

    def _on_socket(self, _events: int) -> None:
        self._read_lines()

    def _read_lines(self) -> None:
        while self._socket.fileno() >= 0:
            try:
                piece = self._socket.recv(_MAX_LINE)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            if not piece or len(self._received) > _MAX_LINE:
                self._close_socket()
                return
            *lines, self._received = (self._received + piece).split(b"\n")
            for line in lines:
                word, _, detail = line.decode("utf-8", "replace").partition(" ")
                self._on_word(word, detail)

    def _on_word(self, word: str, detail: str) -> None:
        if word == "ready":
            self.is_ready = True
            self._answer("ready", detail)
        if word not in ("taken", "declined") or self.command is None:
            return
        command, self.command = self.command, None
        self.deadline = None
        if word == "taken":
            self._forget()
            command.become_warm(self.pid)
        else:
            command.start_cold(self._fields)

    def _answer(self, state: str, detail: str = "") -> None:
        if self.agent.tasks.get(self.stream) is self:
            self.agent.end(self, [("state", state), ("detail", detail[:1000])])

    def _forget(self) -> None:
        self._close_socket()
        if self.agent.warm is self:
            self.agent.warm = None

    def _close_socket(self) -> None:
        if self._socket.fileno() >= 0:
            self.agent.unwatch(self._socket.fileno())
            self._socket.close()


def _memory_file(fields: Fields) -> int:
    fd = os.memfd_create("fields")
    view = memoryview(protocol.pack_fields(fields))
    while view:
        view = view[os.write(fd, view) :]
    return fd
