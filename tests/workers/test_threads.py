"""What a run did to one file, with real git."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.report import CommitSummary, RunReport
from app.thread_replies import Touched
from tests.app.test_messages import REPORT
from tests.workers.conftest import Repo, new_repo
from workers.git import Git
from workers.threads import old_ranges, touched_by

ODD = ":(glob)*.py"


@pytest.mark.parametrize(
    ("diff", "ranges"),
    [
        (b"", ()),
        (b"@@ -3 +3 @@ def f():\n-a\n+b\n", ((3, 3),)),
        (b"@@ -3,2 +3 @@\n@@ -9,0 +9,4 @@\n", ((3, 4), (9, 9))),
        (b"@@ -0,0 +1,2 @@\n+@@ -7 +7 @@\n", ((0, 0),)),
    ],
)
def test_ranges_are_lines_of_the_old_file(diff: bytes, ranges: tuple[tuple[int, int], ...]) -> None:
    assert old_ranges(diff) == ranges


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return new_repo(tmp_path / "r.git")


def report_on(repo: Repo) -> RunReport:
    files = {b"a.py": b"1\n2\n3\n4\n", ODD.encode(): b"x\n"}
    base = repo.commit(files)
    first = repo.commit({**files, b"a.py": b"1\n2\nthree\n4\n"}, parents=[base])
    second = repo.commit({b"a.py": b"1\n2\nthree\n4\n", ODD.encode(): b"y\n"}, parents=[first])
    commits = (CommitSummary(first, "First"), CommitSummary(second, "Second"))
    return replace(REPORT, base_sha=base, commits=commits)


def test_the_last_commit_that_changed_the_file_and_where(git: Git, repo: Repo) -> None:
    report = report_on(repo)
    first, second = (commit.sha for commit in report.commits)
    assert touched_by(git, repo.path, report, "a.py") == Touched(first, "First", ((3, 3),))
    assert touched_by(git, repo.path, report, ODD) == Touched(second, "Second", ((1, 1),))


@pytest.mark.parametrize("path", ["b.py", "*.py", ":(glob)a.*", "-p", "a.py/x", "../a.py", ""])
def test_a_path_is_only_ever_a_path(git: Git, repo: Repo, path: str) -> None:
    assert touched_by(git, repo.path, report_on(repo), path) is None
