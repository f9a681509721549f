"""Folders that are named by what is in them."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from sandbox.provider import ProviderFailed
from sandbox.providers.kept_files import keep


def test_files_are_written_for_anyone_to_read_and_run(tmp_path: Path) -> None:
    folder = keep(tmp_path / "kept", {"a": b"1", "b": b"2"})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a": b"1", "b": b"2"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o755}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_a_second_time_leaves_all_as_it_is(tmp_path: Path) -> None:
    first = keep(tmp_path, {"a": b"1"})
    written = first.stat().st_mtime_ns
    assert keep(tmp_path, {"a": b"1"}) == first
    assert first.stat().st_mtime_ns == written
    assert list(tmp_path.iterdir()) == [first]


def test_other_content_or_another_name_has_another_folder(tmp_path: Path) -> None:
    folders = {
        keep(tmp_path, {"a": b"1"}),
        keep(tmp_path, {"a": b"2"}),
        keep(tmp_path, {"b": b"1"}),
    }
    assert len(folders) == 3


def test_what_another_process_made_meanwhile_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def be_second(made: Path, target: Path) -> Path:
        shutil.copytree(made, target)
        return rename(made, target)

    monkeypatch.setattr(Path, "rename", be_second)
    folder = keep(tmp_path, {"a": b"1"})
    assert (folder / "a").read_bytes() == b"1"
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    with pytest.raises(ProviderFailed, match="kept"):
        keep(tmp_path / "kept", {"a": b"1"})
