"""Makes `ls PATH` and `stat PATH` work in machines whose kernel knows no AT_NO_AUTOMOUNT.

GNU coreutils 9.1 pass that flag to statx(2), and Debian's runsc (2022-12) answers EINVAL. Nothing
is ever mounted automatically in a machine, so the flag can be left out: both programs are replaced
by a script that starts the template's own one with a library in front, whose `statx` clears the
flag and calls the C library's `syscall`. Every option and message stays GNU's. Nothing else in the
machine is touched: preloaded everywhere it would cost every program 2 of its 8 ms.

The library is made here, instruction by instruction, because neither a template nor every host has
a compiler, and because 33 bytes of code can be read. x86-64 only; elsewhere nothing is replaced.

https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html
https://gitlab.com/x86-psABIs/x86-64-ABI
"""

from __future__ import annotations

import struct
from pathlib import Path

from sandbox.providers.kept_files import keep

__all__ = ["LIBRARY", "PROGRAMS", "Replacement", "install", "library", "replacement", "script"]

PROGRAMS = ("ls", "stat")
LIBRARY = "no_automount.so"
_LOADER = "lib64/ld-linux-x86-64.so.2"

# statx(fd, path, flags, mask, result) as syscall(SYS_statx, fd, path, flags & ~0x800, mask, result)
_CODE = bytes.fromhex(
    "4d89c1"  # mov r9, r8
    "4189c8"  # mov r8d, ecx
    "89d1"  # mov ecx, edx
    "81e1fff7ffff"  # and ecx, ~AT_NO_AUTOMOUNT
    "4889f2"  # mov rdx, rsi
    "4863f7"  # movsxd rsi, edi
    "bf4c010000"  # mov edi, 332 (SYS_statx)
    "31c0"  # xor eax, eax (no vector registers hold arguments)
    "ff25"  # jmp [rip + …], to what the loader wrote there
)
_PAGE = 0x1000


class Replacement:
    """What one machine needs: files to copy into its agent's folder, and programs to bind over."""

    def __init__(self, tools: Path, rootfs: Path) -> None:
        self.copies = {
            f"agent/{LIBRARY}": str(tools / LIBRARY),
            **{f"agent/gnu-{name}": str(rootfs / "usr/bin" / name) for name in PROGRAMS},
        }
        self.binds = {f"/usr/bin/{name}": str(tools / name) for name in PROGRAMS}


def replacement(state_dir: Path, rootfs: Path, agent_dir: str) -> Replacement | None:
    """None for a template that is not of x86-64's C library, or lacks one of the programs."""
    needed = (rootfs / _LOADER, *(rootfs / "usr/bin" / name for name in PROGRAMS))
    if not all(path.is_file() for path in needed):
        return None
    return Replacement(install(state_dir, agent_dir), rootfs)


def install(state_dir: Path, agent_dir: str) -> Path:
    """Write library and scripts below `state_dir` unless they are there; complete or absent."""
    files = {name: script(name, agent_dir).encode() for name in PROGRAMS}
    return keep(state_dir / "gvisor", {**files, LIBRARY: library()})


def script(name: str, agent_dir: str) -> str:
    """What stands in a program's place. `--argv0` keeps the name that its messages begin with."""
    preload = f"--argv0 {name} --preload {agent_dir}/{LIBRARY}"
    return f'#!/bin/sh\nexec /{_LOADER} {preload} {agent_dir}/gnu-{name} "$@"\n'


def library() -> bytes:
    """A shared library of two pages that exports `statx` and nothing else (pure).

    First page: headers, symbols, and the code, not writable. Second: what the loader reads and
    writes, not executable.
    """
    names = b"\0statx\0syscall\0"
    hashes = struct.pack("<6I", 1, 3, 1, 0, 2, 0)  # one bucket; statx, then syscall
    sizes = {"symbols": 3 * 24, "names": len(names), "hashes": len(hashes), "moves": 24}
    at = _lay_out(64 + 4 * 56, sizes)
    code_at = -(-at["end"] // 16) * 16
    code_end = code_at + len(_CODE) + 4
    slot = _PAGE + 16 * 9
    symbols = bytes(24) + _defined(1, code_at, code_end - code_at)
    symbols += _undefined(names.index(b"syscall"))
    image = bytearray(slot + 8)
    for offset, content in (
        (0, _header() + _segments(code_end, slot + 8)),
        (at["symbols"], symbols),
        (at["names"], names),
        (at["hashes"], hashes),
        (at["moves"], struct.pack("<QQq", slot, (2 << 32) | 6, 0)),  # symbol 2, R_X86_64_GLOB_DAT
        (code_at, _CODE + struct.pack("<i", slot - code_end)),
        (_PAGE, _dynamic(at, sizes)),
    ):
        image[offset : offset + len(content)] = content
    return bytes(image)


def _lay_out(start: int, sizes: dict[str, int]) -> dict[str, int]:
    """Offsets of parts, one behind the other, each at a multiple of eight; and of their `end`."""
    places = {}
    for name, size in sizes.items():
        places[name] = start = -(-start // 8) * 8
        start += size
    return {**places, "end": start}


def _header() -> bytes:
    shared_library, x86_64, version = 3, 62, 1
    return b"\x7fELF\2\1\1" + struct.pack(
        "<9xHHIQQQI6H", shared_library, x86_64, version, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0
    )


def _segments(code_end: int, end: int) -> bytes:
    load, dynamic, stack, execute_read, write_read = 1, 2, 0x6474E551, 5, 6
    return b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, start, start, start, size, size, align)
        for kind, flags, start, size, align in (
            (load, execute_read, 0, code_end, _PAGE),
            (load, write_read, _PAGE, end - _PAGE, _PAGE),
            (dynamic, write_read, _PAGE, 16 * 9, 8),
            (stack, write_read, 0, 0, 16),
        )
    )


def _dynamic(at: dict[str, int], sizes: dict[str, int]) -> bytes:
    """DT_HASH, STRTAB, SYMTAB, STRSZ, SYMENT, RELA, RELASZ, RELAENT, NULL."""
    entries = (
        *((4, at["hashes"]), (5, at["names"]), (6, at["symbols"])),
        *((10, sizes["names"]), (11, 24), (7, at["moves"]), (8, 24), (9, 24), (0, 0)),
    )
    return b"".join(struct.pack("<QQ", tag, value) for tag, value in entries)


def _defined(name: int, address: int, size: int) -> bytes:
    return struct.pack("<IBBHQQ", name, 0x12, 0, 1, address, size)  # a global function


def _undefined(name: int) -> bytes:
    """A weak one: a program without the C library is not stopped for lack of it."""
    return struct.pack("<IBBHQQ", name, 0x20, 0, 0, 0, 0)
