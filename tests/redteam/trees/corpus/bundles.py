"""Bundles that are none, or that bring something else, or more, than was asked for."""

from __future__ import annotations

import struct
from hashlib import sha1
from pathlib import Path

from tests.redteam.trees.corpus.cases import parcel
from tests.redteam.trees.corpus.parcels import needed, write
from tests.workers.conftest import OUT
from tests.workers.gate.conftest import Yard
from tests.workers.gate.packs import header
from workers.gate import Rule


@parcel(Rule.BUNDLE)
def nothing_at_all(yard: Yard) -> Path:
    return write(yard, b"")


@parcel(Rule.BUNDLE)
def a_script(yard: Yard) -> Path:
    return write(yard, b"#!/bin/sh\n\nid\n")


@parcel(Rule.BUNDLE)
def a_bundle_of_version_3_with_a_filter(yard: Yard) -> Path:
    return write(yard, b"# v3 git bundle\n@filter=blob:none\n\n")


@parcel(Rule.BUNDLE)
def a_header_without_an_end(yard: Yard) -> Path:
    return write(yard, b"# v2 git bundle\n" + b"-" * 80_000)


@parcel(Rule.BUNDLE)
def a_truncated_pack(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    path.write_bytes(path.read_bytes()[:-25])
    return path


@parcel(Rule.BUNDLE)
def a_spoiled_pack(yard: Yard) -> Path:
    yard.change({b"x": b"words to be spoiled" * 20})
    path = yard.bundle()
    raw = bytearray(path.read_bytes())
    raw[-40] ^= 0xFF
    path.write_bytes(raw)
    return path


@parcel(Rule.BUNDLE)
def another_ref_beside_ours(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    yard.guest.git("update-ref", "refs/heads/main", yard.tip)
    return yard.bundle(f"^{yard.base}", OUT, "refs/heads/main")


@parcel(Rule.BUNDLE)
def a_tag_instead_of_a_branch(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    yard.guest.git("update-ref", "refs/tags/v1", yard.tip)
    return yard.bundle(f"^{yard.base}", "refs/tags/v1")


@parcel(Rule.BUNDLE)
def a_head_that_is_a_tree(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    name = yard.guest.read(f"{yard.tip}^{{tree}}")
    path.write_bytes(path.read_bytes().replace(yard.tip.encode(), name.encode(), 1))
    return path


@parcel(Rule.BUNDLE, max_bundle_bytes=100)
def more_bytes_than_are_taken(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    return yard.bundle()


@parcel(Rule.MERGE)
def a_merge(yard: Yard) -> Path:
    left = yard.change({b"l": b"1"})
    right = yard.guest.commit({b"r": b"1"}, parents=[yard.base])
    yard.tip = yard.guest.commit({b"m": b"1"}, parents=[left, right])
    return yard.bundle()


@parcel(Rule.ANCESTRY)
def commits_on_an_older_base(yard: Yard) -> Path:
    older = yard.guest.read(f"{yard.base}^")
    yard.tip = yard.guest.commit({b"x": b"1"}, parents=[older])
    return yard.bundle(f"^{older}", OUT)


@parcel(Rule.ANCESTRY)
def a_history_of_its_own(yard: Yard) -> Path:
    return yard.bundle(OUT, tip=yard.guest.commit({b"x": b"1"}))


@parcel(Rule.COMMIT_COUNT, max_commits=2)
def more_commits_than_are_taken(yard: Yard) -> Path:
    for number in range(3):
        yard.change({b"n": b"%d" % number})
    return yard.bundle()


@parcel(Rule.EXTRA_OBJECTS)
def a_blob_that_no_commit_needs(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    return _repacked(yard, [*needed(yard, yard.tip), yard.guest.blob(b"smuggled")])


@parcel(Rule.EXTRA_OBJECTS)
def a_commit_beside_the_line(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    side = yard.guest.commit({b"s": b"1"}, parents=[yard.base])
    return _repacked(yard, [*needed(yard, yard.tip), *needed(yard, side)])


@parcel(Rule.CHANGE_SIZE, max_total_bytes=1_000_000)
def more_content_than_is_taken(yard: Yard) -> Path:
    yard.change({b"a": b"\0" * 600_000, b"b": b"\1" * 600_000})
    return yard.bundle()


@parcel(Rule.CHANGE_SIZE, max_objects=20)
def more_objects_than_are_taken(yard: Yard) -> Path:
    yard.change({b"f%d" % number: b"%d" % number for number in range(30)})
    return yard.bundle()


@parcel(Rule.CHANGE_SIZE)
def a_pack_that_says_it_has_a_billion_objects(yard: Yard) -> Path:
    yard.change({b"x": b"1"})
    return write(yard, header(yard, yard.tip) + b"PACK" + struct.pack(">II", 2, 10**9))


@parcel(Rule.BUNDLE)
def a_pack_that_says_it_has_fewer_objects(yard: Yard) -> Path:
    yard.change({b"f%d" % number: b"%d" % number for number in range(30)})
    data = bytearray(yard.bundle().read_bytes())
    start = data.index(b"PACK")
    data[start + 8 : start + 12] = struct.pack(">I", 3)
    data[-20:] = sha1(data[start:-20], usedforsecurity=False).digest()
    return write(yard, bytes(data))


@parcel(Rule.CHANGE_SIZE, max_changes=20)
def more_files_than_are_taken(yard: Yard) -> Path:
    yard.change({b"f%d" % number: b"1" for number in range(30)})
    return yard.bundle()


@parcel(Rule.CHANGE_SIZE, max_scan_bytes=1_000)
def more_text_than_is_looked_through(yard: Yard) -> Path:
    yard.change({b"a.txt": b"words\n" * 1_000})
    return yard.bundle()


def _repacked(yard: Yard, names: list[str]) -> Path:
    data = yard.guest.raw("pack-objects", "--stdout", "-q", stdin="\n".join(names).encode() + b"\n")
    return write(yard, header(yard, yard.tip) + data)
