"""Real git against the server: cloning and pushing with good and bad tokens."""

from __future__ import annotations

import os
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.demo.github.conftest import Scene

Git = Callable[..., subprocess.CompletedProcess[str]]


def header(token: str, user: str = "x-access-token") -> str:
    return "Authorization: Basic " + b64encode(f"{user}:{token}".encode()).decode()


@pytest.fixture
def git(tmp_path: Path) -> Git:
    def run(
        *args: str, token: str | None = None, user: str = "x-access-token"
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
        }
        for kind in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{kind}_NAME": "t", f"GIT_{kind}_EMAIL": "t@localhost"}
        if token is not None:
            environment |= {
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "http.extraHeader",
                "GIT_CONFIG_VALUE_0": header(token, user),
            }
        return subprocess.run(
            ["git", *args], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip

    return run


@pytest.fixture
def url(scene: Scene) -> str:
    return scene.repo.clone_url


def commit(git: Git, path: str, content: str, *, where: Path) -> None:
    file = where / "copy" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    assert git("-C", "copy", "add", "-A").returncode == 0
    assert git("-C", "copy", "commit", "-qm", f"Add {path}").returncode == 0


def test_a_good_token_clones_and_pushes_and_the_push_is_announced(
    scene: Scene, git: Git, url: str, tmp_path: Path
) -> None:
    scene.gh.set_webhook(scene.app, "http://127.0.0.1:9/", "a test's secret")
    token = scene.token(repository_ids=[scene.repo.id], permissions={"contents": "write"})
    assert git("clone", "-q", url, "copy", token=token).returncode == 0
    commit(git, "new.py", "x = 1\n", where=tmp_path)
    pushed = git("-C", "copy", "push", "-q", "origin", "HEAD:refs/heads/aider/x", token=token)
    assert pushed.returncode == 0, pushed.stderr
    assert "aider/x" in scene.repo.branches()
    last = [d for d in scene.gh.deliveries if d.event == "push"][-1]
    assert b'"ref":"refs/heads/aider/x"' in last.body
    assert b'"login":"drydock[bot]"' in last.body


def test_a_push_to_the_head_synchronizes_the_pull_request(
    scene: Scene, git: Git, url: str, tmp_path: Path
) -> None:
    scene.repo.commit({"a.py": "a = 1\n"}, branch="fix")
    pull = scene.alice.opens_pull(scene.repo, head="fix")
    before = pull.head_sha
    token = scene.token()
    git("clone", "-q", "-b", "fix", url, "copy", token=token)
    commit(git, "b.py", "b = 2\n", where=tmp_path)
    assert git("-C", "copy", "push", "-q", token=token).returncode == 0
    assert pull.head_sha == git("-C", "copy", "rev-parse", "HEAD").stdout.strip() != before
    assert [event.kind for event in pull.timeline] == ["pushed"]


def test_a_big_push_in_pieces_arrives(scene: Scene, git: Git, url: str, tmp_path: Path) -> None:
    token = scene.token()
    git("clone", "-q", url, "copy", token=token)
    noise = os.urandom(3_000_000).hex()  # above git's http.postBuffer: chunked
    commit(git, "big.txt", noise, where=tmp_path)
    pushed = git("-C", "copy", "push", "-q", "origin", "HEAD:refs/heads/big", token=token)
    assert pushed.returncode == 0, pushed.stderr
    assert scene.repo.file("big.txt", "big") == noise.encode()


def test_without_credentials_a_private_repository_asks_for_them(git: Git, url: str) -> None:
    assert "could not read Username" in git("ls-remote", url).stderr


def test_anybody_clones_a_public_repository_and_nobody_pushes(
    scene: Scene, git: Git, tmp_path: Path
) -> None:
    public = scene.gh.create_repo("acme", "public", {"README.md": "x"})
    assert git("clone", "-q", public.clone_url, "copy").returncode == 0
    commit(git, "y", "y", where=tmp_path)
    assert "could not read Username" in git("-C", "copy", "push").stderr


def test_a_token_that_may_only_read_cannot_push(
    scene: Scene, git: Git, url: str, tmp_path: Path
) -> None:
    token = scene.token(permissions={"contents": "read"})
    assert git("clone", "-q", url, "copy", token=token).returncode == 0
    commit(git, "y", "y", where=tmp_path)
    refused = git("-C", "copy", "push", token=token)
    assert "Permission to acme/widgets.git denied to drydock[bot]." in refused.stderr
    assert "403" in refused.stderr


def test_a_token_without_contents_cannot_even_read(scene: Scene, git: Git, url: str) -> None:
    refused = git("ls-remote", url, token=scene.token(permissions={"issues": "write"}))
    assert "403" in refused.stderr


def test_a_token_for_another_repository_does_not_see_this_one(
    scene: Scene, git: Git, url: str
) -> None:
    other = scene.gh.create_repo("acme", "gadgets", private=True)
    scene.gh.install(scene.app, other)
    refused = git("ls-remote", url, token=scene.token(repository_ids=[other.id]))
    assert "not found" in refused.stderr


def test_expired_revoked_and_invented_tokens_are_refused(scene: Scene, git: Git, url: str) -> None:
    expired, revoked = scene.token(), scene.token()
    scene.gh.world.tokens[revoked].revoked = True
    assert git("ls-remote", url, token=expired).returncode == 0
    scene.clock.passes(3600)
    for token in (expired, revoked, "ghs_invented"):
        refused = git("ls-remote", url, token=token)
        assert refused.returncode != 0
        assert "Invalid username or token" in refused.stderr or "Username" in refused.stderr


def test_the_user_name_of_an_installation_token_is_fixed(scene: Scene, git: Git, url: str) -> None:
    assert git("ls-remote", url, token=scene.token(), user="oauth2").returncode != 0


def test_people_push_with_their_own_tokens(
    scene: Scene, git: Git, url: str, tmp_path: Path
) -> None:
    token = scene.alice.token()
    assert git("clone", "-q", url, "copy", token=token, user="alice").returncode == 0
    commit(git, "y", "y", where=tmp_path)
    assert git("-C", "copy", "push", "-q", token=token, user="alice").returncode == 0


def test_protected_branches_hidden_refs_and_workflows_are_refused(
    scene: Scene, git: Git, url: str, tmp_path: Path
) -> None:
    scene.repo.protect("main")
    token = scene.token()
    git("clone", "-q", url, "copy", token=token)
    commit(git, "y", "y", where=tmp_path)
    push = ("-C", "copy", "push", "origin")
    assert "GH006" in git(*push, "HEAD:main", token=token).stderr
    assert "hidden ref" in git(*push, "HEAD:refs/pull/9/head", token=token).stderr
    commit(git, ".github/workflows/x.yml", "on: push\n", where=tmp_path)
    refused = git(*push, "HEAD:refs/heads/w", token=token)
    assert "refusing to allow a GitHub App to create or update workflow" in refused.stderr
    assert scene.repo.branches() == ("main",)


def test_an_archived_repository_takes_no_push(
    scene: Scene, git: Git, url: str, tmp_path: Path
) -> None:
    token = scene.token()
    git("clone", "-q", url, "copy", token=token)
    commit(git, "y", "y", where=tmp_path)
    scene.repo.archived = True
    assert "archived" in git("-C", "copy", "push", token=token).stderr


def test_an_empty_repository_can_be_cloned_and_filled(
    scene: Scene, git: Git, tmp_path: Path
) -> None:
    empty = scene.gh.create_repo("acme", "empty", private=True, default_branch="trunk")
    scene.gh.install(scene.app, empty)
    token = scene.token()
    assert git("clone", "-q", empty.clone_url, "copy", token=token).returncode == 0
    commit(git, "y", "y", where=tmp_path)
    pushed = git("-C", "copy", "push", "-q", "origin", "HEAD:trunk", token=token)
    assert pushed.returncode == 0, pushed.stderr
    assert empty.branches() == ("trunk",)


def test_the_pull_requests_ref_can_be_fetched(scene: Scene, git: Git, url: str) -> None:
    scene.repo.commit({"a.py": "a = 1\n"}, branch="fix")
    pull = scene.alice.opens_pull(scene.repo, head="fix")
    shown = git("ls-remote", url, f"refs/pull/{pull.number}/head", token=scene.token())
    assert shown.stdout.startswith(pull.head_sha)
