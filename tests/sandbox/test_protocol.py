from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import protocol
from sandbox.protocol import (
    CLOSE,
    CREDIT,
    DATA,
    EOF,
    GUEST,
    HELLO,
    HOST,
    MAX_DATA,
    OPEN,
    RESET,
    WINDOW,
    Connection,
    Frame,
    ProtocolError,
    StreamGone,
    pack_fields,
    unpack_fields,
)

VERSION = pack_fields([("version", str(protocol.VERSION))])


def raw(kind: int, stream: int, payload: bytes = b"", lane: int = 0) -> bytes:
    return struct.pack("!BBII", kind, lane, stream, len(payload)) + payload


def greeted(role: str = HOST, **limits: int) -> Connection:
    connection = Connection(role, **limits)
    take(connection, raw(HELLO, 0, VERSION))
    return connection


def take(connection: Connection, data: bytes) -> list[Frame]:
    return list(connection.receive(data))


def refused(connection: Connection, data: bytes, match: str) -> None:
    with pytest.raises(ProtocolError, match=match):
        take(connection, data)
    with pytest.raises(ProtocolError, match=match):
        take(connection, b"")


class TestFrames:
    def test_a_frame_comes_out_as_it_went_in(self) -> None:
        connection = greeted()
        frames = take(connection, raw(OPEN, 2, b"kind=egress") + raw(DATA, 2, b"hello", lane=1))
        assert frames == [Frame(OPEN, 2, b"kind=egress"), Frame(DATA, 2, b"hello", 1)]

    def test_a_frame_waits_for_its_last_byte(self) -> None:
        connection = greeted()
        data = raw(OPEN, 2, b"kind=egress")
        assert take(connection, data[:-1]) == []
        assert take(connection, data[-1:]) == [Frame(OPEN, 2, b"kind=egress")]

    @pytest.mark.parametrize("kind", [0, 8, 255])
    def test_an_unknown_kind_is_refused(self, kind: int) -> None:
        refused(greeted(), raw(kind, 2), "unknown kind")

    @pytest.mark.parametrize(
        ("kind", "limit"),
        [(DATA, MAX_DATA), (OPEN, 100), (CLOSE, 100), (RESET, 100), (EOF, 0), (CREDIT, 4)],
    )
    def test_a_frame_longer_than_the_limit_is_refused_by_its_header(
        self, kind: int, limit: int
    ) -> None:
        header = struct.pack("!BBII", kind, 0, 2, limit + 1)
        refused(greeted(max_meta=100), header, f"at most {limit}")

    @pytest.mark.parametrize(("kind", "lane"), [(DATA, 2), (OPEN, 1), (EOF, 1)])
    def test_a_lane_that_is_not_there_is_refused(self, kind: int, lane: int) -> None:
        refused(greeted(), raw(kind, 2, b"", lane), "lane")

    def test_valid_frames_before_a_violation_are_still_delivered(self) -> None:
        connection = greeted()
        frames = connection.receive(raw(OPEN, 2) + raw(DATA, 4, b"x"))
        assert next(frames).kind == OPEN
        with pytest.raises(ProtocolError, match="never opened"):
            next(frames)


class TestHello:
    def test_nothing_comes_before_it(self) -> None:
        refused(Connection(HOST), raw(OPEN, 2), "before HELLO")

    def test_it_comes_once(self) -> None:
        refused(greeted(), raw(HELLO, 0, VERSION), "again")

    def test_another_version_is_refused(self) -> None:
        refused(Connection(HOST), raw(HELLO, 0, b"version=0"), "version")

    def test_it_belongs_to_no_stream(self) -> None:
        refused(Connection(HOST), raw(HELLO, 2, VERSION), "on a stream")


