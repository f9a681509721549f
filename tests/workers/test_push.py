"""The push, against real servers: over files with hooks, and over smart HTTP with a token."""

from __future__ import annotations

import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workers.conftest import Repo, new_repo
from workers.git import Git, HttpAuth
from workers.push import Pushed, PushRejected, PushTrouble, name_rejection, push, read_back

REF = "refs/heads/aider/issue-1-fix"


class Side:
    """A quarantine with one commit on top of the server's `main`."""

    def __init__(self, git: Git, root: Path, server: Repo) -> None:
        self.git, self.server = git, server
        self.repo = new_repo(root / "quarantine.git")
        self.repo.git("fetch", "-q", "--depth=1", server.path.as_uri(), "main:refs/drydock/base")
        self.base = self.repo.read("refs/drydock/base")
        self.new = self.repo.commit({b"a.txt": b"two\n"}, parents=[self.base])

    def push(self, ref: str = REF, expected: str | None = None, **options: Any) -> Any:
        url = options.pop("url", self.server.path.as_uri())
        auth = options.pop("auth", None)
        sha = options.pop("sha", self.new)
        return push(self.git, self.repo.path, url, auth, sha=sha, ref=ref, expected_old=expected)

    def next(self) -> str:
        return self.repo.commit({b"a.txt": b"three\n"}, parents=[self.new])


@pytest.fixture
def side(git: Git, tmp_path: Path, server_repo: Repo) -> Side:
    return Side(git, tmp_path, server_repo)


def hook(server: Repo, name: str, text: str) -> None:
    path = server.path / "hooks" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def trouble(result: Any) -> PushTrouble:
    assert isinstance(result, PushRejected), result
    return result.trouble


def refs(repo: Repo) -> set[str]:
    return set(repo.git("for-each-ref", "--format=%(refname)").splitlines())


def test_exactly_one_ref_is_pushed_and_read_back(side: Side) -> None:
    assert side.push() == Pushed(REF, side.new)
    assert refs(side.server) == {"refs/heads/main", REF}
    assert read_back(side.git, side.server.path.as_uri(), None, REF) == side.new


def test_a_repeated_push_is_no_failure(side: Side) -> None:
    side.push()
    assert side.push() == Pushed(REF, side.new)


def test_a_follow_up_moves_the_ref_it_expects(side: Side) -> None:
    side.push()
    newer = side.next()
    assert side.push(sha=newer, expected=side.new) == Pushed(REF, newer)


def test_a_branch_that_exists_already_is_not_overwritten(side: Side) -> None:
    other = side.server.commit({b"o": b"1"}, ref=REF)
    assert trouble(side.push()) is PushTrouble.MOVED
    assert side.server.read(REF) == other


def test_a_branch_that_moved_on_is_not_overwritten(side: Side) -> None:
    side.push()
    moved = side.server.commit({b"m": b"1"}, parents=[side.new], ref=REF)
    assert trouble(side.push(sha=side.next(), expected=side.new)) is PushTrouble.MOVED
    assert side.server.read(REF) == moved


def test_an_old_value_that_the_commit_does_not_build_on_is_refused(side: Side) -> None:
    other = side.repo.commit({b"x": b"1"})
    with pytest.raises(ValueError, match="does not build on"):
        side.push(expected=other)


@pytest.mark.parametrize(
    "ref",
    [
        *("refs/tags/v1", "refs/heads/", "refs/heads/-x", "refs/heads/a..b", "refs/heads/a:b"),
        *("refs/heads/a.lock", "refs/heads/*", "main", "+refs/heads/x", "refs/heads/a b"),
    ],
)
def test_only_a_plain_branch_can_be_pushed_to(side: Side, ref: str) -> None:
    with pytest.raises(ValueError, match="not the ref of a branch"):
        side.push(ref=ref)


def test_a_branch_in_the_way_of_the_name_is_said(side: Side) -> None:
    side.server.git("update-ref", "refs/heads/aider", "main")
    assert trouble(side.push()) is PushTrouble.REF_CONFLICT


def test_a_longer_branch_in_the_way_of_the_name_is_said(side: Side) -> None:
    side.server.git("update-ref", f"{REF}/deeper", "main")
    assert trouble(side.push()) is PushTrouble.REF_CONFLICT


def test_a_protected_branch_is_said_with_the_servers_words(side: Side) -> None:
    hook(side.server, "pre-receive", "echo 'error: GH013: Repository rule violations' >&2; exit 1")
    result = side.push()
    assert trouble(result) is PushTrouble.PROTECTED
    assert "GH013" in result.detail


