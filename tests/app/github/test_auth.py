from __future__ import annotations

import logging

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from app.github.auth import (
    BadPrivateKey,
    InstallationToken,
    Scope,
    TokenSource,
    app_jwt,
    app_key,
)
from app.github.errors import AccessLost, GitHubUnavailable, NotAllowed, RateLimited
from tests.app.github.conftest import MINT, Clock
from tests.app.github.scripted import Answer, ScriptedApi


def test_the_jwt_speaks_for_the_app_for_less_than_ten_minutes(private_key: str) -> None:
    token = app_jwt(99, app_key(private_key), 1_800_000_000.9)
    public = load_pem_private_key(private_key.encode(), None).public_key()
    assert isinstance(public, RSAPublicKey)
    claims = jwt.decode(
        token, public, algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False}
    )
    assert jwt.get_unverified_header(token)["alg"] == "RS256"
    assert claims == {"iss": "99", "iat": 1_799_999_940, "exp": 1_800_000_540}


@pytest.mark.parametrize("pem", ["", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_key_that_is_none_is_refused_in_words(pem: str) -> None:
    with pytest.raises(BadPrivateKey, match=r"private key is not a PEM private key; use the \.pem"):
        app_key(pem)
    with pytest.raises(BadPrivateKey):
        TokenSource(api_url="https://h", app_id=1, private_key=pem)


def test_a_key_with_written_out_line_ends_is_repaired(private_key: str) -> None:
    written_out = app_key(private_key.replace("\n", "\\n"))
    assert written_out.private_numbers() == app_key(private_key).private_numbers()


def test_a_key_is_read_once(private_key: str) -> None:
    assert app_key(private_key) is app_key(private_key)


@pytest.mark.parametrize("scope", list(Scope))
def test_a_token_is_for_one_repository_and_one_purpose(
    tokens: TokenSource, api: ScriptedApi, scope: Scope
) -> None:
    assert tokens.token(7, 42, scope) == "t1"
    (asked,) = api.asked_for("POST", MINT)
    assert asked.body == {"repository_ids": [42], "permissions": dict(scope.permissions)}
    assert asked.headers["authorization"].startswith("Bearer ey")


def test_only_the_push_may_write_contents_and_only_the_conversation_may_talk() -> None:
    assert {s for s in Scope if s.permissions.get("contents") == "write"} == {Scope.CONTENTS_WRITE}
    assert set(Scope.CONVERSATION.permissions) == {"issues", "pull_requests", "checks", "metadata"}


def test_tokens_are_kept_by_scope(tokens: TokenSource) -> None:
    kept = [tokens.contents_token(7, 42), tokens.contents_token(7, 42, write=True)]
    kept += [tokens.conversation_token(7, 42), tokens.contents_token(7, 42)]
    assert kept == ["t1", "t2", "t3", "t1"]


def test_a_token_that_would_end_soon_is_minted_again(tokens: TokenSource, clock: Clock) -> None:
    assert tokens.contents_token(7, 42) == "t1"
    clock.now += 3600 - 5 * 60 - 1
    assert tokens.contents_token(7, 42) == "t1"
    clock.now += 1
    assert tokens.contents_token(7, 42) == "t2"


def test_revoking_takes_every_token_of_the_repository_once(
    tokens: TokenSource, api: ScriptedApi
) -> None:
    tokens.contents_token(7, 42)
    tokens.conversation_token(7, 42)
    assert tokens.revoke(7, 42)
    assert tokens.revoke(7, 42)
    revoked = [a.headers["authorization"] for a in api.asked_for("DELETE", "/installation/token")]
    assert revoked == ["token t1", "token t2"]
    assert tokens.contents_token(7, 42) == "t3"


def test_a_token_that_had_ended_counts_as_revoked(tokens: TokenSource, api: ScriptedApi) -> None:
    tokens.contents_token(7, 42)
    api.reply("DELETE", "/installation/token", Answer(401, {"message": "Bad credentials"}))
    assert tokens.revoke(7, 42)


def test_a_token_that_could_not_be_revoked_is_told(tokens: TokenSource, api: ScriptedApi) -> None:
    tokens.contents_token(7, 42)
    tokens.conversation_token(7, 42)
    api.reply("DELETE", "/installation/token", *[Answer(502)] * 4, Answer(204))
    assert not tokens.revoke(7, 42)
    assert len(api.asked_for("DELETE", "/installation/token")) == 5


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (404, {"message": "Not Found"}, AccessLost, "not installed on that repository any more"),
        (403, {"message": "This installation has been suspended"}, AccessLost, "suspended"),
        (
            422,
            {"message": "There is at least one repository that does not exist"},
            AccessLost,
            "not installed",
        ),
        (
            422,
            {"message": "The permissions requested are not granted to this installation."},
            NotAllowed,
            "checks: write",
        ),
        (
            401,
            {"message": "A JSON web token could not be decoded"},
            NotAllowed,
            "Check DRYDOCK_APP_ID, the private key, and this host's clock",
        ),
    ],
)
def test_a_refusal_to_mint_says_what_is_wrong(
    tokens: TokenSource,
    api: ScriptedApi,
    status: int,
    body: object,
    error: type[Exception],
    words: str,
) -> None:
    api.reply("POST", MINT, Answer(status, body))
    with pytest.raises(error, match=words):
        tokens.conversation_token(7, 42)


