"""A local GitHub with a repository, a maintainer, and an App installed on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests

from demo.github import AppKeys, LocalGitHub, Person, Repo
from demo.github.contract import DESCRIPTION, EXAMPLES, Contract, find

CHECKOUT = Path(__file__).parents[3]


class Clock:
    """Time that only passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Client:
    """The API as a program with one credential sees it."""

    base: str
    credential: str | None = None

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> requests.Response:
        headers = more.pop("headers", {})
        if self.credential:
            headers = {"Authorization": f"Bearer {self.credential}", **headers}
        url = path if path.startswith("http") else self.base + path
        return requests.request(
            method, url, json=body, headers=headers, timeout=30, allow_redirects=False, **more
        )


@dataclass
class Scene:
    """Who and what the tests talk about."""

    gh: LocalGitHub
    clock: Clock
    repo: Repo
    alice: Person
    app: AppKeys

    def jwt(self, **changes: Any) -> str:
        now = int(self.clock())
        claims = {"iat": now - 60, "exp": now + 540, "iss": str(self.app.app_id), **changes}
        return jwt.encode(claims, self.app.private_key_pem, algorithm="RS256")

    def as_app(self, **claims: Any) -> Client:
        return Client(self.gh.api_url, self.jwt(**claims))

    def token(self, **narrowing: Any) -> str:
        installation = self.gh.installation(self.app, self.repo)
        path = f"/app/installations/{installation.id}/access_tokens"
        answer = self.as_app()("POST", path, narrowing)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def client(self, **narrowing: Any) -> Client:
        return Client(self.gh.api_url, self.token(**narrowing))

    def anonymous(self) -> Client:
        return Client(self.gh.api_url)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    clock = Clock()
    with LocalGitHub(tmp_path / "github", clock=clock) as gh:
        alice = gh.create_user("alice")
        files = {"README.md": "# Widgets\n", "calc.py": "def add(a, b):\n    return a - b\n"}
        repo = gh.create_repo("acme", "widgets", files=files, private=True)
        repo.grant(alice, "write")
        app = gh.create_app(name="drydock")
        gh.install(app, repo)
        yield Scene(gh, clock, repo, alice, app)


@pytest.fixture(scope="session")
def contract() -> Contract:
    return Contract(find(CHECKOUT, DESCRIPTION))


@pytest.fixture(scope="session")
def examples_path() -> Path:
    return find(CHECKOUT, EXAMPLES)
