"""TLS as far as a tunnel has to understand it: the ClientHello, and the framing of records.

Sans-io: bytes in, values out, with limits. Nothing is decrypted. The name that a client asks for
(SNI) is read so that it can be held against the CONNECT host; whether it hides another one (ECH) is
told. Sources: RFC 8446 §4.1.2 and §5.1, RFC 6066 §3, RFC 9849 (encrypted_client_hello, 0xfe0d).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

MAX_RECORD = (1 << 14) + 2048
MAX_HELLO = 16 * 1024

# `access_denied`, fatal: what a client is told that may not go on (RFC 8446 §6).
ALERT_ACCESS_DENIED = b"\x15\x03\x01\x00\x02\x02\x31"

_HEADER = 5
_MESSAGE_HEADER = 4
_HANDSHAKE = 22
_RECORD_TYPES = range(20, 25)
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HOST_NAME = 0
# The standard's number, the drafts' before it, and ESNI's: whatever hides the name.
_ENCRYPTED = frozenset({*range(0xFE08, 0xFE0E), 0xFFCE})


class BadHello(ValueError):
    """The bytes are no TLS, or not such TLS as can be judged. The message never quotes them."""


@dataclass(frozen=True)
class ClientHello:
    """`server_name` is the SNI as sent, None without one; `encrypted` says that ECH is in it."""

    server_name: str | None
    encrypted: bool = False


class HelloReader:
    """Collects a connection's first bytes until the ClientHello is whole; each is looked at once.

    No record is empty and the hello has a limit, so it cannot be kept waiting for more than six
    times that: a header and one byte, over and over.
    """

    def __init__(self) -> None:
        self._raw = bytearray()
        self._message = bytearray()
        self._records = _Records(_check_hello_header)

    @property
    def raw(self) -> bytes:
        """Everything that was fed: what goes on to the upstream, unchanged."""
        return bytes(self._raw)

    def feed(self, data: bytes) -> ClientHello | None:
        """Return the hello, or None while there is more to come. BadHello."""
        self._raw += data
        for payload in self._records.payloads(data):
            self._message += payload
            if (end := self._end()) is not None:
                return parse_client_hello(bytes(self._message[_MESSAGE_HEADER:end]))
        return None

    def _end(self) -> int | None:
        """Return where the message ends once it is there up to that. BadHello."""
        if len(self._message) < _MESSAGE_HEADER:
            return None
        length = int.from_bytes(self._message[1:_MESSAGE_HEADER], "big")
        if self._message[0] != _CLIENT_HELLO:
            raise BadHello("TLS begins with a ClientHello")
        if length > MAX_HELLO:
            raise BadHello(f"the ClientHello is over {MAX_HELLO} bytes")
        end = _MESSAGE_HEADER + length
        return end if len(self._message) >= end else None


class RecordChecker:
    """Follows the framing of records in one direction; what is not TLS is noticed at once."""

    def __init__(self) -> None:
        self._records = _Records(_check_header)

    def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere. BadHello when a record's header is none."""
        for _ in self._records.payloads(data):
            pass


class _Records:
    """Cuts a stream into records; `judge` sees each header, and before that its beginning."""

    def __init__(self, judge: Callable[[bytes], None]) -> None:
        self._judge = judge
        self._left = 0
        self._header = b""

    def payloads(self, data: bytes) -> Iterator[memoryview]:
        """Yield what of the next bytes is in records, piece by piece."""
        view = memoryview(data)
        while view:
            size = self._left or _HEADER - len(self._header)
            piece, view = view[:size], view[size:]
            if self._left:
                self._left -= len(piece)
                yield piece
            else:
                self._take_header(bytes(piece))

    def _take_header(self, piece: bytes) -> None:
        self._header += piece
        self._judge(self._header)
        if len(self._header) == _HEADER:
            self._left = int.from_bytes(self._header[3:5], "big")
            self._header = b""


def parse_client_hello(body: bytes) -> ClientHello:
    """Read a ClientHello's body (without the handshake header). BadHello."""
    reader = _Reader(body)
    reader.take(2 + 32)
    reader.vector(1)
    reader.vector(2)
    reader.vector(1)
    if reader.ended():
        return ClientHello(None)
    extensions = _Reader(reader.vector(2))
    if not reader.ended():
        raise BadHello("bytes follow the ClientHello's extensions")
    found = _extensions(extensions)
    name = _server_name(found[_SERVER_NAME]) if _SERVER_NAME in found else None
    return ClientHello(name, encrypted=not _ENCRYPTED.isdisjoint(found))


def _check_header(header: bytes) -> None:
    """Judge a record's header, or its beginning."""
    if header[:1] and header[0] not in _RECORD_TYPES:
        raise BadHello("not TLS")
    if len(header) > 1 and header[1] != 3:
        raise BadHello("not TLS")
    if len(header) == _HEADER and int.from_bytes(header[3:5], "big") > MAX_RECORD:
        raise BadHello("a TLS record is too long")


def _check_hello_header(header: bytes) -> None:
    """Judge the header of a record that has to hold a piece of the ClientHello."""
    _check_header(header)
    if header[0] != _HANDSHAKE:
        raise BadHello("another TLS record within the ClientHello")
    if len(header) == _HEADER and not any(header[3:5]):
        raise BadHello("an empty TLS record")


def _extensions(reader: _Reader) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while not reader.ended():
        kind = reader.number(2)
        if kind in found:
            raise BadHello("a TLS extension is repeated")
        found[kind] = reader.vector(2)
    return found


def _server_name(data: bytes) -> str:
    """Return the one host name of a server_name extension; several could be read in two ways."""
    outer = _Reader(data)
    names = _Reader(outer.vector(2))
    kind, name = names.number(1), names.vector(2)
    if not outer.ended() or not names.ended() or kind != _HOST_NAME:
        raise BadHello("the SNI is not one host name")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise BadHello("the SNI is not ASCII") from None


class _Reader:
    """Numbers and length-prefixed vectors, in order; BadHello where bytes are missing."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def ended(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        if len(piece) != size:
            raise BadHello("the ClientHello is cut off")
        self._at += size
        return piece

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, prefix: int) -> bytes:
        return self.take(self.number(prefix))
