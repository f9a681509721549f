"""Commits on a branch that moved on, with real git."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.report import CommitSummary
from tests.workers.conftest import Repo, new_repo
from tests.workers.test_recreate import SIGNATURE
from workers.git import Git
from workers.rebase import Conflict, fetch_head, merge_trees, rebase, revert

LINES = b"".join(b"line %d\n" % n for n in range(20))


def changed(*numbers: int, to: bytes = b"changed") -> bytes:
    lines = LINES.split(b"\n")
    for number in numbers:
        lines[number] = to
    return b"\n".join(lines)


class Moved:
    """A base, two commits of ours on it, and a head that somebody pushed meanwhile."""

    def __init__(self, git: Git, path: Path, theirs: dict[bytes, bytes]) -> None:
        self.git, self.repo = git, new_repo(path)
        self.base = self.repo.commit({b"a.txt": LINES, b"b.txt": b"b\n"})
        first = self.repo.commit({b"a.txt": changed(3), b"b.txt": b"b\n"}, parents=[self.base])
        second = self.repo.commit(
            {b"a.txt": changed(3, 4), b"b.txt": b"b\n", b"c.txt": b"c\n"}, parents=[first]
        )
        self.ours = tuple(CommitSummary(sha, "x") for sha in (first, second))
        self.head = self.repo.commit(theirs, parents=[self.base])

    def rebased(self) -> dict[str, str] | Conflict:
        return rebase(self.git, self.repo.path, self.base, self.ours, self.head)

    def read(self, sha: str, path: str) -> bytes:
        return self.repo.raw("cat-file", "blob", f"{sha}:{path}")


def test_each_commit_is_made_again_on_the_new_head(git: Git, tmp_path: Path) -> None:
    moved = Moved(git, tmp_path / "r.git", {b"a.txt": changed(15), b"b.txt": b"b2\n"})
    made = moved.rebased()
    assert isinstance(made, dict)
    first, second = (made[commit.sha] for commit in moved.ours)
    assert moved.repo.read(f"{first}^") == moved.head
    assert moved.repo.read(f"{second}^") == first
    assert moved.read(first, "a.txt") == changed(3, 15)
    assert moved.read(second, "a.txt") == changed(3, 4, 15)
    assert (moved.read(second, "b.txt"), moved.read(second, "c.txt")) == (b"b2\n", b"c\n")


def test_a_change_does_not_follow_its_file_to_a_name_that_the_gate_never_saw(
    git: Git, tmp_path: Path
) -> None:
    theirs = {b".github/workflows/a.yml": LINES, b"b.txt": b"b\n"}
    assert Moved(git, tmp_path / "r.git", theirs).rebased() == Conflict()


def test_author_date_and_message_stay_so_that_a_second_time_gives_the_same(
    git: Git, tmp_path: Path
) -> None:
    moved = Moved(git, tmp_path / "r.git", {b"a.txt": changed(15), b"b.txt": b"b\n"})
    made = moved.rebased()
    assert isinstance(made, dict)
    for old, new in made.items():
        parts = [moved.repo.git("log", "-1", "--format=%an|%ae|%at|%ct|%B", s) for s in (old, new)]
        assert parts[0] == parts[1]
    assert moved.rebased() == made


@pytest.mark.parametrize(
    "theirs",
    [
        {b"a.txt": changed(4, to=b"theirs"), b"b.txt": b"b\n"},
        {b"b.txt": b"b\n"},
        {b"a.txt": LINES, b"b.txt": b"b\n", b"c.txt": b"another\n"},
    ],
    ids=["same-line", "deleted", "both-added"],
)
def test_what_both_changed_is_a_conflict_and_never_guessed(
    git: Git, tmp_path: Path, theirs: dict[bytes, bytes]
) -> None:
    assert moved_conflict(Moved(git, tmp_path / "r.git", theirs))


def moved_conflict(moved: Moved) -> bool:
    return moved.rebased() == Conflict()


def test_a_change_that_is_there_already_stays_as_an_empty_commit(git: Git, tmp_path: Path) -> None:
    moved = Moved(git, tmp_path / "r.git", {b"a.txt": changed(3), b"b.txt": b"b\n"})
    made = moved.rebased()
    assert isinstance(made, dict)
    first = made[moved.ours[0].sha]
    assert moved.repo.read(f"{first}^{{tree}}") == moved.repo.read(f"{moved.head}^{{tree}}")


def test_no_attribute_of_the_repository_decides_a_merge(git: Git, tmp_path: Path) -> None:
    theirs = {
        b"a.txt": changed(4, to=b"theirs"),
        b"b.txt": b"b\n",
        b".gitattributes": b"* merge=union\n",
    }
    assert moved_conflict(Moved(git, tmp_path / "r.git", theirs))


def test_a_revert_takes_back_exactly_what_was_pushed(git: Git, tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "r.git")
    before = repo.commit({b"a.txt": LINES})
    pushed = repo.commit({b"a.txt": changed(3), b"new.txt": b"n\n"}, parents=[before])
    head = repo.commit({b"a.txt": changed(3, 15), b"new.txt": b"n\n"}, parents=[pushed])
    sha = revert(git, repo.path, head, (before, pushed), "Take it back\n", SIGNATURE)
    assert isinstance(sha, str)
    assert repo.read(f"{sha}^") == head
    assert repo.raw("cat-file", "blob", f"{sha}:a.txt") == changed(15)
    assert repo.git("ls-tree", "--name-only", sha) == "a.txt"
    assert repo.git("log", "-1", "--format=%an <%ae>: %s", sha) == (
        "drydock[bot] <bot@example.com>: Take it back"
    )


def test_a_revert_of_lines_that_were_changed_since_is_a_conflict(git: Git, tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "r.git")
    before = repo.commit({b"a.txt": LINES})
    pushed = repo.commit({b"a.txt": changed(3)}, parents=[before])
    head = repo.commit({b"a.txt": changed(3, to=b"once more")}, parents=[pushed])
    assert revert(git, repo.path, head, (before, pushed), "x", SIGNATURE) == Conflict()


def test_the_present_tip_is_brought_or_said_to_be_gone(
    git: Git, tmp_path: Path, server_repo: Repo
) -> None:
    into = new_repo(tmp_path / "q.git")
    url = server_repo.path.as_uri()
    assert fetch_head(git, into.path, url, None, "main") == server_repo.read("refs/heads/main")
    assert fetch_head(git, into.path, url, None, "gone") is None


def test_a_git_that_cannot_merge_trees_is_told_from_a_broken_one(git: Git, tmp_path: Path) -> None:
    repo = new_repo(tmp_path / "r.git")
    one = repo.commit({b"a.txt": b"1\n"})
    tree = merge_trees(git, repo.path, base=one, ours=one, theirs=one)
    assert tree == repo.read(f"{one}^{{tree}}")
