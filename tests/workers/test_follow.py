"""Where a follow-up goes, against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.report import CommitSummary
from tests.workers.conftest import ENV, Repo, new_repo
from workers.follow import Onto, Placed, place
from workers.git import Git
from workers.inspection import Passed
from workers.push import PushRejected, PushTrouble
from workers.send import by_git

BRANCH = "fix/odd#name@(1)"
ASIDE = ("aider/pull-9-x", "aider-pull-9-x")


class Followed:
    """A server with a branch, and a quarantine with one commit on its head."""

    def __init__(self, git: Git, root: Path, server: Repo) -> None:
        self.git, self.server = git, server
        self.head = server.commit({b"a.txt": b"1\n2\n3\n4\n5\n6\n7\n"})
        server.git("update-ref", f"refs/heads/{BRANCH}", self.head)
        # As GitHub does, which keeps what a pull request was made of.
        server.git("update-ref", "refs/pull/9/head", self.head)
        self.repo = new_repo(root / "quarantine.git")
        ref = f"refs/heads/{BRANCH}:refs/drydock/base"
        self.repo.git("fetch", "-q", "--depth=1", server.path.as_uri(), ref)
        self.ours = self.repo.commit({b"a.txt": b"1\n2\n3\n4\n5\n6\nours\n"}, parents=[self.head])
        self.told: list[tuple[str, str]] = []

    def moves_on(self, content: bytes) -> str:
        sha = self.server.commit({b"a.txt": content}, parents=[self.head])
        self.server.git("update-ref", f"refs/heads/{BRANCH}", sha)
        return sha

    def place(self) -> Placed | PushRejected:
        commits = (CommitSummary(self.ours, "Ours", ("a.txt",)),)
        passed = Passed(self.repo.path, self.ours, commits, "", "", ())
        onto = Onto(self.server.path.as_uri(), None, BRANCH, self.head)
        tell = lambda now, head: self.told.append((now.head_sha, head))  # noqa: E731
        return place(self.git, by_git(self.git, onto.url, None), passed, onto, ASIDE, tell)

    def placed(self) -> Placed:
        result = self.place()
        assert isinstance(result, Placed), result
        return result

    def on_server(self, branch: str = BRANCH) -> str:
        return self.server.read(f"refs/heads/{branch}")


@pytest.fixture
def followed(git: Git, tmp_path: Path, server_repo: Repo) -> Followed:
    return Followed(git, tmp_path, server_repo)


def test_it_goes_onto_the_head_whatever_the_branch_is_called(followed: Followed) -> None:
    placed = followed.placed()
    assert (placed.rebased, placed.aside, placed.head) == (False, False, followed.head)
    assert followed.on_server() == followed.ours
    assert followed.told == []


def test_a_head_that_moved_on_gets_our_commits_on_top(followed: Followed) -> None:
    moved = followed.moves_on(b"theirs\n2\n3\n4\n5\n6\n7\n")
    placed = followed.placed()
    assert (placed.rebased, placed.aside, placed.head) == (True, False, moved)
    new = followed.on_server()
    assert followed.server.read(f"{new}^") == moved
    assert followed.server.raw("cat-file", "blob", f"{new}:a.txt") == (
        b"theirs\n2\n3\n4\n5\n6\nours\n"
    )
    assert placed.passed.commits[-1].sha == placed.passed.head_sha == new
    assert followed.told == [(new, moved)]


@pytest.mark.parametrize("gone", [False, True])
def test_where_that_is_not_clean_it_is_kept_beside_and_nothing_is_touched(
    followed: Followed, gone: bool
) -> None:
    moved = followed.moves_on(b"1\n2\n3\n4\n5\n6\ntheirs\n")
    if gone:
        followed.server.git("update-ref", "-d", f"refs/heads/{BRANCH}")
    placed = followed.placed()
    assert placed.aside
    assert placed.pushed.ref == f"refs/heads/{ASIDE[0]}"
    assert followed.on_server(ASIDE[0]) == followed.ours
    if not gone:
        assert followed.on_server() == moved


def test_a_branch_called_aider_in_the_way_leads_to_the_flat_name(followed: Followed) -> None:
    followed.moves_on(b"1\n2\n3\n4\n5\n6\ntheirs\n")
    followed.server.git("update-ref", "refs/heads/aider", followed.head)
    assert followed.placed().pushed.ref == f"refs/heads/{ASIDE[1]}"


def test_a_repeated_publish_changes_nothing(followed: Followed) -> None:
    first = followed.placed()
    assert followed.placed() == first


@pytest.mark.parametrize("line", [b"7", b"ours"])
def test_a_push_whose_answer_was_lost_is_known_below_what_came_on_top(
    followed: Followed, line: bytes
) -> None:
    first = followed.placed()
    theirs = b"theirs\n2\n3\n4\n5\n6\n" + line + b"\n"
    on_top = followed.server.commit({b"a.txt": theirs}, parents=[followed.ours])
    followed.server.git("update-ref", f"refs/heads/{BRANCH}", on_top)
    assert followed.placed() == first
    assert followed.on_server() == on_top
    assert followed.told == []


def test_the_same_push_made_by_the_server_is_known_by_what_it_holds(followed: Followed) -> None:
    content = b"1\n2\n3\n4\n5\n6\nours\n"
    words = followed.repo.raw("cat-file", "commit", followed.ours).partition(b"\n\n")[2]
    tree = followed.server.read(followed.server.commit({b"a.txt": content}) + "^{tree}")
    by_github = {**ENV, "GIT_AUTHOR_NAME": "drydock[bot]", "GIT_COMMITTER_NAME": "GitHub"}
    made = followed.server.git("commit-tree", tree, "-p", followed.head, stdin=words, env=by_github)
    assert made != followed.ours
    on_top = followed.server.commit({b"b.txt": b"more\n"}, parents=[made])
    followed.server.git("update-ref", f"refs/heads/{BRANCH}", on_top)
    placed = followed.placed()
    assert (placed.aside, placed.pushed.sha) == (False, made)
    assert followed.on_server() == on_top


def test_what_the_server_forbids_is_not_tried_beside(followed: Followed) -> None:
    hook = followed.server.path / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho GH006: Protected branch >&2\nexit 1\n")
    hook.chmod(0o755)
    result = followed.place()
    assert isinstance(result, PushRejected)
    assert result.trouble is PushTrouble.PROTECTED
    assert followed.on_server() == followed.head
