"""Where the demo and the benchmark keep their files."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from cli.demo import fresh_folder


def test_what_an_earlier_one_left_is_thrown_away(tmp_path: Path) -> None:
    with fresh_folder(tmp_path / "demo", tmp_path) as folder:
        (folder / "drydock.log").touch()
        (folder / "state/runs").mkdir()
    with fresh_folder(folder, tmp_path):
        assert [path.name for path in folder.rglob("*")] == ["state", "templates"]


def test_what_another_one_is_at_work_in_is_left_alone(tmp_path: Path) -> None:
    with fresh_folder(tmp_path / "demo", tmp_path) as folder:
        (folder / "drydock.log").touch()
        with (
            pytest.raises(click.ClickException, match="another one is at work"),
            fresh_folder(folder, tmp_path),
        ):
            pass
        assert (folder / "drydock.log").exists()


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    with fresh_folder(tmp_path / "demo", tmp_path) as folder:
        assert (folder / "state/templates").is_symlink()


@pytest.mark.parametrize("name", ["mine", "state/runs.txt"])
def test_a_folder_that_holds_anything_else_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "home" / name
    path.parent.mkdir(parents=True)
    path.touch()
    assert_refused(tmp_path / "home", tmp_path)
    assert path.exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert_refused(tmp_path / "file", tmp_path)
    assert (tmp_path / "file").exists()


def assert_refused(folder: Path, state_dir: Path) -> None:
    with (
        pytest.raises(click.ClickException, match="holds something else"),
        fresh_folder(folder, state_dir),
    ):
        pass
