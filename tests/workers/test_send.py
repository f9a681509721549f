"""The branch that takes what goes out: the first free name, or ours already."""

from __future__ import annotations

from pathlib import Path

from app.branches import MAX_NAMES, branch_name, names_to_try
from tests.workers.conftest import Repo, new_repo
from workers.git import Git
from workers.inspection import Passed
from workers.push import Pushed, PushRejected, PushTrouble
from workers.send import by_git, send_new


def passed(tmp_path: Path, served: Repo) -> Passed:
    """A quarantine with one commit on top of what is served."""
    repo = new_repo(tmp_path / "quarantine.git")
    repo.git("fetch", "-q", str(served.path), "refs/heads/main:refs/heads/base")
    head = repo.commit({b"a.txt": b"two\n"}, parents=[repo.read("refs/heads/base")])
    repo.git("update-ref", "refs/drydock/ours", head)
    return Passed(repo.path, head, (), "", "", ())


def push(git: Git, served: Repo, what: Passed, *names: str) -> Pushed | PushRejected:
    return send_new(by_git(git, f"file://{served.path}", None), what, iter(names))


def test_names_go_from_ours_to_numbered_to_flat_and_end() -> None:
    names = list(names_to_try(branch_name(7, "The pump leaks")))
    assert names[0] == "aider/issue-7-the-pump-leaks"
    assert names[1] == "aider/issue-7-the-pump-leaks-1" or names[1].endswith("-2")
    assert len(names) == len(set(names)) == 2 * MAX_NAMES
    assert all("/" not in name for name in names[MAX_NAMES:])
    assert len(next(names_to_try(branch_name(1, "x" * 500)))) < 240


def test_the_first_free_name_is_taken(tmp_path: Path, git: Git, server_repo: Repo) -> None:
    what = passed(tmp_path, server_repo)
    server_repo.git("update-ref", "refs/heads/aider/x", server_repo.read("refs/heads/main"))
    assert push(git, server_repo, what, "aider/x", "aider/x-2") == Pushed(
        "refs/heads/aider/x-2", what.head_sha
    )


def test_a_name_that_holds_exactly_this_is_ours_already(
    tmp_path: Path, git: Git, server_repo: Repo
) -> None:
    what = passed(tmp_path, server_repo)
    first = push(git, server_repo, what, "aider/x", "aider/x-2")
    assert push(git, server_repo, what, "aider/x", "aider/x-2") == first
    assert server_repo.git("for-each-ref", "--format=%(refname)").split() == [
        "refs/heads/aider/x",
        "refs/heads/main",
    ]


def test_a_branch_that_is_named_like_our_folder_is_gone_around(
    tmp_path: Path, git: Git, server_repo: Repo
) -> None:
    what = passed(tmp_path, server_repo)
    server_repo.git("update-ref", "refs/heads/aider", server_repo.read("refs/heads/main"))
    done = push(git, server_repo, what, "aider/x", "aider/x-2", "aider-x")
    assert done == Pushed("refs/heads/aider-x", what.head_sha)


def test_where_no_name_is_free_it_is_said(tmp_path: Path, git: Git, server_repo: Repo) -> None:
    what = passed(tmp_path, server_repo)
    server_repo.git("update-ref", "refs/heads/aider/x", server_repo.read("refs/heads/main"))
    done = push(git, server_repo, what, "aider/x")
    assert isinstance(done, PushRejected)
    assert done.trouble is PushTrouble.MOVED
