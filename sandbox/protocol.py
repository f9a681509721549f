"""The frames that host and guest exchange, and their rules. No IO; standard library only.

The same file runs on both sides (the host and the guest's agent), and imports as little as it can
because every import costs start-up time inside a machine.

A frame is a header of ten bytes, network order, then its payload:

    kind u8 | lane u8 | stream u32 | length u32 | payload

Rules of a connection. A frame that breaks one raises `ProtocolError`, and the connection is dead.

    HELLO   stream 0, exactly once, before anything else; payload: fields, `version` among them
    OPEN    a new stream; the host's ids are odd, the guest's even, and each side's only ever grow;
            at most `max_streams` of the peer's at a time; payload: fields, at most `max_meta` bytes
    DATA    1..MAX_DATA bytes, within the credit that the receiver gave; lane 0 or 1 (stderr)
    EOF     the sender sends no more DATA; the other direction stays open
    CLOSE   the last word of the side that did *not* open the stream: ends both directions;
            payload: at most `max_meta` bytes of fields, the result
    RESET   either side gives the stream up; payload: the reason, at most `max_meta` bytes of text
    CREDIT  payload u32: that many more bytes of DATA may come; never above WINDOW in total

What a received frame does to a stream, by the state of the peer's direction:

              open        ended (EOF came)    gone (closed, reset, or both ended)    never opened
    DATA      open        error               ignored: it was under way              error
    EOF       ended       error               ignored                                error
    CREDIT    open        ended               ignored                                error
    CLOSE     gone        gone                ignored                                error
    RESET     gone        gone                ignored                                error

Each direction of a stream starts with WINDOW bytes of credit, so a hostile peer can make this side
hold at most `max_streams * WINDOW` bytes of data and one frame, and nothing for streams that are
gone. Credit-based flow control as in RFC 9113 (HTTP/2), section 5.2; ids as in section 5.1.1.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION = 1
MAX_DATA = 64 * 1024
MAX_STREAMS = 64
MAX_META = 4 * 1024
# The host's side of OPEN carries a whole argv and environment; only the guest accepts this much.
MAX_COMMAND_META = 256 * 1024
WINDOW = 256 * 1024

HOST = "host"
GUEST = "guest"

HELLO, OPEN, DATA, EOF, CLOSE, RESET, CREDIT = range(1, 8)
KINDS = {
    HELLO: "HELLO",
    OPEN: "OPEN",
    DATA: "DATA",
    EOF: "EOF",
    CLOSE: "CLOSE",
    RESET: "RESET",
    CREDIT: "CREDIT",
}

_HEADER = struct.Struct("!BBII")
_U32 = struct.Struct("!I")
_LAST_ID = 0xFFFFFFFF


class ProtocolError(Exception):
    """The peer broke a rule; nothing it sends can be trusted any more."""


class StreamGone(Exception):
    """A local send on a stream that has ended. No fault: the peer may have ended it first."""


class Frame:
    """One received frame that kept the rules."""

    __slots__ = ("kind", "lane", "payload", "stream")

    def __init__(self, kind: int, stream: int, payload: bytes = b"", lane: int = 0) -> None:
        self.kind = kind
        self.stream = stream
        self.payload = payload
        self.lane = lane

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Frame({KINDS[self.kind]}, {self.stream}, {self.payload[:40]!r}, lane={self.lane})"

    def _key(self) -> tuple[int, int, int, bytes]:
        return (self.kind, self.lane, self.stream, self.payload)


class _Stream:
    __slots__ = ("local_open", "recv_credit", "remote_open", "send_credit")

    def __init__(self) -> None:
        self.local_open = True
        self.remote_open = True
        self.send_credit = WINDOW
        self.recv_credit = WINDOW


def pack_fields(fields: Iterable[tuple[str, str]]) -> bytes:
    """Encode ordered, repeatable `key=value` fields. ValueError for a NUL or a key with "=".

    Not JSON: arguments, environments and paths are bytes that need not be UTF-8, and importing
    `json` takes a machine longer than everything else that its agent imports.
    """
    items = []
    for key, value in fields:
        if "=" in key or not key or "\0" in key or "\0" in value:
            raise ValueError(f"a field may hold no NUL, and its name no '=': {key!r}")
        items.append(f"{key}={value}".encode("utf-8", "surrogateescape"))
    return b"\0".join(items)


def unpack_fields(payload: bytes) -> list[tuple[str, str]]:
    """Decode what `pack_fields` made. ProtocolError for anything else."""
    if not payload:
        return []
    fields = []
    for item in payload.decode("utf-8", "surrogateescape").split("\0"):
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ProtocolError("malformed fields")
        fields.append((key, value))
    return fields


class Connection:
    """One end of a connection: bytes in, frames out, and the other way round. Not thread-safe."""

    def __init__(
        self, role: str, *, max_streams: int = MAX_STREAMS, max_meta: int = MAX_META
    ) -> None:
        self._parity = 1 if role == HOST else 0
        self._next_id = 1 if role == HOST else 2
        self._highest_remote = 0
        self._max_streams = max_streams
        self._max_payload = {
            HELLO: max_meta,
            OPEN: max_meta,
            DATA: MAX_DATA,
            EOF: 0,
            CLOSE: max_meta,
            RESET: max_meta,
            CREDIT: _U32.size,
        }
        self._on = {
            HELLO: self._on_hello,
            OPEN: self._on_open,
            DATA: self._on_data,
            EOF: self._on_eof,
            CLOSE: self._on_close,
            RESET: self._on_reset,
            CREDIT: self._on_credit,
        }
        self._streams: dict[int, _Stream] = {}
        self._remote_streams = 0
        self._buffer = bytearray()
        self._taken = 0
        self._greeted = False
        self._broken = ""

    # What comes in

    def receive(self, data: bytes) -> Iterator[Frame]:
        """Take bytes, however they were cut, and yield the frames that they complete.

        The state moves with each frame as it is taken, not ahead of it; take them all. After a
        ProtocolError every further call raises it again.
        """
        del self._buffer[: self._taken]
        self._taken = 0
        self._buffer += data
        while not self._broken:
            try:
                frame = self._take_frame()
                wanted = frame is not None and self._on[frame.kind](frame)
            except ProtocolError as error:
                self._broken = str(error)
                self._buffer.clear()
                break
            if frame is None:
                return
            if wanted:
                yield frame
        raise ProtocolError(self._broken)

    def _take_frame(self) -> Frame | None:
        start = self._taken
        if len(self._buffer) - start < _HEADER.size:
            return None
        kind, lane, stream, length = _HEADER.unpack_from(self._buffer, start)
        self._check_header(kind, lane, length)
        begin, end = start + _HEADER.size, start + _HEADER.size + length
        if len(self._buffer) < end:
            return None
        self._taken = end
        return Frame(kind, stream, bytes(self._buffer[begin:end]), lane)

    def _check_header(self, kind: int, lane: int, length: int) -> None:
        limit = self._max_payload.get(kind)
        if limit is None:
            raise ProtocolError(f"unknown kind of frame {kind}")
        if length > limit:
            raise ProtocolError(f"{KINDS[kind]} of {length} bytes, at most {limit} are allowed")
        if lane > (kind == DATA):
            raise ProtocolError(f"{KINDS[kind]} on lane {lane}")
        if self._greeted == (kind == HELLO):
            raise ProtocolError(f"{KINDS[kind]} " + ("again" if self._greeted else "before HELLO"))

    def _on_hello(self, frame: Frame) -> bool:
        if frame.stream:
            raise ProtocolError("HELLO on a stream")
        if ("version", str(VERSION)) not in unpack_fields(frame.payload):
            raise ProtocolError(f"the peer does not speak version {VERSION}")
        self._greeted = True
        return True

    def _on_open(self, frame: Frame) -> bool:
        if frame.stream % 2 == self._parity or frame.stream <= self._highest_remote:
            raise ProtocolError(f"OPEN of stream {frame.stream}, an id the peer may not use")
        if self._remote_streams >= self._max_streams:
            raise ProtocolError(f"more than {self._max_streams} streams at a time")
        self._highest_remote = frame.stream
        self._streams[frame.stream] = _Stream()
        self._remote_streams += 1
        return True

    def _on_data(self, frame: Frame) -> bool:
        stream = self._known(frame)
        if stream is None:
            return False
        if not stream.remote_open:
            raise ProtocolError(f"DATA after EOF on stream {frame.stream}")
        if not frame.payload:
            raise ProtocolError(f"empty DATA on stream {frame.stream}")
        stream.recv_credit -= len(frame.payload)
        if stream.recv_credit < 0:
            raise ProtocolError(f"DATA beyond the credit of stream {frame.stream}")
        return True

    def _on_eof(self, frame: Frame) -> bool:
        stream = self._known(frame)
        if stream is None:
            return False
        if not stream.remote_open:
            raise ProtocolError(f"a second EOF on stream {frame.stream}")
        stream.remote_open = False
        self._drop_if_ended(frame.stream, stream)
        return True

    def _on_close(self, frame: Frame) -> bool:
        if not self._is_local(frame.stream):
            raise ProtocolError(f"CLOSE by the side that opened stream {frame.stream}")
        return self._on_reset(frame)

    def _on_reset(self, frame: Frame) -> bool:
        if self._known(frame) is None:
            return False
        self._drop(frame.stream)
        return True

    def _on_credit(self, frame: Frame) -> bool:
        stream = self._known(frame)
        if len(frame.payload) != _U32.size:
            raise ProtocolError("malformed CREDIT")
        if stream is None:
            return False
        stream.send_credit += _U32.unpack(frame.payload)[0]
        if stream.send_credit > WINDOW:
            raise ProtocolError(f"CREDIT beyond the window of stream {frame.stream}")
        return True

    def _known(self, frame: Frame) -> _Stream | None:
        """Return the live stream; None when it is gone. ProtocolError if there never was one."""
        stream = self._streams.get(frame.stream)
        if stream is None and not self._ever_opened(frame.stream):
            raise ProtocolError(f"{KINDS[frame.kind]} for stream {frame.stream}, never opened")
        return stream

    def _ever_opened(self, stream_id: int) -> bool:
        if self._is_local(stream_id):
            return stream_id < self._next_id
        return 0 < stream_id <= self._highest_remote

    def _is_local(self, stream_id: int) -> bool:
        return stream_id % 2 == self._parity and stream_id > 0

    # What goes out

    def hello(self, fields: Iterable[tuple[str, str]] = ()) -> bytes:
        return _encode(HELLO, 0, pack_fields([("version", str(VERSION)), *fields]))

    def open(self, fields: Iterable[tuple[str, str]]) -> tuple[int, bytes]:
        """Open a stream. ValueError when the fields are longer than any peer accepts."""
        payload = pack_fields(fields)
        if len(payload) > MAX_COMMAND_META:
            raise ValueError(f"{len(payload)} bytes of fields, at most {MAX_COMMAND_META} fit")
        if self._next_id > _LAST_ID - 2:
            raise ValueError("this connection has used up its stream ids")
        stream_id, self._next_id = self._next_id, self._next_id + 2
        self._streams[stream_id] = _Stream()
        return stream_id, _encode(OPEN, stream_id, payload)

    def sendable(self, stream_id: int) -> int:
        """Bytes of DATA that may be sent now, 0 without credit. StreamGone when it has ended."""
        return self._sending(stream_id).send_credit

    def data(self, stream_id: int, payload: bytes | memoryview, lane: int = 0) -> bytes:
        """ValueError when the payload is empty, longer than MAX_DATA or than the credit."""
        stream = self._sending(stream_id)
        size = len(payload)
        if not 0 < size <= min(MAX_DATA, stream.send_credit):
            raise ValueError(f"{size} bytes with a credit of {stream.send_credit}")
        stream.send_credit -= size
        return _encode(DATA, stream_id, payload, lane)

    def eof(self, stream_id: int) -> bytes:
        stream = self._sending(stream_id)
        stream.local_open = False
        self._drop_if_ended(stream_id, stream)
        return _encode(EOF, stream_id)

    def close(self, stream_id: int, fields: Iterable[tuple[str, str]] = ()) -> bytes:
        """End a stream that the peer opened, with its result."""
        if self._is_local(stream_id):
            raise ValueError("only the side that did not open a stream may close it")
        payload = pack_fields(fields)
        self._live(stream_id)
        self._drop(stream_id)
        return _encode(CLOSE, stream_id, payload)

    def reset(self, stream_id: int, reason: str = "") -> bytes:
        self._live(stream_id)
        self._drop(stream_id)
        return _encode(RESET, stream_id, reason.encode()[:MAX_META])

    def credit(self, stream_id: int, size: int) -> bytes:
        """Give back credit for `size` bytes that were consumed."""
        stream = self._live(stream_id)
        if not 0 < size <= WINDOW - stream.recv_credit:
            raise ValueError(f"credit of {size} on top of {stream.recv_credit}")
        stream.recv_credit += size
        return _encode(CREDIT, stream_id, _U32.pack(size))

    def is_live(self, stream_id: int) -> bool:
        return stream_id in self._streams

    @property
    def local_streams(self) -> int:
        """How many streams that this side opened are live."""
        return len(self._streams) - self._remote_streams

    def _live(self, stream_id: int) -> _Stream:
        stream = self._streams.get(stream_id)
        if stream is None:
            raise StreamGone(stream_id)
        return stream

    def _sending(self, stream_id: int) -> _Stream:
        stream = self._live(stream_id)
        if not stream.local_open:
            raise StreamGone(stream_id)
        return stream

    def _drop_if_ended(self, stream_id: int, stream: _Stream) -> None:
        if not stream.local_open and not stream.remote_open:
            self._drop(stream_id)

    def _drop(self, stream_id: int) -> None:
        del self._streams[stream_id]
        self._remote_streams -= not self._is_local(stream_id)


def _encode(kind: int, stream: int, payload: bytes | memoryview = b"", lane: int = 0) -> bytes:
    return b"".join((_HEADER.pack(kind, lane, stream, len(payload)), payload))
