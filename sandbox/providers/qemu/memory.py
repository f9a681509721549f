"""The memory of a stopped machine as a file: its template's, with the pages that it has changed.

A machine's memory is a private mapping of a file. The kernel knows which pages have become its own
(proc(5), /proc/PID/pagemap: present or swapped, and not of a file), and only those are read out of
the process.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sandbox.provider import ProviderFailed

PAGE = os.sysconf("SC_PAGE_SIZE")
_ENTRY = 8
_FICLONE = 0x40049409
_CANNOT_CLONE = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY)
_PIECE = 8 * 1024 * 1024
# The highest byte of an entry: bit 63 present, 62 swapped, 61 of a file or shared.
_OWN = bytes(bool(byte & 0xC0) and not byte & 0x20 for byte in range(256))
_RUNS = re.compile(rb"\x01+")


@dataclass(frozen=True)
class Mapping:
    """Where a process has a file mapped, in bytes."""

    start: int
    end: int


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file: its blocks shared where the file system can, else without its holes."""
    with source.open("rb") as reader, target.open("wb") as writer:
        try:
            fcntl.ioctl(writer, _FICLONE, reader.fileno())
        except OSError as error:
            if error.errno not in _CANNOT_CLONE:
                raise
            _copy_data(reader.fileno(), writer.fileno())


def add_changes(pid: int, base: Path, into: Path) -> int:
    """Write the pages of `pid`'s private mapping of `base` that it has changed; their bytes."""
    mapping = find_mapping(pid, base)
    if mapping is None:
        raise ProviderFailed(f"process {pid} has no mapping of {base}")
    written = 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory, into.open("r+b") as target:  # noqa: PTH123
        for start, end in changed(pid, mapping):
            written += end - start
            for at in range(start, end, _PIECE):
                data = os.pread(memory.fileno(), min(_PIECE, end - at), mapping.start + at)
                os.pwrite(target.fileno(), data, at)
    return written


def find_mapping(pid: int, file: Path) -> Mapping | None:
    """Where, if anywhere, a process has mapped that file."""
    inode = str(file.stat().st_ino)
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, _, _, _, number, *_ = line.split()
        if number == inode:
            start, end = (int(address, 16) for address in addresses.split("-"))
            return Mapping(start, end)
    return None


def changed(pid: int, mapping: Mapping) -> Iterator[tuple[int, int]]:
    """Runs of changed pages, as offsets in bytes from the mapping's start."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:  # noqa: PTH123
        pagemap.seek(mapping.start // PAGE * _ENTRY)
        entries = _read_whole(pagemap.fileno(), (mapping.end - mapping.start) // PAGE * _ENTRY)
    own = entries[_ENTRY - 1 :: _ENTRY].translate(_OWN)
    for run in _RUNS.finditer(own):
        yield run.start() * PAGE, run.end() * PAGE


def _read_whole(fd: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.read(fd, size - len(data))
        if not piece:
            raise ProviderFailed("the process ended while its memory was read")
        data += piece
    return bytes(data)


def _copy_data(source: int, target: int) -> None:
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    position = 0
    while position < size:
        try:
            start = os.lseek(source, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nothing but a hole is left
                raise
            return
        position = os.lseek(source, start, os.SEEK_HOLE)
        while start < position:
            start += os.copy_file_range(source, target, position - start, start, start)
