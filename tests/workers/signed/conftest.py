"""A repository on the local GitHub, and a quarantine with commits of ours on its head."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.github.auth import TokenSource
from app.github.gateway import GitHubGateway, RepoHandle
from app.report import CommitSummary
from demo.github import LocalGitHub
from demo.github.contract import DESCRIPTION, Contract, find
from tests.workers.conftest import Files, Node, new_repo
from workers.git import Git, HttpAuth
from workers.inspection import Passed
from workers.push import PushResult
from workers.signed import by_github

CHECKOUT = Path(__file__).parents[3]
BRANCH = "refs/heads/aider/issue-1"
BASE: Files = {
    b"a.txt": b"one\n",
    b"src/b.py": b"x = 1\n",
    b"src/deep/c.bin": b"\0\xff\0",
    b"run.sh": Node("100755", b"#!/bin/sh\n"),
}


class Yard:
    """`files` and `commits` are what goes out; `send` has GitHub make it."""

    def __init__(self, hub: LocalGitHub, root: Path, git: Git) -> None:
        self.hub, self.git_runner = hub, git
        self.here = new_repo(root / "quarantine.git")
        self.base = self.here.commit(BASE, ref="refs/heads/main")
        self.repo = hub.create_repo("octo", "ship")
        self.here.git("push", "-q", str(self.repo.git.path), "main:refs/heads/main")
        app = hub.create_app("drydock")
        installation = hub.install(app, self.repo)
        self.tokens = TokenSource(
            api_url=hub.api_url,
            app_id=app.app_id,
            private_key=app.private_key_pem,
            sleep=lambda _: None,
        )
        handle = RepoHandle(installation.id, self.repo.id, "octo", "ship")
        self.gateway = GitHubGateway(handle, self.tokens)

    def made(self, *trees: Files, on: str | None = None) -> Passed:
        """Commit these trees one on another, as a run that passed the gate."""
        parent, commits = on or self.base, []
        for number, files in enumerate(trees):
            message = f"Step {number}\n\nWhy.\n\nDrydock-Run: r1\n"
            parent = self.here.commit(files, parents=[parent], message=message)
            commits.append(CommitSummary(parent, f"Step {number}"))
        return Passed(self.here.path, parent, tuple(commits), "", "", ())

    def send(self, passed: Passed, ref: str = BRANCH, old: str | None = None) -> PushResult:
        url = f"{self.hub.web_url}/octo/ship.git"
        handle = self.gateway.handle
        token = self.tokens.contents_token(handle.installation_id, handle.repo_id, write=True)
        way = by_github(self.git_runner, self.gateway.objects(), url, HttpAuth(url, token))
        return way(passed, ref, old)

    def posts(self, kind: str) -> int:
        """How often GitHub was asked to make such an object."""
        path = f"/git/{kind}"
        return sum(
            each.method == "POST" and each.path.endswith(path)
            for each in self.hub.recorder.exchanges
        )


@pytest.fixture(scope="module")
def contract() -> Contract:
    return Contract(find(CHECKOUT, DESCRIPTION))


@pytest.fixture
def yard(tmp_path: Path, git: Git, contract: Contract) -> Iterator[Yard]:
    """A yard whose every exchange, in the end, must have been one that GitHub describes."""
    with LocalGitHub(tmp_path / "github") as hub:
        made = Yard(hub, tmp_path, git)
        yield made
        made.gateway.close()
        assert contract.violations(hub.recorder.exchanges) == []
