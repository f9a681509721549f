from __future__ import annotations

import copy
import itertools
import pickle
import secrets
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.inject import (
    PLACEHOLDER,
    BadCredential,
    Credential,
    Redactor,
    check_credentials,
    keep_response_headers,
    strip_guest,
)

ORIGIN = ("https", "api.example", 443)


def test_a_credential_is_for_its_own_upstream_only(key: str) -> None:
    credential = Credential("openai", "Authorization", key, ("https", "API.example.", 443))
    assert credential.header_for(ORIGIN) == ("authorization", f"Bearer {key}")
    for other in [("http", "api.example", 443), ("https", "b.example", 443), (*ORIGIN[:2], 444)]:
        with pytest.raises(BadCredential):
            credential.header_for(other)


def test_a_credential_for_another_header_is_sent_as_it_is(key: str) -> None:
    assert Credential("a", "x-api-key", key, ORIGIN).header_for(ORIGIN) == ("x-api-key", key)


def test_a_credential_shows_its_value_nowhere(key: str) -> None:
    credential = Credential("openai", "authorization", key, ORIGIN)
    shown = f"{credential} {credential!r} {[credential]} {credential.redactor()!r}"
    assert key not in shown
    assert not hasattr(credential, "__dict__")
    with pytest.raises(BadCredential) as caught:
        credential.header_for(("https", "b.example", 443))
    assert key not in str(caught.value)


def test_a_credential_does_not_travel(key: str) -> None:
    credential = Credential("openai", "authorization", key, ORIGIN)
    for send in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="does not travel") as caught:
            send(credential)  # type: ignore[operator]
        assert key not in str(caught.value)


@pytest.mark.parametrize("ending", ["", "\n", "\r\nX-Other: 1", " ", "\0", "é"])
def test_a_value_that_is_no_header_value_is_refused_without_showing_it(
    ending: str, key: str
) -> None:
    value = key + ending if ending else ""
    with pytest.raises(BadCredential) as caught:
        Credential("openai", "authorization", value, ORIGIN)
    assert key not in str(caught.value)


def test_every_named_credential_must_exist_and_be_bound_to_its_upstream(key: str) -> None:
    credential = Credential("openai", "authorization", key, ORIGIN)
    check_credentials({"openai": ORIGIN}, {"openai": credential})
    with pytest.raises(BadCredential, match="no credential is named"):
        check_credentials({"other": ORIGIN}, {"openai": credential})
    with pytest.raises(BadCredential, match="is not for"):
        check_credentials({"openai": ("https", "b.example", 443)}, {"openai": credential})


def redact(secret: bytes, chunks: Sequence[bytes]) -> tuple[bytes, int]:
    redactor = Redactor(secret)
    data = b"".join([*(redactor.feed(chunk) for chunk in chunks), redactor.flush()])
    return data, redactor.found


@given(
    st.lists(st.binary(max_size=12) | st.just(b"abababac"), max_size=8),
    st.lists(st.integers(0, 120), max_size=8),
)
def test_a_secret_is_found_wherever_the_chunks_are_cut(parts: list[bytes], cuts: list[int]) -> None:
    secret = b"abababac"
    data = b"".join(parts)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[a:b] for a, b in itertools.pairwise(places)]
    redacted, found = redact(secret, chunks)
    assert redacted == data.replace(secret, b"*" * len(secret))
    assert found == data.count(secret)
    assert len(redacted) == len(data)


def test_only_what_may_become_the_secret_is_held_back() -> None:
    redactor = Redactor(b"secret-value")
    assert redactor.feed(b"data: hello\n\n") == b"data: hello\n\n"
    assert redactor.feed(b"data: secr") == b"data: "
    assert redactor.feed(b"etary\n\n") == b"secretary\n\n"
    assert redactor.flush() == b""
    assert redactor.found == 0


def test_a_word_that_is_no_secret_is_left_alone() -> None:
    assert redact(b"ollama", [b"ollama is a server"]) == (b"ollama is a server", 0)


def test_only_known_headers_of_the_guest_pass() -> None:
    stripped = strip_guest(
        [
            ("Content-Type", "application/json"),
            ("Accept", "*/*"),
            ("anthropic-version", "2023-06-01"),
            ("X-Stainless-Lang", "python"),
            ("Host", "127.0.0.1:3128"),
            ("Connection", "keep-alive, x-secret"),
            ("Transfer-Encoding", "chunked"),
            ("Te", "trailers"),
            ("Keep-Alive", "5"),
            ("Accept-Encoding", "gzip"),
            ("Expect", "100-continue"),
            ("Forwarded", "for=1"),
            ("OpenAI-Organization", "org"),
            ("X-HTTP-Method-Override", "DELETE"),
            ("Authorization", f"Bearer {PLACEHOLDER}"),
            ("x-api-key", PLACEHOLDER),
        ],
        "beta=true",
    )
    assert [name for name, _ in stripped.headers] == [
        "content-type",
        "accept",
        "anthropic-version",
        "x-stainless-lang",
    ]
    assert stripped.query == "beta=true"
    assert stripped.attempts == ()


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Authorization", "Bearer own"),
        ("Authorization", f"Basic {PLACEHOLDER}"),
        ("X-Api-Key", "own"),
        ("API-Key", "own"),
        ("X-Goog-Api-Key", "own"),
        ("Cookie", "session=own"),
        ("Proxy-Authorization", "Basic own"),
    ],
)
def test_a_credential_of_the_guests_own_is_taken_out_and_named(header: str, value: str) -> None:
    stripped = strip_guest([(header, value)], "")
    assert stripped.headers == ()
    assert stripped.attempts == (f"header {header.lower()}",)


@pytest.mark.parametrize(
    ("query", "kept", "attempts"),
    [
        ("key=own", "", 1),
        ("KEY=own&a=1", "a=1", 1),
        ("a=1&api%5Fkey=own&b=2", "a=1&b=2", 1),
        ("access_token=own&key=own", "", 2),
        ("a=1&&b=2", "a=1&b=2", 0),
        (f"key={PLACEHOLDER}", "", 0),
        ("monkey=1", "monkey=1", 0),
    ],
)
def test_a_key_in_the_query_is_taken_out_and_named(query: str, kept: str, attempts: int) -> None:
    stripped = strip_guest([], query)
    assert stripped.query == kept
    assert len(stripped.attempts) == attempts
    assert "own" not in str(stripped.attempts)


def test_only_the_response_headers_that_a_client_needs_pass() -> None:
    names = [
        "content-type",
        "retry-after",
        "x-ratelimit-remaining-tokens",
        "anthropic-ratelimit-tokens-reset",
        "request-id",
        "set-cookie",
        "openai-organization",
        "connection",
        "transfer-encoding",
        "location",
        "content-encoding",
        "alt-svc",
    ]
    kept = keep_response_headers([(name, secrets.token_hex(2)) for name in names])
    assert [name for name, _ in kept] == names[:5]


def test_a_word_that_is_no_secret_is_neither_replaced_nor_counted() -> None:
    redactor = Redactor(b"ollama")
    assert redactor.feed(b"ollama") + redactor.flush() == b"ollama"
    assert redactor.clean_header("ollama") == "ollama"
    assert redactor.found == 0
