"""The host's end against a guest that this test plays, byte by byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from sandbox import protocol
from sandbox.channel import MAX_HANDLERS, Channel, StreamReset
from sandbox.protocol import GUEST, MAX_DATA, WINDOW, Connection, Frame, StreamGone
from sandbox.provider import Duplex, GuestMisbehaved, MachineLost

PATIENCE_S = 10.0


class Guest:
    """The other end of the socket, with a real connection and the right to break its rules."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.connection = Connection(GUEST, max_meta=protocol.MAX_COMMAND_META)
        self._frames: list[Frame] = []
        sock.settimeout(PATIENCE_S)
        sock.sendall(self.connection.hello())

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def open(self) -> int:
        stream, data = self.connection.open([("kind", "egress")])
        self.send(data)
        return stream

    def next(self, kind: int) -> Frame:
        """Return the next frame of that kind, passing over others."""
        while True:
            while self._frames:
                frame = self._frames.pop(0)
                if frame.kind == kind:
                    return frame
            self._frames += self.connection.receive(self.sock.recv(65536))

    def take_data(self, count: int) -> Frame:
        """Take that many DATA frames, and return the last."""
        return [self.next(protocol.DATA) for _ in range(count)][-1]


Start = Callable[..., tuple[Channel, Guest]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start channels that are closed after the test."""
    channels: list[tuple[Channel, socket.socket]] = []

    def make(
        egress: Callable[[Duplex], None] = lambda connection: connection.close(),
        on_end: Callable[[Exception], Exception] = lambda cause: cause,
    ) -> tuple[Channel, Guest]:
        ours, theirs = socket.socketpair()
        guest = Guest(theirs)
        channel = Channel(ours, egress, on_end)
        channels.append((channel, theirs))
        channel.start(PATIENCE_S)
        return channel, guest

    yield make
    for channel, sock in channels:
        channel.close()
        sock.close()


class TestStart:
    def test_it_returns_what_the_agent_says(self, start: Start) -> None:
        channel, _ = start()
        assert channel.hello == {"version": str(protocol.VERSION)}

    def test_a_silent_guest_times_out(self) -> None:
        ours, theirs = socket.socketpair()
        channel = Channel(ours, lambda _: None, lambda cause: cause)
        with theirs, pytest.raises(TimeoutError):
            channel.start(0.05)
        channel.close()

    def test_a_guest_that_goes_away_at_once_is_lost(self) -> None:
        ours, theirs = socket.socketpair()
        theirs.close()
        channel = Channel(ours, lambda _: None, lambda _: MachineLost("exited"))
        with pytest.raises(MachineLost, match="exited"):
            channel.start(PATIENCE_S)
        channel.close()


class TestStreams:
    def test_data_then_the_result(self, start: Start) -> None:
        channel, guest = start()
        stream = channel.open([("kind", "exec")])
        opened = guest.next(protocol.OPEN)
        assert protocol.unpack_fields(opened.payload) == [("kind", "exec")]
        guest.send(guest.connection.data(opened.stream, b"out"))
        guest.send(guest.connection.close(opened.stream, [("exit_code", "0")]))
        first = stream.receive(PATIENCE_S)
        assert first is not None
        assert first.payload == b"out"
        assert stream.receive(PATIENCE_S) is None
        assert stream.receive(PATIENCE_S) is None
        assert stream.result == [("exit_code", "0")]

    def test_nothing_in_time_is_a_timeout_and_the_stream_lives_on(self, start: Start) -> None:
        channel, guest = start()
        stream = channel.open([("kind", "exec")])
        with pytest.raises(TimeoutError):
            stream.receive(0.01)
        guest.send(guest.connection.data(guest.next(protocol.OPEN).stream, b"late"))
        assert stream.receive(PATIENCE_S) is not None

    def test_a_reset_says_why(self, start: Start) -> None:
        channel, guest = start()
        stream = channel.open([("kind", "exec")])
        guest.send(guest.connection.reset(guest.next(protocol.OPEN).stream, "no reason"))
        with pytest.raises(StreamReset, match="no reason"):
            stream.receive(PATIENCE_S)
        with pytest.raises(StreamGone):
            stream.send(b"x")

    def test_a_sender_waits_for_credit(self, start: Start) -> None:
        channel, guest = start()
        stream = channel.open([("kind", "put")])
        sent = threading.Event()

        def send() -> None:
            stream.send(bytes(WINDOW + 1))
            sent.set()

        thread = threading.Thread(target=send)
        thread.start()
        data = guest.take_data(WINDOW // MAX_DATA)
        assert not sent.is_set()
        guest.send(guest.connection.credit(data.stream, 1))
        assert len(guest.next(protocol.DATA).payload) == 1
        thread.join(PATIENCE_S)
        assert sent.is_set()

    def test_a_sender_gives_up_when_no_credit_comes(self, start: Start) -> None:
        channel, guest = start()
        stream = channel.open([("kind", "put")])
        reader = threading.Thread(target=lambda: guest.take_data(WINDOW // MAX_DATA))
        reader.start()
        with pytest.raises(TimeoutError):
            stream.send(bytes(WINDOW + 1), stall_s=0.2)
        reader.join(PATIENCE_S)

    def test_a_sender_wakes_when_the_guest_closes(self, start: Start) -> None:
        channel, guest = start()
        stream = channel.open([("kind", "put")])
        opened = guest.next(protocol.OPEN)

        def close_when_full() -> None:
            guest.take_data(WINDOW // MAX_DATA)
            guest.send(guest.connection.close(opened.stream, [("errno", "28")]))

        closer = threading.Thread(target=close_when_full)
        closer.start()
        with pytest.raises(StreamGone):
            stream.send(bytes(WINDOW + 1))
        assert stream.receive(PATIENCE_S) is None
        assert stream.result == [("errno", "28")]
        closer.join()

    def test_credit_comes_back_for_what_was_consumed(self, start: Start) -> None:
        channel, guest = start()
        stream = channel.open([("kind", "get")])
        opened = guest.next(protocol.OPEN).stream
        for _ in range(WINDOW // MAX_DATA):
            guest.send(guest.connection.data(opened, bytes(MAX_DATA)))
        assert guest.connection.sendable(opened) == 0
        for _ in range(WINDOW // MAX_DATA // 2):
            stream.receive(PATIENCE_S)
        guest.next(protocol.CREDIT)
        assert guest.connection.sendable(opened) == WINDOW // 2

    def test_one_stream_that_nobody_reads_does_not_stop_another(self, start: Start) -> None:
        channel, guest = start()
        idle, busy = channel.open([("kind", "a")]), channel.open([("kind", "b")])
        first, second = guest.next(protocol.OPEN).stream, guest.next(protocol.OPEN).stream
        for _ in range(WINDOW // MAX_DATA):
            guest.send(guest.connection.data(first, bytes(MAX_DATA)))
        guest.send(guest.connection.data(second, b"through"))
        frame = busy.receive(PATIENCE_S)
        assert frame is not None
        assert frame.payload == b"through"
        assert idle.receive(PATIENCE_S) is not None


class TestEnd:
    def test_a_violation_is_the_guests_fault_and_the_owner_hears_of_it(self, start: Start) -> None:
        causes: list[Exception] = []
        channel, guest = start(on_end=lambda cause: causes.append(cause) or cause)
        stream = channel.open([("kind", "exec")])
        guest.send(b"\xff" * 10)
        with pytest.raises(GuestMisbehaved, match="unknown kind"):
            stream.receive(PATIENCE_S)
        with pytest.raises(GuestMisbehaved):
            channel.open([("kind", "exec")])
        assert [type(cause) for cause in causes] == [GuestMisbehaved]

    def test_every_waiting_call_raises_what_the_owner_says(self, start: Start) -> None:
        channel, guest = start(on_end=lambda _: MachineLost("deadline"))
        stream, other = channel.open([("kind", "a")]), channel.open([("kind", "b")])
        reasons: list[str] = []

        def wait(act: Callable[[], object]) -> None:
            try:
                act()
            except MachineLost as lost:
                reasons.append(lost.reason)

        acts = [stream.receive, lambda: other.send(bytes(2 * WINDOW))]
        threads = [threading.Thread(target=wait, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        guest.sock.close()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert reasons == ["deadline", "deadline"]

    def test_what_came_before_the_end_is_still_received(self, start: Start) -> None:
        channel, guest = start()
        stream = channel.open([("kind", "exec")])
        guest.send(guest.connection.data(guest.next(protocol.OPEN).stream, b"last words"))
        guest.sock.shutdown(socket.SHUT_RDWR)
        frame = stream.receive(PATIENCE_S)
        assert frame is not None
        assert frame.payload == b"last words"
        with pytest.raises(MachineLost):
            stream.receive(PATIENCE_S)

    def test_close_is_idempotent_and_leaves_no_thread(self, start: Start) -> None:
        channel, _ = start()
        channel.close()
        channel.close()
        assert not channel._reader.is_alive()


class TestEgress:
    def test_half_closes_pass_both_ways(self, start: Start) -> None:
        def handler(connection: Duplex) -> None:
            received = b""
            while piece := connection.recv(3):
                received += piece
            connection.sendall(received[::-1])
            connection.close()

        _, guest = start(handler)
        stream = guest.open()
        guest.send(guest.connection.data(stream, b"abcdefg") + guest.connection.eof(stream))
        assert guest.next(protocol.DATA).payload == b"gfedcba"
        assert guest.next(protocol.CLOSE).stream == stream

    def test_a_handlers_defect_resets_its_connection_only(
        self, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        def handler(connection: Duplex) -> None:
            raise RuntimeError("a defect")

        _, guest = start(handler)
        for stream in (guest.open(), guest.open()):
            assert guest.next(protocol.RESET).stream == stream
        assert "an egress handler failed" in caplog.text

    def test_handlers_are_bounded_even_if_the_guest_ends_its_streams(self, start: Start) -> None:
        release = threading.Event()

        def handler(_connection: Duplex) -> None:
            release.wait(PATIENCE_S)

        _, guest = start(handler)
        for _ in range(MAX_HANDLERS):
            guest.send(guest.connection.reset(guest.open()))
        one_more = guest.open()
        reset = guest.next(protocol.RESET)
        assert (reset.stream, reset.payload) == (one_more, b"too many connections")
        release.set()

    def test_a_thread_that_reads_wakes_when_another_closes(self, start: Start) -> None:
        done = threading.Event()

        def handler(connection: Duplex) -> None:
            closer = threading.Timer(0.05, connection.close)
            closer.start()
            assert connection.recv(100) == b""
            closer.join()
            done.set()

        _, guest = start(handler)
        guest.open()
        assert done.wait(PATIENCE_S)

    def test_writing_to_what_the_guest_ended_is_an_oserror(self, start: Start) -> None:
        caught: list[BaseException] = []
        done = threading.Event()

        def handler(connection: Duplex) -> None:
            try:
                connection.recv(1)
            except OSError as error:
                caught.append(error)
            try:
                connection.sendall(b"x")
            except OSError as error:
                caught.append(error)
            done.set()

        _, guest = start(handler)
        guest.send(guest.connection.reset(guest.open()))
        assert done.wait(PATIENCE_S)
        assert [type(error) for error in caught] == [StreamReset, BrokenPipeError]
