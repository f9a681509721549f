from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.github.auth import TokenSource
from app.github.gateway import GitHubGateway, RepoHandle
from tests.app.github.scripted import Answer, Asked, ScriptedApi

HANDLE = RepoHandle(installation_id=7, repo_id=42, owner="octo", name="ship")
MINT = "/app/installations/7/access_tokens"


class Clock:
    """Time that moves only when somebody sleeps or a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture(scope="session")
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def api(clock: Clock) -> Iterator[ScriptedApi]:
    """A server that mints tokens named by their permissions and counted: `t1`, `t2`, …"""
    server = ScriptedApi()
    minted: list[str] = []

    def mint(_asked: Asked) -> Answer:
        minted.append(f"t{len(minted) + 1}")
        ends = datetime.fromtimestamp(clock.now + 3600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Answer(201, {"token": minted[-1], "expires_at": ends})

    server.reply("POST", MINT, mint)
    server.reply("DELETE", "/installation/token", Answer(204))
    server.reply(
        "GET", "/app", Answer(body={"id": 99, "slug": "drydock-test", "permissions": {"a": "b"}})
    )
    server.start()
    yield server
    server.stop()


@pytest.fixture
def tokens(api: ScriptedApi, private_key: str, clock: Clock) -> TokenSource:
    return TokenSource(
        api_url=api.url, app_id=99, private_key=private_key, clock=clock, sleep=clock.sleep
    )


@pytest.fixture
def gateway(tokens: TokenSource) -> Iterator[GitHubGateway]:
    with GitHubGateway(HANDLE, tokens) as made:
        yield made
