"""Bundles that are none, that bring more than was asked for, or that burst."""

from __future__ import annotations

import pytest

from tests.workers.conftest import OUT
from tests.workers.gate.conftest import Yard, refused
from tests.workers.gate.packs import blob_id, copying_delta, header, offset, pack, packed
from workers.gate import Rule


def test_a_refused_bundle_leaves_no_repository(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    path.write_bytes(path.read_bytes()[:-30])
    assert refused(yard.take(path)).rule is Rule.BUNDLE
    assert not (yard.root / "quarantine.git").exists()


@pytest.mark.parametrize("keep", [0, 1, 16, 60, 100, 200])
def test_a_truncated_bundle_refuses(yard: Yard, keep: int) -> None:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    path.write_bytes(path.read_bytes()[:keep])
    assert refused(yard.take(path)).rule is Rule.BUNDLE


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"\0" * 4096,
        b"# v2 git bundle\n" * 5000,
        b"# v3 git bundle\n@filter=blob:none\n\n",
        b"-" * 70_000,
        b"#!/bin/sh\n\n",
    ],
)
def test_garbage_refuses(yard: Yard, garbage: bytes) -> None:
    path = yard.root / "garbage"
    path.write_bytes(garbage)
    assert refused(yard.take(path)).rule is Rule.BUNDLE


def test_a_spoiled_pack_refuses(yard: Yard) -> None:
    yard.change({b"x": b"some words to be spoiled" * 9})
    path = yard.bundle()
    raw = bytearray(path.read_bytes())
    raw[-40] ^= 0xFF
    path.write_bytes(raw)
    assert refused(yard.take(path)).rule is Rule.BUNDLE


def test_another_ref_beside_ours_refuses(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    yard.guest.git("update-ref", "refs/heads/main", yard.tip)
    finding = refused(yard.take(yard.bundle(f"^{yard.base}", OUT, "refs/heads/main")))
    assert (finding.rule, "refs/heads/main" in finding.reason) == (Rule.BUNDLE, True)


def test_another_ref_instead_of_ours_refuses(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    yard.guest.git("update-ref", "refs/tags/v1", yard.tip)
    assert refused(yard.take(yard.bundle(f"^{yard.base}", "refs/tags/v1"))).rule is Rule.BUNDLE


def test_a_bundle_over_the_limit_refuses_before_git_sees_it(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    assert "more than" in refused(yard.take(max_bundle_bytes=100)).reason


def test_a_bundle_whose_head_is_no_commit_refuses(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    path = yard.bundle()
    tree = yard.guest.read(f"{yard.tip}^{{tree}}")
    path.write_bytes(path.read_bytes().replace(yard.tip.encode(), tree.encode(), 1))
    assert refused(yard.take(path)).rule is Rule.BUNDLE


def test_a_blob_that_unpacks_to_more_than_the_memory_refuses(yard: Yard) -> None:
    yard.change({b"x": b"1"})
    path = yard.root / "bomb"
    bomb = packed(3, b"\0" * (300 * 1024 * 1024))
    assert len(bomb) < 400_000
    path.write_bytes(header(yard, yard.tip) + pack([bomb]))
    # Streamed through and thrown away: no commit leads to it, so the head is missing.
    assert refused(yard.take(path, max_memory_bytes=256 * 1024 * 1024)).rule is Rule.BUNDLE


def test_a_delta_bomb_refuses_in_bounded_memory(yard: Yard) -> None:
    """Each level copies the one below 32 times; nine levels would be terabytes."""
    yard.change({b"x": b"1"})
    base = b"\0" * 1024
    entries, before, size = [packed(3, base)], None, len(base)
    name = blob_id(base)
    entries.append(copying_delta(size, 32, name))
    for _ in range(8):
        before = len(entries[-1])
        size *= 32
        entries.append(copying_delta(size, 32, offset(before), by_offset=True))
    path = yard.root / "bomb"
    path.write_bytes(header(yard, yard.tip) + pack(entries))
    limits = {"max_memory_bytes": 512 * 1024 * 1024, "max_seconds": 20}
    finding = refused(yard.take(path, **limits))
    assert "emory" in finding.reason
    assert finding.rule is Rule.BUNDLE
