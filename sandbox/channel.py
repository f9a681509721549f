"""The host's end of a machine's byte stream: threads and blocking calls around `protocol`.

One thread reads; it never writes data and never waits for a consumer, because what it may have to
hold is bounded by credit. Whoever sends waits for credit, then for the socket. Each connection that
the guest opens gets a thread of its own, `MAX_HANDLERS` of them at most.

When the stream ends, the owner is asked why (`on_end`), and every waiting call raises that.
"""

from __future__ import annotations

import logging
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Never

from sandbox import protocol
from sandbox.protocol import Connection, Frame, ProtocolError, StreamGone
from sandbox.provider import EgressHandler, GuestMisbehaved, MachineLost

# More than protocol.MAX_STREAMS: a handler may need a moment after the guest ended its stream.
MAX_HANDLERS = 2 * protocol.MAX_STREAMS
# How long one write may wait for a guest that does not read. The agent always reads.
SEND_TIMEOUT_S = 30
_READ_SIZE = 256 * 1024

Fields = Iterable[tuple[str, str]]
OnEnd = Callable[[Exception], Exception]

_log = logging.getLogger(__name__)


class StreamReset(ConnectionResetError):
    """The other side gave this stream up."""


class Stream:
    """One live stream. One thread at a time may send on it, and one receive."""

    def __init__(self, channel: Channel, stream_id: int) -> None:
        self.id = stream_id
        self.result: list[tuple[str, str]] | None = None
        self._channel = channel
        self._changed = threading.Condition(channel.lock)
        self._frames: deque[Frame] = deque()
        self._consumed = 0

    def receive(self, timeout_s: float | None = None) -> Frame | None:
        """Return the next DATA, or None when the guest has ended; then `result` is its CLOSE.

        TimeoutError, StreamReset, or what the channel ended with.
        """
        with self._changed:
            if not self._changed.wait_for(self._has_news, timeout_s):
                raise TimeoutError
            frame = self._next_frame()
        if frame.kind == protocol.DATA:
            self._give_back(len(frame.payload))
            return frame
        if frame.kind == protocol.RESET:
            raise StreamReset(frame.payload.decode("utf-8", "replace"))
        return None

    def _has_news(self) -> bool:
        return bool(self._frames) or self._channel.ended

    def _next_frame(self) -> Frame:
        if not self._frames:
            self._channel.raise_failure()
        if self._frames[0].kind == protocol.DATA:
            return self._frames.popleft()
        return self._frames[0]  # an end stays: whoever asks again gets the same answer

    def _give_back(self, size: int) -> None:
        """Return credit, in large pieces: half a window is still open meanwhile."""
        self._consumed += size
        if self._consumed < protocol.WINDOW // 2:
            return
        size, self._consumed = self._consumed, 0
        with suppress(StreamGone):
            self._channel.transmit(lambda connection: connection.credit(self.id, size))

    def send(self, data: bytes, stall_s: float | None = None) -> None:
        """Write all of it, waiting for credit, at most `stall_s` for each piece (TimeoutError).

        StreamGone when the guest ended the stream.
        """
        view = memoryview(data)
        while view:
            view = view[self._send_some(view, stall_s) :]

    def _send_some(self, view: memoryview, stall_s: float | None) -> int:
        with self._changed:
            if not self._changed.wait_for(self._may_send, stall_s):
                raise TimeoutError
            if self._channel.ended:
                self._channel.raise_failure()
            size = min(len(view), protocol.MAX_DATA, self._channel.connection.sendable(self.id))
        self._channel.transmit(lambda connection: connection.data(self.id, view[:size]))
        return size

    def _may_send(self) -> bool:
        connection = self._channel.connection
        return (
            self._channel.ended
            or not connection.is_live(self.id)
            or connection.sendable(self.id) > 0
        )

    def end(self) -> None:
        """Send no more; the guest may. Nothing if the stream has ended."""
        with suppress(StreamGone):
            self._channel.transmit(lambda connection: connection.eof(self.id))

    def close(self) -> None:
        """End a stream that the guest opened, after all that was sent. Idempotent."""
        self._give_up(lambda connection: connection.close(self.id))

    def reset(self, reason: str) -> None:
        """Give the stream up. Idempotent."""
        self._give_up(lambda connection: connection.reset(self.id, reason))

    def _give_up(self, make: Callable[[Connection], bytes]) -> None:
        """End both directions; a thread that waits to receive gets the end."""
        try:
            with suppress(StreamGone):
                self._channel.transmit(make)
        finally:
            with self._changed:
                self._frames.append(Frame(protocol.EOF, self.id))
                self._changed.notify_all()
            self._channel.forget(self)

    def on_frame(self, frame: Frame) -> None:
        """Take a frame from the reader, which holds the channel's lock."""
        if frame.kind == protocol.CLOSE:
            self.result = protocol.unpack_fields(frame.payload)
        if frame.kind != protocol.CREDIT:
            self._frames.append(frame)
        self._changed.notify_all()

    def wake(self) -> None:
        self._changed.notify_all()


