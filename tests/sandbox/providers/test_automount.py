"""The library that clears one flag: its bytes, and what it does to real programs of this host."""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
import platform
import shutil
import stat
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from sandbox.provider import ProviderFailed
from sandbox.providers.automount import (
    LIBRARY,
    PROGRAMS,
    install,
    library,
    replacement,
    script,
)

AGENT_DIR = "/run/drydock"
_PROGRAM = "<IIQQQQQQ"
LOAD, DYNAMIC = 1, 2
EXECUTE, WRITE, READ = 1, 2, 4
HASH, STRTAB, SYMTAB, RELA, RELASZ, RELAENT = 4, 5, 6, 7, 8, 9
AT_FDCWD = 2**32 - 100
on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is x86-64's")


def make_rootfs(root: Path, names: tuple[str, ...] = PROGRAMS) -> Path:
    for path in ("lib64/ld-linux-x86-64.so.2", *(f"usr/bin/{name}" for name in names)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    return root


def traced(path: Path, *command: str) -> tuple[int, str]:
    """The exit status and the calls of statx of a command that has the library in front."""
    tracer, log = shutil.which("strace"), path.parent / "trace"
    if tracer is None:
        pytest.skip("strace is not installed")
    argv = [tracer, "-o", str(log), "-e", "trace=statx", *command]
    done = subprocess.run(argv, env={"LD_PRELOAD": str(path)}, check=False, capture_output=True)
    return done.returncode, log.read_text()


class Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    align: int


class Symbol(NamedTuple):
    number: int
    info: int
    visibility: int
    section: int
    address: int
    size: int


def segments(image: bytes) -> list[Segment]:
    """The program headers (ELF gABI, "Program Header")."""
    start, size, count = struct.unpack_from("<32xQ14xHH", image)
    return [Segment(*struct.unpack_from(_PROGRAM, image, start + size * n)) for n in range(count)]


def dynamic(image: bytes) -> dict[int, int]:
    """The dynamic section: tag → value, up to DT_NULL. Addresses are offsets in this library."""
    (table,) = (part for part in segments(image) if part.kind == DYNAMIC)
    pairs = struct.iter_unpack("<QQ", image[table.offset : table.offset + table.file_size])
    return dict(itertools.takewhile(lambda pair: pair[0] != 0, pairs))


def symbols(image: bytes) -> dict[str, Symbol]:
    """The dynamic symbols by name; their number is the second word of the hash table."""
    tags = dynamic(image)
    (count,) = struct.unpack_from("<4xI", image, tags[HASH])
    found = {}
    for number in range(count):
        name, *rest = struct.unpack_from("<IBBHQQ", image, tags[SYMTAB] + 24 * number)
        text = image[tags[STRTAB] + name :].split(b"\0", 1)[0].decode()
        found[text] = Symbol(number, *rest)
    return found


def asked_of_the_c_library(call: tuple[int, ...]) -> tuple[int, ...]:
    """Run the code of `statx` in memory, with a recorder where the loader writes `syscall`."""
    heard: list[tuple[int, ...]] = []
    recorder = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_ulong] * 6)(
        lambda *arguments: heard.append(arguments) or 77
    )
    image = bytearray(library())
    (slot, _, _) = struct.unpack_from("<QQq", image, dynamic(bytes(image))[RELA])
    image[slot : slot + 8] = ctypes.cast(recorder, ctypes.c_void_p).value.to_bytes(8, "little")
    with mmap.mmap(-1, len(image), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as room:
        room[:] = bytes(image)
        start = ctypes.c_char.from_buffer(room)
        code = ctypes.addressof(start) + symbols(bytes(image))["statx"].address
        answer = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_ulong] * 5)(code)(*call)
        del start
    assert answer == 77, "the answer of the kernel is handed on"
    return heard[0]


