"""ClientHellos: real ones by OpenSSL, and ones built field by field."""

from __future__ import annotations

import ssl
from collections.abc import Iterable

SNI = 0
ECH = 0xFE0D


def openssl_hello(name: str | None) -> bytes:
    """Return the first bytes that OpenSSL sends to a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake without a server")


def sni(*names: bytes, kind: int = 0) -> bytes:
    entries = b"".join(bytes([kind]) + len(n).to_bytes(2, "big") + n for n in names)
    return len(entries).to_bytes(2, "big") + entries


def hello_body(extensions: Iterable[tuple[int, bytes]] | None) -> bytes:
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    if extensions is None:
        return body
    packed = b"".join(
        kind.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data for kind, data in extensions
    )
    return body + len(packed).to_bytes(2, "big") + packed


def handshake(body: bytes) -> bytes:
    return b"\x01" + len(body).to_bytes(3, "big") + body


def records(message: bytes, size: int = 1 << 14) -> bytes:
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(p).to_bytes(2, "big") + p for p in pieces)


def client_hello(extensions: Iterable[tuple[int, bytes]] | None, size: int = 1 << 14) -> bytes:
    return records(handshake(hello_body(extensions)), size)
