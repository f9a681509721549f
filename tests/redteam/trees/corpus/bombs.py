"""Few bytes that would become many."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.redteam.trees.corpus.cases import parcel
from tests.redteam.trees.corpus.parcels import needed, write
from tests.workers.conftest import Node
from tests.workers.gate.conftest import Yard
from tests.workers.gate.packs import blob_id, copying_twice, header, pack, packed, varint, zero_blob
from workers.gate import Rule
from workers.gate.values import MIB


@parcel(Rule.BUNDLE)
def a_bomb_of_zeros(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    bomb = packed(3, b"\0" * (64 * 1024 * 1024))
    return write(yard, header(yard, yard.tip) + pack([bomb]))


@parcel(Rule.BUNDLE, max_memory_bytes=256 * MIB)
def a_bomb_of_deltas(yard: Yard) -> Path:
    """Each delta copies the one before it twice: some hundred bytes are a quarter gigabyte."""
    yard.change({b"x": b"1"})
    length, content = 1 << 16, zero_blob(1 << 16)
    objects = [*honest(yard), packed(3, b"\0" * length)]
    while length < 1 << 28:
        delta = copying_twice(length)
        objects.append(packed(7, delta, extra=content))
        length, content = 2 * length, zero_blob(2 * length)
    data = header(yard, yard.tip) + pack(objects)
    assert len(data) < 10_000
    return write(yard, data)


@parcel(Rule.BUNDLE)
def a_chain_of_deltas_without_its_beginning(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    orphan = packed(7, copying_twice(8), extra=bytes(range(20)))
    return write(yard, header(yard, yard.tip) + pack([orphan]))


@parcel(Rule.EXTRA_OBJECTS)
def a_long_chain_of_deltas_for_nothing(yard: Yard) -> Path:
    """Five thousand of them, one on another, beside an honest commit."""
    yard.change({b"x": b"1"})
    content, chain = b"start", [packed(3, b"start")]
    for number in range(5_000):
        added = b"%d" % number
        delta = varint(len(content)) + varint(len(content + added))
        delta += b"\xb0" + struct.pack("<H", len(content)) + bytes([len(added)]) + added
        chain.append(packed(7, delta, extra=blob_id(content)))
        content += added
    return write(yard, header(yard, yard.tip) + pack([*honest(yard), *chain]))


@parcel(Rule.CHANGE_SIZE, max_seconds=30)
def a_bomb_of_trees(yard: Yard) -> Path:
    """Ten names for one tree, eight times over: a hundred million files in nine objects."""
    inner = yard.guest.raw_tree([(b"f", Node("100644", b"x"))])
    for _ in range(8):
        inner = yard.guest.raw_tree([(b"%d" % n, Node("040000", sha=inner)) for n in range(10)])
    yard.tip = yard.guest.commit(tree=inner, parents=[yard.base])
    return yard.bundle()


def honest(yard: Yard) -> list[bytes]:
    """What the commits of a yard need, packed one by one."""
    return [_as_packed(yard, name) for name in needed(yard, yard.tip)]


def _as_packed(yard: Yard, name: str) -> bytes:
    kinds = {"commit": 1, "tree": 2, "blob": 3}
    kind = yard.guest.git("cat-file", "-t", name)
    return packed(kinds[kind], yard.guest.raw("cat-file", kind, name))
