"""Bundles and packs written byte by byte (gitformat-bundle(5), gitformat-pack(5))."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from hashlib import sha1

from tests.workers.conftest import OUT
from tests.workers.gate.conftest import Yard


def pack(objects: Sequence[bytes]) -> bytes:
    body = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
    return body + sha1(body, usedforsecurity=False).digest()


def packed(kind: int, data: bytes, size: int | None = None, extra: bytes = b"") -> bytes:
    size = len(data) if size is None else size
    head, size = [(kind << 4) | (size & 15)], size >> 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head) + extra + zlib.compress(data, 9)


def header(yard: Yard, tip: str) -> bytes:
    return f"# v2 git bundle\n-{yard.base} base\n{tip} {OUT}\n\n".encode()


def copying_delta(size: int, times: int, base: bytes, *, by_offset: bool = False) -> bytes:
    copied = min(size, 0xFFFFFF)
    copy = b"\xf0" + struct.pack("<I", copied)[:3]
    delta = varint(size) + varint(copied * times) + copy * times
    return packed(6 if by_offset else 7, delta, extra=base)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def offset(distance: int) -> bytes:
    out = [distance & 0x7F]
    while distance := distance >> 7:
        distance -= 1
        out.insert(0, distance & 0x7F | 0x80)
    return bytes(out)


def copying_twice(length: int) -> bytes:
    """A delta that makes of so many bytes twice as many (gitformat-pack(5), "Deltified")."""
    copies = []
    for _ in range(2):
        at = 0
        while at < length:
            size = min(length - at, 0xFFFFFF)
            copies.append(b"\xff" + struct.pack("<I", at) + struct.pack("<I", size)[:3])
            at += size
    return varint(length) + varint(2 * length) + b"".join(copies)


def blob_id(data: bytes) -> bytes:
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


def zero_blob(length: int) -> bytes:
    """The id of a blob of so many zeros."""
    digest = sha1(b"blob %d\0" % length, usedforsecurity=False)
    for _ in range(length >> 16):
        digest.update(bytes(1 << 16))
    return digest.digest()