class TestTheLibrary:
    def test_it_is_a_shared_library_of_x86_64(self) -> None:
        ident, kind, machine = struct.unpack_from("<7s9xHH", library())
        assert (ident, kind, machine) == (b"\x7fELF\2\1\1", 3, 62)

    def test_no_segment_is_both_writable_and_executable(self) -> None:
        assert [part.flags for part in segments(library())] == [READ | EXECUTE, *[READ | WRITE] * 3]

    def test_every_segment_lies_in_the_file_and_pages_are_not_shared(self) -> None:
        parts = segments(library())
        assert all(part.offset == part.address for part in parts)
        assert all(part.offset + part.file_size <= len(library()) for part in parts)
        code, data = (part for part in parts if part.kind == LOAD)
        assert (code.offset + code.file_size - 1) // 4096 < data.offset // 4096

    def test_it_gives_statx_and_wants_syscall_and_names_nothing_else(self) -> None:
        found = symbols(library())
        assert list(found) == ["", "statx", "syscall"]
        code = segments(library())[0]
        statx, syscall = found["statx"], found["syscall"]
        assert code.address <= statx.address < statx.address + statx.size == code.file_size
        assert (syscall.section, syscall.address) == (0, 0), "undefined: the C library has it"

    def test_its_one_relocation_puts_the_address_of_syscall_where_the_code_looks(self) -> None:
        image = library()
        tags, found = dynamic(image), symbols(image)
        assert tags[RELASZ] == tags[RELAENT] == 24
        slot, info, addend = struct.unpack_from("<QQq", image, tags[RELA])
        assert (info >> 32, info & 0xFFFFFFFF, addend) == (found["syscall"].number, 6, 0)
        end = found["statx"].address + found["statx"].size
        assert end + struct.unpack_from("<i", image, end - 4)[0] == slot

    @on_x86_64
    @pytest.mark.parametrize("others", [0, 0x100, 0x1900, 0x6100])
    def test_the_flag_is_cleared_and_all_else_is_handed_on(self, others: int) -> None:
        call = (AT_FDCWD, 0x1122334455667788, others | 0x800, 0xFFF, 0x7766554433221100)
        sent = asked_of_the_c_library(call)
        assert ctypes.c_long(sent[1]).value == -100
        assert (sent[0], *sent[2:]) == (332, call[1], others & ~0x800, call[3], call[4])

    @on_x86_64
    def test_the_loader_of_this_host_takes_it(self, tmp_path: Path) -> None:
        path = tmp_path / LIBRARY
        path.write_bytes(library())
        statx = ctypes.CDLL(str(path), use_errno=True).statx
        result = ctypes.create_string_buffer(256)
        assert statx(-100, str(path).encode(), 0x800, 0xFFF, result) == 0
        assert struct.unpack_from("<40xQ", result)[0] == len(library())
        assert statx(-100, b"/gone", 0x800, 0xFFF, result) == -1
        assert ctypes.get_errno() == errno.ENOENT

    @on_x86_64
    @pytest.mark.parametrize("program", PROGRAMS)
    def test_programs_of_this_host_ask_without_the_flag(self, program: str, tmp_path: Path) -> None:
        path = tmp_path / LIBRARY
        path.write_bytes(library())
        code, calls = traced(path, f"/usr/bin/{program}", str(tmp_path))
        assert code == 0
        assert "statx(" in calls
        assert "AT_NO_AUTOMOUNT" not in calls

    @on_x86_64
    def test_the_error_of_the_kernel_still_arrives(self, tmp_path: Path) -> None:
        path = tmp_path / LIBRARY
        path.write_bytes(library())
        argv = ["/usr/bin/stat", str(tmp_path / "gone")]
        environment = {"LD_PRELOAD": str(path), "LC_ALL": "C"}
        done = subprocess.run(argv, env=environment, check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert "No such file or directory" in done.stderr


class TestInstalling:
    def test_it_writes_the_library_and_one_script_for_each_program(self, tmp_path: Path) -> None:
        folder = install(tmp_path, AGENT_DIR)
        assert sorted(path.name for path in folder.iterdir()) == sorted([LIBRARY, *PROGRAMS])
        assert (folder / LIBRARY).read_bytes() == library()
        for name in PROGRAMS:
            assert (folder / name).read_text() == script(name, AGENT_DIR)
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o755

    def test_a_state_directory_that_is_a_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "gvisor").write_text("")
        with pytest.raises(ProviderFailed, match="gvisor"):
            install(tmp_path, AGENT_DIR)


class TestWhatAMachineNeeds:
    def test_the_templates_own_programs_are_copied_and_scripts_stand_in_their_place(
        self, tmp_path: Path
    ) -> None:
        rootfs = make_rootfs(tmp_path / "rootfs")
        needed = replacement(tmp_path, rootfs, AGENT_DIR)
        assert needed is not None
        folder = install(tmp_path, AGENT_DIR)
        assert needed.binds == {f"/usr/bin/{name}": str(folder / name) for name in PROGRAMS}
        assert needed.copies == {
            f"agent/{LIBRARY}": str(folder / LIBRARY),
            "agent/gnu-ls": str(rootfs / "usr/bin/ls"),
            "agent/gnu-stat": str(rootfs / "usr/bin/stat"),
        }

    def test_a_template_of_another_kind_is_left_alone(self, tmp_path: Path) -> None:
        assert replacement(tmp_path, tmp_path / "none", AGENT_DIR) is None
        assert replacement(tmp_path, make_rootfs(tmp_path, ("ls",)), AGENT_DIR) is None

    def test_a_script_keeps_the_name_that_messages_begin_with(self) -> None:
        assert script("ls", "/run/drydock") == (
            "#!/bin/sh\n"
            "exec /lib64/ld-linux-x86-64.so.2 --argv0 ls --preload /run/drydock/no_automount.so "
            '/run/drydock/gnu-ls "$@"\n'
        )
