"""Counts of tests: how pytest is asked for them, and how its report is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.report import TestResult, TestTally
from workers import base_tests
from workers.base_tests import BaseKey
from workers.dock import Commands
from workers.junit import argv, parse_tally

TESTS = """
import pytest


def test_good():
    pass


def test_bad():
    assert 1 == 2


@pytest.mark.skip
def test_skipped():
    pass


@pytest.fixture
def broken():
    raise ValueError


def test_error(broken):
    pass
"""


@pytest.mark.parametrize(
    "command",
    ["pytest", "python3 -m pytest -q", "cd sub && pytest -x", ".venv/bin/pytest", "a; py.test"],
)
def test_a_command_that_names_pytest_is_asked_for_a_report(command: str) -> None:
    assert argv(command) is not None


@pytest.mark.parametrize("command", ["make test", "npm test", "pytester", "python3 pytest_x.py"])
def test_another_command_is_left_as_it_is(command: str) -> None:
    assert argv(command) is None


def test_pytest_leaves_its_report_beside_the_repository_and_its_options_count(
    tmp_path: Path,
) -> None:
    repo = tmp_path / "a place" / "repo"
    (repo.parent / "job").mkdir(parents=True)
    (repo / "sub").mkdir(parents=True)
    (repo / "sub" / "test_it.py").write_text(TESTS)
    command = argv(f"cd sub && '{sys.executable}' -m pytest -q -p no:cacheprovider")
    assert command is not None
    env = {"PATH": os.environ["PATH"], "PYTEST_ADDOPTS": "-p no:randomly"}
    done = subprocess.run(command, cwd=repo, env=env, capture_output=True, check=False)
    assert done.returncode == 1
    assert sorted(path.name for path in repo.iterdir()) == ["sub"]
    tally = parse_tally((repo.parent / "job" / "tests.xml").read_bytes())
    assert tally is not None
    assert (tally.passed, tally.failed, tally.skipped) == (1, 2, 1)
    assert [name.rpartition("::")[2] for name in tally.failing] == ["test_bad", "test_error"]


def test_a_report_with_declarations_is_not_read() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY x "y">]><testsuites><testcase name="&x;"/></testsuites>'
    assert parse_tally(bomb) is None


@pytest.mark.parametrize("data", [b"", b"<html/>", b"<testsuite>", b"\xff\xfe", b"<testsuite/>x"])
def test_what_is_no_report_gives_no_counts(data: bytes) -> None:
    assert parse_tally(data) is None


@given(st.binary(max_size=200))
def test_any_bytes_give_counts_or_none(data: bytes) -> None:
    parse_tally(data)
    parse_tally(b"<testsuite><testcase>" + data)


def test_names_in_a_report_are_cleaned() -> None:
    data = '<testsuite><testcase name="a\u202eb"><failure/></testcase></testsuite>'.encode()
    assert parse_tally(data) == TestTally(0, 1, 0, ("a\\u202eb",))


KEY = BaseKey(1, "a" * 40, "digest", Commands(test="pytest"))


def test_a_bases_result_is_kept_for_exactly_what_it_depends_on(tmp_path: Path) -> None:
    result = TestResult("pytest", 1, 2.5, tally=TestTally(3, 1, 0, ("a::b",)))
    assert base_tests.find(tmp_path, KEY) is None
    base_tests.keep(tmp_path, KEY, result)
    assert base_tests.find(tmp_path, KEY) == result
    for other in (
        BaseKey(2, KEY.base_sha, KEY.template, KEY.commands),
        BaseKey(1, "b" * 40, KEY.template, KEY.commands),
        BaseKey(1, KEY.base_sha, "other", KEY.commands),
        BaseKey(1, KEY.base_sha, KEY.template, Commands(("pip install .",), "pytest")),
    ):
        assert base_tests.find(tmp_path, other) is None


def test_a_result_that_a_timeout_ended_is_not_kept(tmp_path: Path) -> None:
    base_tests.keep(tmp_path, KEY, TestResult("pytest", None, 600.0, timed_out=True))
    assert base_tests.find(tmp_path, KEY) is None


def test_the_oldest_results_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_tests, "KEPT", 2)
    keys = [BaseKey(number, "a" * 40, "t", Commands()) for number in range(3)]
    for number, key in enumerate(keys):
        base_tests.keep(tmp_path, key, TestResult("pytest", 0, 1.0))
        path = tmp_path / "base-tests" / f"{key.name()}.json"
        if path.exists():
            os.utime(path, (number, number))
    assert base_tests.find(tmp_path, keys[0]) is None
    assert base_tests.find(tmp_path, keys[2]) is not None