def test_a_server_that_changes_what_it_took_is_noticed(side: Side) -> None:
    hook(side.server, "post-receive", f"git update-ref {REF} refs/heads/main")
    result = side.push()
    assert trouble(result) is PushTrouble.MISMATCH
    assert side.base in result.detail


def test_a_moved_base_does_not_send_the_whole_tree_again(side: Side, tmp_path: Path) -> None:
    bulk = {b"f%d" % n: secrets.token_bytes(4_000) for n in range(50)}
    base = side.server.commit(bulk, ref="refs/heads/main")
    fresh = Side(side.git, tmp_path / "second", side.server)
    assert fresh.base == base
    side.server.commit({b"m": b"1"}, parents=[base], ref="refs/heads/main")
    before = size(side.server.path)
    assert fresh.push() == Pushed(REF, fresh.new)
    assert size(side.server.path) - before < 20_000


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


# ---- over HTTP -------------------------------------------------------------------------------


def test_a_token_pushes_and_is_in_no_file_and_no_command_line(
    side: Side, serve: Callable[..., Any], tmp_path: Path
) -> None:
    token = secrets.token_hex(20)
    server = serve(token=token)
    auth = HttpAuth(server.url, token)
    seen: list[bytes] = []
    original = server.environ

    def look(handler: Any) -> dict[str, str]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    seen.append((entry / "cmdline").read_bytes())
                except OSError:
                    continue  # it has ended meanwhile
        return dict(original(handler))

    server.environ = look
    assert side.push(url=f"{server.url}/o/r.git", auth=auth) == Pushed(REF, side.new)
    assert any(b"remote-http" in line for line in seen)
    secret = [each.encode() for each in auth.secrets()]
    assert not [line for line in seen if any(each in line for each in secret)]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert not any(each in path.read_bytes() for each in secret), path


def test_a_rejected_token_is_a_question_of_permission(
    side: Side, serve: Callable[..., Any]
) -> None:
    server = serve(token=secrets.token_hex(20))
    auth = HttpAuth(server.url, secrets.token_hex(20))
    result = side.push(url=f"{server.url}/o/r.git", auth=auth)
    assert trouble(result) is PushTrouble.PERMISSION
    assert auth.token not in result.detail


def test_a_forbidden_push_is_a_question_of_permission(
    side: Side, serve: Callable[..., Any]
) -> None:
    server = serve(denied=True)
    assert trouble(side.push(url=f"{server.url}/o/r.git")) is PushTrouble.PERMISSION


def test_a_repository_that_is_gone_is_said(side: Side, serve: Callable[..., Any]) -> None:
    assert trouble(side.push(url=f"{serve().url}/o/x.git")) is PushTrouble.GONE


def test_a_server_that_is_not_there_is_said(side: Side) -> None:
    assert trouble(side.push(url="http://127.0.0.1:1/o/r.git")) is PushTrouble.UNREACHABLE


# ---- by words that a local server does not say -----------------------------------------------


@pytest.mark.parametrize(
    ("status", "stderr", "meaning"),
    [
        ("[rejected] (stale info)", "", PushTrouble.MOVED),
        ("[rejected] (fetch first)", "", PushTrouble.MOVED),
        ("[remote rejected] (directory file conflict)", "", PushTrouble.REF_CONFLICT),
        (
            "[remote rejected] (refusing to allow a GitHub App to create or update workflow "
            "`.github/workflows/x.yml` without `workflows` permission)",
            "",
            PushTrouble.PERMISSION,
        ),
        (
            "[remote rejected] (protected branch hook declined)",
            "remote: error: GH006: Protected branch update failed",
            PushTrouble.PROTECTED,
        ),
        ("", "remote: Write access to repository not granted.\nerror: 403", PushTrouble.PERMISSION),
        ("", "remote: Permission to o/r.git denied to x[bot].", PushTrouble.PERMISSION),
        ("", "ERROR: This repository was archived so it is read-only.", PushTrouble.PROTECTED),
        ("", "fatal: the remote end hung up unexpectedly", PushTrouble.UNREACHABLE),
        ("", "something new", PushTrouble.REJECTED),
    ],
)
def test_a_rejection_is_told_by_its_meaning(status: str, stderr: str, meaning: PushTrouble) -> None:
    porcelain = f"To x\n!\tabc:{REF}\t{status}\nDone\n" if status else ""
    assert name_rejection(porcelain, stderr).trouble is meaning
