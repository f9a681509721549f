"""TLS as far as a tunnel has to understand it: the ClientHello, and the framing of records.

Sans-io: bytes in, values out, with limits. Nothing is decrypted. The name that a client asks for
(SNI) is read so that it can be held against the CONNECT host; whether it hides another one (ECH) is
told. Sources: RFC 8446 §4.1.2 and §5.1, RFC 6066 §3, RFC 9849 (encrypted_client_hello, 0xfe0d).
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_RECORD = (1 << 14) + 2048
MAX_HELLO = 16 * 1024
# A sender cuts a hello where a packet ends, not after every byte; each look costs the whole.
MAX_RECORDS = 1024

# `access_denied`, fatal: what a client is told that may not go on (RFC 8446 §6).
ALERT_ACCESS_DENIED = b"\x15\x03\x01\x00\x02\x02\x31"

_HEADER = 5
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
    """Collects a connection's first bytes until the ClientHello is whole.

    `raw` is everything that was fed: what goes on to the upstream, unchanged.
    """

    def __init__(self) -> None:
        self.raw = b""

    def feed(self, data: bytes) -> ClientHello | None:
        """Return the hello, or None while there is more to come. BadHello."""
        self.raw += data
        if len(self.raw) > _HEADER * MAX_RECORDS and _count_records(self.raw) > MAX_RECORDS:
            raise BadHello(f"the ClientHello is cut into over {MAX_RECORDS} records")
        message = _handshake_bytes(self.raw)
        if len(message) < 4:
            return None
        length = int.from_bytes(message[1:4], "big")
        if message[0] != _CLIENT_HELLO:
            raise BadHello("TLS begins with a ClientHello")
        if length > MAX_HELLO:
            raise BadHello(f"the ClientHello is over {MAX_HELLO} bytes")
        if len(message) < 4 + length:
            return None
        return parse_client_hello(message[4 : 4 + length])


class RecordChecker:
    """Follows the framing of records in one direction; what is not TLS is noticed at once."""

    def __init__(self) -> None:
        self._left = 0
        self._header = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes, cut anywhere. BadHello when a record's header is none."""
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
            else:
                step = min(_HEADER - len(self._header), len(data) - at)
                self._take_header(data[at : at + step])
            at += step

    def _take_header(self, piece: bytes) -> None:
        self._header += piece
        _check_header(self._header)
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


def _count_records(raw: bytes) -> int:
    """Return how many whole records begin in `raw`; each step is a record, so this is cheap."""
    count = at = 0
    while at + _HEADER <= len(raw) and count <= MAX_RECORDS:
        at += _HEADER + int.from_bytes(raw[at + 3 : at + 5], "big")
        count += 1
    return count


def _handshake_bytes(raw: bytes) -> bytes:
    """Return the handshake layer's bytes of the records so far; a cut last one counts as it is."""
    message = b""
    at = 0
    while at < len(raw) and len(message) < 4 + MAX_HELLO:
        header = raw[at : at + _HEADER]
        _check_header(header)
        if header[0] != _HANDSHAKE:
            raise BadHello("another TLS record within the ClientHello")
        if len(header) < _HEADER:
            break
        length = int.from_bytes(header[3:5], "big")
        if not length:
            raise BadHello("an empty TLS record")
        message += raw[at + _HEADER : at + _HEADER + length]
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4], "big"):
            break
        at += _HEADER + length
    return message


def _check_header(header: bytes) -> None:
    """Judge a record's header, or its beginning."""
    if header[:1] and header[0] not in _RECORD_TYPES:
        raise BadHello("not TLS")
    if len(header) > 1 and header[1] != 3:
        raise BadHello("not TLS")
    if len(header) == _HEADER and int.from_bytes(header[3:5], "big") > MAX_RECORD:
        raise BadHello("a TLS record is too long")


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
