"""What every provider promises of files and trees, in and out. See `sandbox.provider`."""

from __future__ import annotations

import io
import secrets
import tarfile

import pytest

from sandbox.machine import Machine
from sandbox.provider import WORK_DIR, GuestMisbehaved, GuestUser, Provider, Sandbox
from tests.contract.conftest import MakeMachine
from tests.contract.inside import python, sh


class TestFiles:
    def test_twenty_megabytes_come_back_as_they_were(self, shared: Machine) -> None:
        data = secrets.token_bytes(20_000_000)
        shared.write_file(f"{WORK_DIR}/large", data)
        assert shared.read_file(f"{WORK_DIR}/large") == data

    def test_a_file_is_streamed_in_and_out(self, shared: Machine) -> None:
        data = secrets.token_bytes(300_000)
        shared.write_file(f"{WORK_DIR}/streamed", io.BytesIO(data))
        into = io.BytesIO()
        assert shared.copy_out(f"{WORK_DIR}/streamed", into) == len(data)
        assert into.getvalue() == data

    def test_an_empty_file(self, shared: Machine) -> None:
        shared.write_file(f"{WORK_DIR}/empty", b"")
        assert shared.read_file(f"{WORK_DIR}/empty") == b""

    def test_parents_mode_and_owner(self, isolating: Provider, shared: Machine) -> None:
        shared.write_file(f"{WORK_DIR}/parent/b/c.sh", b"#!/bin/sh\n", mode=0o755)
        assert _mode_and_owner(shared, f"{WORK_DIR}/parent/b/c.sh") == "755 1000\n"
        assert _mode_and_owner(shared, f"{WORK_DIR}/parent/b") == "755 1000\n"
        shared.write_file(f"{WORK_DIR}/by-root", b"", mode=0o600, user=GuestUser.ROOT)
        assert _mode_and_owner(shared, f"{WORK_DIR}/by-root") == "600 0\n"

    def test_a_file_replaces_what_was_there_and_leaves_nothing_else(self, shared: Machine) -> None:
        sh(shared, "mkdir -p r; echo old > r/target; ln -sf target r/link")
        shared.write_file(f"{WORK_DIR}/r/link", b"new")
        assert shared.read_file(f"{WORK_DIR}/r/link") == b"new"
        assert shared.read_file(f"{WORK_DIR}/r/target") == b"old\n"
        assert sh(shared, "cd r && printf '%s\\n' .* *").split() == [".", "..", "link", "target"]

    def test_work_may_not_write_what_is_roots(self, isolating: Provider, shared: Machine) -> None:
        with pytest.raises(OSError, match=r"Permission denied|Read-only"):
            shared.write_file("/etc/planted", b"")

    def test_a_missing_file(self, shared: Machine) -> None:
        with pytest.raises(FileNotFoundError, match="no-such"):
            shared.read_file(f"{WORK_DIR}/no-such")

    def test_a_path_must_be_absolute(self, shared: Machine) -> None:
        with pytest.raises(ValueError, match="absolute"):
            shared.read_file("work")

    def test_only_regular_files_are_read(self, shared: Machine) -> None:
        sh(shared, "mkdir -p odd; cd odd; rm -f *; mkfifo fifo; ln -s /etc/passwd symlink")
        for name in ("fifo", "symlink"):
            with pytest.raises(OSError, match=name):
                shared.read_file(f"{WORK_DIR}/odd/{name}")
        with pytest.raises(IsADirectoryError):
            shared.read_file(f"{WORK_DIR}/odd")

    def test_a_folder_is_not_replaced_by_a_file(self, shared: Machine) -> None:
        sh(shared, "mkdir -p folder")
        with pytest.raises(IsADirectoryError):
            shared.write_file(f"{WORK_DIR}/folder", b"x")

    def test_a_file_beyond_the_limit_ends_the_machine(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        machine.write_file(f"{WORK_DIR}/f", bytes(1001))
        with pytest.raises(GuestMisbehaved, match="larger"):
            machine.read_file(f"{WORK_DIR}/f", max_bytes=1000)
        with pytest.raises(GuestMisbehaved):
            machine.exec(["true"])

    def test_a_full_disk_is_an_error_and_not_the_end(
        self, isolating: Provider, make_machine: MakeMachine
    ) -> None:
        machine = make_machine(disk_mib=16)
        with pytest.raises(OSError, match=r"No space|too large"):
            machine.write_file(f"{WORK_DIR}/f", bytes(20 * 1024 * 1024))
        result = machine.exec(["sh", "-c", "head -c 20000000 /dev/zero > a"])
        assert result.stderr
        assert machine.exec(["rm", "-f", f"{WORK_DIR}/a"]).exit_code == 0

    def test_a_tree_goes_in_and_out(self, shared: Machine) -> None:
        members = {"top.txt": b"1", "deep/er/file": secrets.token_bytes(200_000)}
        shared.write_tree(f"{WORK_DIR}/tree/in", io.BytesIO(_tar(members)))
        assert shared.read_file(f"{WORK_DIR}/tree/in/top.txt") == b"1"
        into = io.BytesIO()
        size = shared.read_tree(f"{WORK_DIR}/tree/in", into)
        assert size == len(into.getvalue())
        assert _untar(into.getvalue()) == members

    def test_an_unpacked_tree_belongs_to_work(self, isolating: Provider, shared: Machine) -> None:
        shared.write_tree(f"{WORK_DIR}/owned", io.BytesIO(_tar({"f": b""})))
        assert _mode_and_owner(shared, f"{WORK_DIR}/owned/f").endswith(" 1000\n")

    def test_a_broken_tar_is_an_error(self, shared: Machine) -> None:
        with pytest.raises(OSError, match="unpacking"):
            shared.write_tree(f"{WORK_DIR}/broken", io.BytesIO(b"x" * 2000))

    def test_a_missing_tree(self, shared: Machine) -> None:
        with pytest.raises(FileNotFoundError):
            shared.read_tree(f"{WORK_DIR}/no-such-tree", io.BytesIO())


def _mode_and_owner(machine: Sandbox, path: str) -> str:
    script = "import os, sys; s = os.stat(sys.argv[1]); print('%o' % (s.st_mode & 0o777), s.st_uid)"
    return python(machine, script, path)


def _tar(members: dict[str, bytes]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return into.getvalue()


def _untar(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = [member for member in tar if member.isfile()]
        return {m.name.removeprefix("./"): tar.extractfile(m).read() for m in files}  # type: ignore[union-attr]
