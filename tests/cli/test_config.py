from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import drydock


def check(*arguments: str | Path) -> Result:
    return CliRunner().invoke(drydock, ["config", "check", *map(str, arguments)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / ".github" / "drydock.yml"
    found.parent.mkdir()
    return found


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRYDOCK_STATE_DIR", str(tmp_path / "state"))
    found = tmp_path / "drydock.toml"
    found.write_text('model = "openai/big"\nttl_minutes = 30\n')
    return found


def test_a_right_file_ends_with_0(path: Path) -> None:
    path.write_text("test: make test\nttl: 2h\n")
    done = check(path)
    assert (done.exit_code, done.output) == (0, f"{path}: right\n")


def test_a_repositorys_folder_will_do(path: Path) -> None:
    path.write_text("test: make test\n")
    assert check(path.parents[1]).exit_code == 0


def test_every_problem_has_a_line_of_its_own_and_the_end_is_1(path: Path) -> None:
    path.write_text("# ours\ntset: make test\ndraft: maybe\n")
    done = check(path)
    assert done.exit_code == 1
    assert done.output.splitlines() == [
        f"{path}:2: unknown key tset; did you mean test?",
        f"{path}:3: draft must be true, false or auto",
    ]


def test_json_names_the_problems_or_the_keys_that_are_set(path: Path) -> None:
    path.write_text("tset: a\n")
    shown = json.loads(check("--json", path).output)
    problem = {"reason": "unknown key tset", "line": 1, "nearest": "test"}
    assert shown == {"path": str(path), "ok": False, "problems": [problem], "config": None}
    path.write_text("ttl: 2h\nreviewers: mona\n")
    shown = json.loads(check("--json", path).output)
    assert (shown["ok"], shown["config"]) == (True, {"ttl": 7200.0, "reviewers": ["mona"]})


def test_the_operators_limits_count_where_they_are_given(path: Path, operator: Path) -> None:
    path.write_text("ttl: 45m\nmodel: openai/bog\ntemplate: none\n")
    assert check(path).exit_code == 0
    done = check("--config", operator, path)
    assert done.exit_code == 1
    assert f"{path}:1: ttl can be 30 minutes at most here" in done.output
    assert f"{path}:2: model can be one of: openai/big" in done.output
    assert "did you mean openai/big?" in done.output
    assert f"{path}:3: template can be one of: none (those baked here)" in done.output


def test_an_endless_file_is_not_read_to_its_end() -> None:
    done = check(Path("/dev/zero"))
    assert done.exit_code == 1
    assert "larger than 64 KiB" in done.output


def test_wrong_use_ends_with_2(tmp_path: Path) -> None:
    assert check().exit_code == 2
    assert check(tmp_path / "gone.yml").exit_code == 2
    assert CliRunner().invoke(drydock, ["config", "chekc"]).exit_code == 2


def test_a_folder_without_the_file_ends_with_1(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.exit_code == 1
    assert "cannot be read: No such file" in done.output
