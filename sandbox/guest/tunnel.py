"""The way out: connections of programs in the machine, carried to the host."""

from __future__ import annotations

import select
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandbox.guest.agent import Agent
if TYPE_CHECKING or __package__:
    from sandbox import protocol
    from sandbox.guest.task import CHUNK, Fields, Task
else:
    import protocol
    from task import CHUNK, Fields, Task

READ, WRITE = select.EPOLLIN, select.EPOLLOUT


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

    def start(self, fields: Fields) -> None:
        """It has begun already: the guest opened it."""

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
