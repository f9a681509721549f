"""Trees, sizes and contents by name, from a real object database."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from workers.git import Git, GitFailed
from workers.objects import PathChange, list_changes, list_paths, read_contents, read_sizes

ABSENT = "1" * 40
NOTHING = "0" * 40
CONTENTS = (b"", b"no end", b"two\nlines\n", b"\n\0\n", b"x" * 100_000)


@pytest.fixture
def repo(git: Git, tmp_path: Path) -> Path:
    git.run(["init", "--quiet", "--bare", "--template=", str(tmp_path / "repo.git")])
    return tmp_path / "repo.git"


def stored(git: Git, repo: Path, data: bytes) -> str:
    return git.run(["hash-object", "-w", "--stdin"], git_dir=repo, stdin=data).decode().strip()


def made_tree(git: Git, repo: Path, files: Mapping[bytes, tuple[str, str]]) -> str:
    entries = b"".join(
        b"%s blob %s\t%s\0" % (mode.encode(), sha.encode(), name)
        for name, (mode, sha) in files.items()
    )
    return git.run(["mktree", "-z"], git_dir=repo, stdin=entries).decode().strip()


def test_contents_come_back_as_they_were_stored(git: Git, repo: Path) -> None:
    shas = [stored(git, repo, data) for data in CONTENTS]
    assert read_contents(git, repo, [*shas, shas[0]]) == dict(zip(shas, CONTENTS, strict=True))


def test_nothing_asked_is_nothing_told(git: Git, repo: Path) -> None:
    assert read_contents(git, repo, []) == read_sizes(git, repo, []) == {}


def test_an_object_that_is_not_there_is_no_content(git: Git, repo: Path) -> None:
    shas = [stored(git, repo, b"here"), ABSENT]
    with pytest.raises(GitFailed, match=f"something else than {ABSENT}"):
        read_contents(git, repo, shas)


def test_more_than_the_cap_is_not_taken(git: Git, repo: Path) -> None:
    with pytest.raises(GitFailed, match="more than 50 bytes"):
        read_contents(git, repo, [stored(git, repo, b"x" * 60)], output_cap=50)


def test_sizes_are_those_of_what_is_stored(git: Git, repo: Path) -> None:
    shas = [stored(git, repo, data) for data in CONTENTS]
    assert list(map(read_sizes(git, repo, shas).get, shas)) == [len(data) for data in CONTENTS]


def test_paths_are_bytes_in_gits_order(git: Git, repo: Path) -> None:
    sha = stored(git, repo, b"x")
    tree = made_tree(git, repo, dict.fromkeys((b"b", b"\xff", b"a"), ("100644", sha)))
    assert list_paths(git, repo, tree) == (b"a", b"b", b"\xff")


def test_changes_between_trees_have_any_name_and_both_sides(git: Git, repo: Path) -> None:
    old, new = stored(git, repo, b"old"), stored(git, repo, b"new")
    odd = b"odd\tname\n\xff"
    before = made_tree(git, repo, {odd: ("100644", old), b"gone": ("100644", old)})
    after = made_tree(git, repo, {odd: ("100755", new), b"same": ("120000", old)})
    gone, changed, came = list_changes(git, repo, before, after)
    assert gone == PathChange(b"gone", 0o100644, 0, old, NOTHING)
    assert gone.is_gone
    assert changed == PathChange(odd, 0o100644, 0o100755, old, new)
    assert came == PathChange(b"same", 0, 0o120000, NOTHING, old)
    assert list_changes(git, repo, after, after) == ()


def test_a_name_that_git_would_resolve_is_no_side_of_a_comparison(git: Git, repo: Path) -> None:
    with pytest.raises(ValueError, match="not a full object name"):
        list_changes(git, repo, "HEAD", "1" * 40)