class TestStreams:
    @pytest.mark.parametrize("stream", [1, 3, 0])
    def test_the_peer_opens_only_its_own_ids(self, stream: int) -> None:
        refused(greeted(), raw(OPEN, stream), "OPEN of stream")

    def test_an_id_is_used_once(self) -> None:
        refused(greeted(), raw(OPEN, 2) + raw(RESET, 2) + raw(OPEN, 2), "OPEN of stream 2")

    def test_ids_only_grow(self) -> None:
        refused(greeted(), raw(OPEN, 4) + raw(OPEN, 2), "OPEN of stream 2")

    def test_too_many_at_a_time_are_refused(self) -> None:
        opens = b"".join(raw(OPEN, 2 * n) for n in range(1, 5))
        refused(greeted(max_streams=3), opens, "more than 3")

    def test_ended_streams_do_not_count(self) -> None:
        connection = greeted(max_streams=1)
        for stream in (2, 4, 6, 8):
            take(connection, raw(OPEN, stream) + raw(RESET, stream))
        take(connection, raw(OPEN, 10) + raw(EOF, 10))
        connection.eof(10)
        take(connection, raw(OPEN, 12))

    @pytest.mark.parametrize("kind", [DATA, EOF, RESET, CREDIT])
    @pytest.mark.parametrize("stream", [1, 2, 0])
    def test_a_frame_for_a_stream_that_was_never_opened_is_refused(
        self, kind: int, stream: int
    ) -> None:
        payload = {DATA: b"x", CREDIT: b"\0\0\0\1"}.get(kind, b"")
        refused(greeted(), raw(kind, stream, payload), "never opened")

    def test_data_after_the_end_is_refused(self) -> None:
        refused(greeted(), raw(OPEN, 2) + raw(EOF, 2) + raw(DATA, 2, b"x"), "after EOF")

    def test_a_second_end_is_refused(self) -> None:
        refused(greeted(), raw(OPEN, 2) + raw(EOF, 2) + raw(EOF, 2), "second EOF")

    def test_empty_data_is_refused(self) -> None:
        refused(greeted(), raw(OPEN, 2) + raw(DATA, 2), "empty")

    def test_only_the_side_that_did_not_open_closes(self) -> None:
        refused(greeted(), raw(OPEN, 2) + raw(CLOSE, 2), "CLOSE by the side that opened")
        connection = greeted()
        stream, _ = connection.open([])
        with pytest.raises(ValueError, match="only the side"):
            connection.close(stream)

    @pytest.mark.parametrize("kind", [DATA, EOF, RESET, CREDIT])
    def test_frames_that_were_under_way_when_a_stream_ended_are_ignored(self, kind: int) -> None:
        connection = greeted()
        stream, _ = connection.open([])
        connection.reset(stream)
        payload = {DATA: b"x", CREDIT: b"\0\0\0\1"}.get(kind, b"")
        assert take(connection, raw(kind, stream, payload)) == []

    def test_the_other_direction_stays_open_after_an_end(self) -> None:
        connection = greeted()
        take(connection, raw(OPEN, 2) + raw(EOF, 2))
        connection.data(2, b"x")
        connection.eof(2)
        assert not connection.is_live(2)

    def test_sending_on_what_the_peer_ended_says_so(self) -> None:
        connection = greeted()
        stream, _ = connection.open([])
        take(connection, raw(CLOSE, stream, b"exit_code=0"))
        with pytest.raises(StreamGone):
            connection.data(stream, b"x")
        with pytest.raises(StreamGone):
            connection.credit(stream, 1)


