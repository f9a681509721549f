"""Refs read as files say what git says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.github.git import GitRepo, Identity
from demo.github.refs import read_refs

ME = Identity("me", "me@example.org", 1_700_000_000)
NAMES = ("refs/heads/main", "refs/heads/a/b", "refs/heads/a-b", "refs/heads/ä#@1", "refs/tags/v1")


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    made = GitRepo.create(tmp_path / "repo.git", "main")
    sha = made.commit_tree(made.write_tree(None, ()), (), "one", ME, ME)
    for name in NAMES:
        made.update_ref(name, sha)
    return made


def told_by_git(repo: GitRepo, prefix: str) -> dict[str, str]:
    lines = repo.text("for-each-ref", "--format=%(refname) %(objectname)", prefix).splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


@pytest.mark.parametrize(
    "prefix", ["refs/", "refs/heads/", "refs/heads", "refs/heads/a", "refs/heads/main", "refs/x"]
)
def test_they_are_those_that_git_lists_in_its_order(repo: GitRepo, prefix: str) -> None:
    read = read_refs(repo.path, prefix)
    assert read is not None
    assert list(read.items()) == list(told_by_git(repo, prefix).items())


def test_git_is_asked_where_refs_are_packed(repo: GitRepo) -> None:
    repo.run("pack-refs", "--all")
    assert read_refs(repo.path, "refs/") is None
    assert tuple(sorted(NAMES)) == tuple(repo.refs())
    assert repo.head("a/b") == repo.head("main")


def test_git_is_asked_where_a_ref_is_another_ones_name(repo: GitRepo) -> None:
    repo.run("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    assert read_refs(repo.path, "refs/") is None
    assert repo.head("alias") == repo.head("main")


def test_a_ref_that_is_being_written_is_not_there_yet(repo: GitRepo) -> None:
    (repo.path / "refs/heads/new.lock").touch()
    assert set(read_refs(repo.path, "refs/") or ()) == set(NAMES)


def test_an_annotated_tag_stands_for_its_commit(repo: GitRepo) -> None:
    me = {"GIT_COMMITTER_NAME": "me", "GIT_COMMITTER_EMAIL": "me@example.org"}
    repo.run("tag", "-a", "-m", "two", "v2", "main", environment=me)
    assert repo.commit_sha("v2") == repo.commit_sha("v1") == repo.head("main")


@pytest.mark.parametrize("name", ["nobody", "refs/heads/main~5", "-x", "main..v1"])
def test_a_name_that_is_none_stands_for_nothing(repo: GitRepo, name: str) -> None:
    assert repo.commit_sha(name) is None


def test_an_object_that_comes_later_is_seen_then(repo: GitRepo, tmp_path: Path) -> None:
    other = GitRepo.create(tmp_path / "other.git", "main")
    sha = other.commit_tree(other.write_tree(None, ()), (), "two", ME, ME)
    assert repo.commit_sha(sha) is None
    assert repo.object_type(sha) is None
    other.update_ref("refs/heads/main", sha)
    repo.fetch_from(other, sha)
    assert (repo.commit_sha(sha), repo.object_type(sha)) == (sha, "commit")