class GuestConnection:
    """A stream that the guest opened, as the `Duplex` that an egress handler takes.

    Every failure is an OSError. `end_writing` is there for tunnels, whose upstream may stop
    sending before it stops reading.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._rest = memoryview(b"")

    def recv(self, limit: int) -> bytes:
        if not self._rest:
            try:
                frame = self._stream.receive()
            except (MachineLost, GuestMisbehaved) as error:
                raise ConnectionResetError(str(error)) from error
            if frame is None:
                return b""
            self._rest = memoryview(frame.payload)
        piece, self._rest = self._rest[:limit], self._rest[limit:]
        return bytes(piece)

    def sendall(self, data: bytes) -> None:
        try:
            self._stream.send(data)
        except StreamGone as error:
            raise BrokenPipeError("the guest closed this connection") from error
        except (MachineLost, GuestMisbehaved) as error:
            raise BrokenPipeError(str(error)) from error

    def end_writing(self) -> None:
        self._quietly(self._stream.end)

    def close(self) -> None:
        self._quietly(self._stream.close)

    def abort(self, reason: str) -> None:
        self._quietly(lambda: self._stream.reset(reason))

    def _quietly(self, act: Callable[[], None]) -> None:
        """Ending a connection whose machine is gone has nothing left to do."""
        with suppress(MachineLost, GuestMisbehaved):
            act()


class Channel:
    """All streams of one machine.

    `on_end` is called once, in the reading thread, with GuestMisbehaved or MachineLost("channel").
    It returns the exception that calls are to raise, and may take its time to find out.
    """

    def __init__(self, sock: socket.socket, egress: EgressHandler, on_end: OnEnd) -> None:
        self.lock = threading.Lock()
        self.connection = Connection(protocol.HOST)
        self.hello: dict[str, str] | None = None
        self._sock = sock
        self._egress = egress
        self._on_end = on_end
        self._write_lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._handlers = 0
        self._greeted = threading.Condition(self.lock)
        self._violation: str | None = None
        self._failure: Exception | None = None
        self._reader = threading.Thread(target=self._read, name="channel", daemon=True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT_S, 0))

    def start(self, timeout_s: float) -> dict[str, str]:
        """Begin, and return the agent's HELLO. TimeoutError, or what the channel ended with."""
        self._reader.start()
        self.transmit(lambda connection: connection.hello())
        return self._await_hello(timeout_s)

    def _await_hello(self, timeout_s: float) -> dict[str, str]:
        with self._greeted:
            if not self._greeted.wait_for(lambda: self.hello or self.ended, timeout_s):
                raise TimeoutError
            if self.hello is None:
                self.raise_failure()
            return self.hello

    def restart(self, timeout_s: float) -> dict[str, str]:
        """Begin a new connection on the same socket, after the guest has left the old one.

        Returns the agent's new HELLO; errors as `start`. Streams of the old connection are over.
        """
        with self.lock:
            self.connection, self.hello = Connection(protocol.HOST), None
            self._streams.clear()
        self.transmit(lambda connection: connection.hello())
        return self._await_hello(timeout_s)

    def open(self, fields: Fields) -> Stream:
        """Open a stream. ValueError when the fields are too long or hold a NUL."""
        opened: list[Stream] = []

        def make(connection: Connection) -> bytes:
            stream_id, data = connection.open(fields)
            opened.append(self._remember(stream_id))
            return data

        self.transmit(make)
        return opened[0]

    def transmit(self, make: Callable[[Connection], bytes]) -> None:
        """Write what `make` returns, in the order made. Raises what the channel ended with."""
        with self._write_lock:
            with self.lock:
                if self.ended:
                    self.raise_failure()
                data = make(self.connection)
            try:
                self._sock.sendall(data)
            except BlockingIOError:
                self._stop("the guest does not read")
            except OSError:
                self._stop(None)  # the reader finds out why
            else:
                return
        if threading.current_thread() is self._reader:
            raise ConnectionAbortedError("the channel cannot be written to")
        self.wait_until_ended()
        self.raise_failure()

    def misbehaved(self, what: str) -> Never:
        """End the channel because of what the guest sent, and raise GuestMisbehaved."""
        self._stop(what)
        self.wait_until_ended()
        raise GuestMisbehaved(what)

    def close(self) -> None:
        """End it from the host's side; idempotent, from any thread."""
        self._stop(None)
        if self._reader.ident and threading.current_thread() is not self._reader:
            self._reader.join()
        self._sock.close()

    def wait_until_ended(self) -> None:
        self._reader.join()

    @property
    def ended(self) -> bool:
        return self._failure is not None

    def raise_failure(self) -> Never:
        """Raise a copy: one exception object must not be raised by several threads."""
        failure = self._failure
        if isinstance(failure, MachineLost):
            raise MachineLost(failure.reason, failure.detail)
        raise GuestMisbehaved(str(failure))

    def forget(self, stream: Stream) -> None:
        with self.lock:
            self._streams.pop(stream.id, None)

    def _remember(self, stream_id: int) -> Stream:
        stream = self._streams[stream_id] = Stream(self, stream_id)
        return stream

    def _stop(self, violation: str | None) -> None:
        if violation and self._violation is None:
            self._violation = violation
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    # The reading thread

    def _read(self) -> None:
        cause: Exception = MachineLost("channel")
        try:
            while data := self._sock.recv(_READ_SIZE):
                for stream in self._take(data):
                    self._start_handler(stream)
        except ProtocolError as error:
            cause = GuestMisbehaved(str(error))
        except OSError:
            _log.debug("the channel's socket failed", exc_info=True)
        if self._violation is not None:
            cause = GuestMisbehaved(self._violation)
        self._stop(None)
        failure = self._on_end(cause)
        with self.lock:
            self._failure = failure
            self._greeted.notify_all()
            for stream in self._streams.values():
                stream.wake()

    def _take(self, data: bytes) -> list[Stream]:
        """Hand frames to their streams; return the streams that the guest opened."""
        opened = []
        with self.lock:
            for frame in self.connection.receive(data):
                if frame.kind == protocol.HELLO:
                    self.hello = dict(protocol.unpack_fields(frame.payload))
                    self._greeted.notify_all()
                elif frame.kind == protocol.OPEN:
                    opened.append(self._remember(frame.stream))
                elif frame.stream in self._streams:
                    self._streams[frame.stream].on_frame(frame)
                    if not self.connection.is_live(frame.stream):
                        del self._streams[frame.stream]
        return opened

    def _start_handler(self, stream: Stream) -> None:
        with self.lock:
            busy = self._handlers >= MAX_HANDLERS
            self._handlers += not busy
        if busy:
            stream.reset("too many connections")
            return
        threading.Thread(target=self._handle, args=(stream,), name="egress", daemon=True).start()

    def _handle(self, stream: Stream) -> None:
        connection = GuestConnection(stream)
        try:
            self._egress(connection)
        except Exception:  # noqa: BLE001
            # The handler's defect must not take the machine down; this connection fails closed.
            _log.exception("an egress handler failed")
            connection.abort("internal error")
        finally:
            connection.close()
            with self.lock:
                self._handlers -= 1