def test_minting_is_repeated_while_github_is_down(
    tokens: TokenSource, api: ScriptedApi, clock: Clock
) -> None:
    succeeding = api._replies["POST", MINT][0]
    api.reply("POST", MINT, Answer(502), Answer(hang_up=True), succeeding)
    assert tokens.contents_token(7, 42) == "t1"
    assert len(clock.slept) == 2
    assert 0 < clock.slept[0] < 1 < 2 * clock.slept[1] < 4


def test_minting_gives_up_in_the_end(tokens: TokenSource, api: ScriptedApi) -> None:
    api.reply("POST", MINT, Answer(500, {"message": "sorry"}))
    with pytest.raises(GitHubUnavailable, match=r"sorry \(500\)"):
        tokens.contents_token(7, 42)
    assert len(api.asked_for("POST", MINT)) == 4


def test_a_long_rate_limit_is_handed_to_the_caller(
    tokens: TokenSource, api: ScriptedApi, clock: Clock
) -> None:
    api.reply("POST", MINT, Answer(429, {"message": "slow down"}, {"Retry-After": "90"}))
    with pytest.raises(RateLimited) as caught:
        tokens.contents_token(7, 42)
    assert caught.value.reset_at == clock.now + 90
    assert clock.slept == []


def test_a_server_that_is_not_there_is_unavailable(private_key: str, clock: Clock) -> None:
    source = TokenSource(
        api_url="http://127.0.0.1:9", app_id=1, private_key=private_key, sleep=clock.sleep
    )
    with pytest.raises(GitHubUnavailable, match="cannot be reached"):
        source.contents_token(7, 42)


def test_the_app_is_asked_for_once(tokens: TokenSource, api: ScriptedApi) -> None:
    assert tokens.app_info().bot_login == "drydock-test[bot]"
    assert tokens.app_info().permissions == {"a": "b"}
    assert len(api.asked_for("GET", "/app")) == 1


def test_no_repr_and_no_log_shows_a_token_or_the_key(
    tokens: TokenSource, private_key: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    value = tokens.contents_token(7, 42)
    tokens.revoke(7, 42)
    secret_lines = private_key.splitlines()[1]
    for text in (repr(tokens), repr(InstallationToken(value, 0.0)), caplog.text):
        assert f"'{value}'" not in text
        assert f'"{value}"' not in text
        assert f"token {value}" not in text
        assert "Bearer" not in text
        assert secret_lines not in text
