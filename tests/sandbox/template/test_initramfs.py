"""The first file system, read back by what would read it."""

from __future__ import annotations

import pytest

from sandbox.template import initramfs


def module(*needs: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + ",".join(needs).encode() + b"\0name=x\0"


MODULES = {
    "virtio_blk": module("virtio", "virtio_ring"),
    "virtio": module("virtio_ring"),
    "virtio_ring": module(),
}


def unpack(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """name → (mode, data) of a cpio archive in the "newc" format."""
    found, at = {}, 0
    while True:
        assert archive[at : at + 6] == b"070701"
        numbers = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name_size, size = numbers[11], numbers[6]
        name = archive[at + 110 : at + 109 + name_size].decode()
        at += (110 + name_size + 3) // 4 * 4
        data = archive[at : at + size]
        at += (size + 3) // 4 * 4
        if name == "TRAILER!!!":
            assert at == len(archive)
            return found
        found[name] = (numbers[1], data)


@pytest.fixture
def files() -> dict[str, tuple[int, bytes]]:
    agent = {"vm.py": b"code", "protocol.py": b""}
    return unpack(initramfs.build(b"busy", MODULES, agent, "/run/here", ["/p", "/run/here/vm.py"]))


def test_a_module_comes_after_those_it_needs() -> None:
    assert initramfs.load_order(MODULES) == ["virtio_ring", "virtio", "virtio_blk"]


def test_what_is_not_a_module_of_ours_is_in_the_kernel() -> None:
    assert initramfs.load_order({"a": module("crc32c", "b"), "b": module()}) == ["b", "a"]


def test_everything_is_where_init_looks(files: dict[str, tuple[int, bytes]]) -> None:
    assert files["bin/busybox"] == (0o100755, b"busy")
    assert files["agent/vm.py"] == (0o100444, b"code")
    assert files["modules/virtio_blk.ko"][1] == MODULES["virtio_blk"]
    assert files["dev"][0] == 0o040755


def test_init_is_a_script_that_becomes_the_agent(files: dict[str, tuple[int, bytes]]) -> None:
    mode, script = files["init"]
    assert mode == 0o100755
    text = script.decode()
    assert text.startswith("#!/bin/busybox sh\n")
    assert "for module in virtio_ring virtio virtio_blk;" in text
    assert text.rstrip().endswith("exec busybox switch_root /root /p /run/here/vm.py")
    assert "{" not in text
