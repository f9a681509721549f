"""Owners and authors, read from a mirror."""

from __future__ import annotations

from pathlib import Path

from app.report import Suggestion
from tests.workers.conftest import ENV, Files, Node, Repo, new_repo
from workers.git import Git
from workers.inspection import Passed
from workers.reviewers import suggest_reviewers

FILES: Files = {b"a.py": b"1", b"b.py": b"1", b"c\xe9.py": b"1"}


class Yard:
    """A mirror with some history, and a change of both files on it."""

    def __init__(self, root: Path, git: Git, files: Files) -> None:
        self.git = git
        self.mirror = new_repo(root / "mirror.git")
        first = self.mirror.commit(files)
        tree = self.mirror.tree({**files, b"a.py": b"2"})
        self.base = by(self.mirror, "zoe", tree, first)
        head = self.mirror.commit({b"a.py": b"3", b"b.py": b"3", b"c\xe9.py": b"3"})
        self.passed = Passed(self.mirror.path, head, (), "", "", ())

    def suggested(self) -> tuple[Suggestion, ...]:
        return suggest_reviewers(self.git, self.mirror.path, self.passed, self.base, "mona")


def by(repo: Repo, login: str, tree: str, parent: str) -> str:
    env = {**ENV, "GIT_AUTHOR_EMAIL": f"7+{login}@users.noreply.github.com"}
    return repo.git("commit-tree", tree, "-p", parent, stdin=b"Change\n", env=env)


def test_owners_and_authors_of_the_changed_files_are_named(tmp_path: Path, git: Git) -> None:
    files = {**FILES, b"docs/CODEOWNERS": b"*.py @ada\n"}
    assert Yard(tmp_path, git, files).suggested() == (
        # What has no name in UTF-8 is not counted; the file of owners itself has none.
        Suggestion("ada", "owns 2 of 3 files"),
        Suggestion("zoe", "changed them once"),
    )


def test_the_first_file_of_owners_counts(tmp_path: Path, git: Git) -> None:
    files = {**FILES, b"CODEOWNERS": b"* @bob\n", b".github/CODEOWNERS": b"* @ada\n"}
    assert [who.name for who in Yard(tmp_path, git, files).suggested()] == ["ada", "zoe"]


def test_a_link_in_place_of_the_file_names_nobody(tmp_path: Path, git: Git) -> None:
    files = {**FILES, b"CODEOWNERS": Node("120000", b"/etc/passwd")}
    assert [who.name for who in Yard(tmp_path, git, files).suggested()] == ["zoe"]


def test_a_git_that_cannot_tell_ends_nothing(tmp_path: Path, git: Git) -> None:
    yard = Yard(tmp_path, git, FILES)
    assert suggest_reviewers(git, tmp_path / "gone.git", yard.passed, yard.base, "mona") == ()


def test_without_owners_or_known_authors_nobody_is_suggested(tmp_path: Path, git: Git) -> None:
    yard = Yard(tmp_path, git, FILES)
    first = yard.mirror.read(f"{yard.base}^")
    assert suggest_reviewers(git, yard.mirror.path, yard.passed, first, "mona") == ()