class TestCredit:
    def test_data_beyond_the_credit_is_refused(self) -> None:
        full = raw(DATA, 2, bytes(MAX_DATA)) * (WINDOW // MAX_DATA)
        refused(greeted(), raw(OPEN, 2) + full + raw(DATA, 2, b"x"), "beyond the credit")

    def test_credit_lets_more_come(self) -> None:
        connection = greeted()
        full = raw(DATA, 2, bytes(MAX_DATA)) * (WINDOW // MAX_DATA)
        take(connection, raw(OPEN, 2) + full)
        connection.credit(2, 10)
        take(connection, raw(DATA, 2, bytes(10)))
        refused(connection, raw(DATA, 2, b"x"), "beyond the credit")

    def test_more_credit_than_the_window_is_refused(self) -> None:
        connection = greeted()
        stream, _ = connection.open([])
        connection.data(stream, b"12345")
        take(connection, raw(CREDIT, stream, struct.pack("!I", 5)))
        refused(connection, raw(CREDIT, stream, struct.pack("!I", 1)), "beyond the window")

    def test_malformed_credit_is_refused(self) -> None:
        refused(greeted(), raw(OPEN, 2) + raw(CREDIT, 2, b"\1"), "malformed")

    def test_this_side_keeps_to_its_own_credit(self) -> None:
        connection = greeted()
        stream, _ = connection.open([])
        for _ in range(WINDOW // MAX_DATA):
            connection.data(stream, bytes(MAX_DATA))
        assert connection.sendable(stream) == 0
        with pytest.raises(ValueError, match="credit of 0"):
            connection.data(stream, b"x")
        with pytest.raises(ValueError, match="credit"):
            connection.credit(stream, 1)


class TestFields:
    @given(
        st.lists(
            st.tuples(
                st.text(st.characters(exclude_characters="=\0", codec="utf-8"), min_size=1),
                st.binary().filter(lambda value: b"\0" not in value),
            )
        )
    )
    def test_whatever_a_process_may_be_given_survives(self, items: list[tuple[str, bytes]]) -> None:
        fields = [(key, value.decode("utf-8", "surrogateescape")) for key, value in items]
        assert unpack_fields(pack_fields(fields)) == fields

    @pytest.mark.parametrize("field", [("", "x"), ("a=b", "x"), ("a", "x\0y"), ("a\0", "x")])
    def test_what_cannot_be_told_apart_is_not_packed(self, field: tuple[str, str]) -> None:
        with pytest.raises(ValueError, match="field"):
            pack_fields([field])

    @given(st.binary())
    def test_any_bytes_are_fields_or_refused(self, payload: bytes) -> None:
        with contextlib.suppress(ProtocolError):
            unpack_fields(payload)


class TestProperties:
    @given(st.data())
    def test_any_chunking_of_the_bytes_gives_the_same_frames(self, data: st.DataObject) -> None:
        stream = b"".join(
            (
                raw(HELLO, 0, VERSION),
                raw(OPEN, 2, b"kind=egress"),
                raw(DATA, 2, b"some data"),
                raw(OPEN, 4),
                raw(DATA, 4, bytes(1000), 1),
                raw(EOF, 2),
                raw(RESET, 4, b"reason"),
            )
        )
        expected = take(Connection(HOST), stream)
        cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=20)))
        pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        connection = Connection(HOST)
        assert [f for piece in pieces for f in take(connection, piece)] == expected

    @given(st.lists(st.binary(max_size=200), max_size=20), st.booleans())
    def test_random_bytes_are_frames_or_a_violation_and_nothing_else(
        self, pieces: list[bytes], after_hello: bool
    ) -> None:
        connection = greeted() if after_hello else Connection(HOST)
        with contextlib.suppress(ProtocolError):
            for piece in pieces:
                take(connection, piece)

    @given(
        st.lists(
            st.tuples(
                st.integers(0, 9), st.integers(0, 1), st.integers(0, 5), st.binary(max_size=20)
            ),
            max_size=60,
        )
    )
    def test_random_frames_hold_bounded_memory(
        self, frames: list[tuple[int, int, int, bytes]]
    ) -> None:
        connection = greeted(max_streams=2)
        with contextlib.suppress(ProtocolError):
            for kind, lane, stream, payload in frames:
                take(connection, raw(kind, stream, payload, lane))
        assert len(connection._streams) <= 2
        assert len(connection._buffer) <= MAX_DATA + 10

    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 3)), max_size=80))
    def test_two_connections_that_keep_to_their_own_rules_never_refuse_each_other(
        self, steps: list[tuple[bool, int, int]]
    ) -> None:
        """Each step: which end acts, what it does, on which of the streams; bytes cross late."""
        ends = [Pair(HOST), Pair(GUEST)]
        for from_host, action, which in steps:
            acting, other = ends if from_host else reversed(ends)
            if action == 6:
                other.deliver(acting)
            else:
                acting.act(action, which)
        for _ in range(2):
            ends[0].deliver(ends[1])
            ends[1].deliver(ends[0])


class Pair:
    """One end, with the bytes that it has sent and that have not arrived yet."""

    def __init__(self, role: str) -> None:
        self.connection = Connection(role)
        self.wire = self.connection.hello()
        self.streams: list[int] = []

    def act(self, action: int, which: int) -> None:
        if action == 0:
            stream, data = self.connection.open([("kind", "test")])
            self.streams.append(stream)
            self.wire += data
            return
        if not self.streams:
            return
        stream = self.streams[which % len(self.streams)]
        steps = [
            lambda: self.connection.data(stream, b"x" * 100),
            lambda: self.connection.eof(stream),
            lambda: self.connection.reset(stream),
            lambda: self.connection.close(stream),
            lambda: self.connection.credit(stream, 1),
        ]
        with contextlib.suppress(StreamGone, ValueError):
            self.wire += steps[action - 1]()

    def deliver(self, sender: Pair) -> None:
        data, sender.wire = sender.wire, b""
        for frame in self.connection.receive(data):
            if frame.kind == OPEN:
                self.streams.append(frame.stream)
