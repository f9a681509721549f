"""Which pages of a private mapping have changed, on a real process: this one."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from sandbox.provider import ProviderFailed
from sandbox.providers.qemu.memory import PAGE, add_changes, changed, copy_sparse, find_mapping

PAGES = 64


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base"
    path.write_bytes(b"".join(bytes([65 + n % 26]) * PAGE for n in range(PAGES)))
    return path


def private(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(
            file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
        )


def test_only_written_pages_count_as_changed(base: Path) -> None:
    with private(base) as memory:
        assert memory[5 * PAGE] == 65 + 5  # read, and no more
        for page in (3, 4, 9):
            memory[page * PAGE + 7] = 0
        mapping = find_mapping(os.getpid(), base)
        assert mapping is not None
        runs = list(changed(os.getpid(), mapping))
    assert runs == [(3 * PAGE, 5 * PAGE), (9 * PAGE, 10 * PAGE)]


def test_a_copy_with_the_changes_is_the_memory(base: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    copy_sparse(base, target)
    with private(base) as memory:
        memory[PAGE : 3 * PAGE] = os.urandom(2 * PAGE)
        memory[-1] = 1
        assert add_changes(os.getpid(), base, target) == 3 * PAGE
        assert target.read_bytes() == memory[:]
    assert base.read_bytes() != target.read_bytes()


def test_a_file_that_nobody_has_mapped(base: Path, tmp_path: Path) -> None:
    assert find_mapping(os.getpid(), base) is None
    with pytest.raises(ProviderFailed, match="no mapping"):
        add_changes(os.getpid(), base, base)


def test_holes_stay_holes(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    with source.open("wb") as file:
        file.truncate(64 * 1024 * 1024)
        file.seek(32 * 1024 * 1024)
        file.write(b"data" * 1024)
    copy_sparse(source, target)
    assert target.stat().st_size == source.stat().st_size
    assert target.stat().st_blocks * 512 < 1024 * 1024
    assert target.read_bytes() == source.read_bytes()
