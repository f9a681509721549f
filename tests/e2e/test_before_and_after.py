"""Tests before the change and after it, and what a pull request says of both."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import FILES, WRONG, Harbour, fix

TESTS = (
    "from calc import add\n\n\ndef test_two():\n    assert add(2, 2) == 4\n\n\n"
    "def test_zero():\n    assert add(1, 0) == 1\n\n\ndef test_other():\n    assert False\n"
)


@pytest.fixture
def suite(tmp_path: Path) -> dict[str, str]:
    """A repository whose tests run by pytest: this process's own, as the machine has none."""
    program = tmp_path / "pytest"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -B -m pytest -p no:cacheprovider "$@"\n')
    program.chmod(0o755)
    config = f"test: {program} -q\n"
    return {"calc.py": WRONG, "test_calc.py": TESTS, ".github/drydock.yml": config}


def body_for(harbour: Harbour, name: str, files: dict[str, str]) -> str:
    issue = harbour.labels(harbour.opens(harbour.makes_repo(name, files)))
    return harbour.pull_of(issue).body or ""


def test_counts_are_given_before_and_after_and_old_failures_are_told_apart(
    make_harbour: MakeHarbour, suite: dict[str, str]
) -> None:
    body = body_for(make_harbour(), "suite", suite)
    assert "(2 passed, 1 failed)" in body
    assert "Before the change it exited with 1" in body
    assert "(1 passed, 2 failed)" in body
    assert "- Failing before as well: `test_calc::test_other`" in body
    assert "Broken by this change" not in body


def test_what_the_change_broke_is_named(make_harbour: MakeHarbour, suite: dict[str, str]) -> None:
    worse = "def add(a, b):\n    return 7\n"
    body = body_for(make_harbour(fix(new=worse)), "worse", suite)
    assert "- Broken by this change: `test_calc::test_zero`" in body


def test_a_base_is_tested_once(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour()
    harbour.labels()
    kept = list((harbour.services.settings.state_dir / "base-tests").glob("*.json"))
    assert len(kept) == 1
    at = kept[0].stat().st_mtime_ns
    harbour.labels(harbour.opens(harbour.repo, "add() is still wrong"))
    assert kept[0].stat().st_mtime_ns == at
    said = [pull.body or "" for pull in harbour.repo.pulls]
    assert len(said) == 2
    assert all("Before the change it exited with 1" in body for body in said)


def test_where_history_is_conventional_the_title_is_too(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour()
    repo = harbour.makes_repo("conventional", FILES)
    for number in range(6):
        repo.commit({f"f{number}": str(number)}, message=f"feat: Add f{number}")
    issue = harbour.labels(harbour.opens(repo))
    assert harbour.pull_of(issue).title == "fix: add() subtracts"
