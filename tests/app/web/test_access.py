from __future__ import annotations

from dataclasses import replace

import pytest

from app.web.access import Viewer, refuse

LOCAL = Viewer("127.0.0.1", "localhost:8000", "HTTP/1.1", {"accept": "*/*"}, None)


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:8000"])
def test_a_browser_on_this_host_gets_in(peer: str, host: str) -> None:
    assert refuse(replace(LOCAL, peer=peer, host=host), None) is None


@pytest.mark.parametrize(
    "change",
    [
        {"peer": "10.0.0.7"},
        {"peer": None},
        {"peer": ""},
        {"host": "drydock.example"},
        {"host": "localhost.evil.example"},
        {"host": ""},
        {"host": "[::1"},
        {"protocol": "HTTP/1.0"},
        {"headers": {"x-forwarded-for": "203.0.113.9"}},
        {"headers": {"forwarded": "for=203.0.113.9"}},
        {"headers": {"via": "1.1 proxy"}},
        {"password": "guess"} | {"peer": "10.0.0.7"},
    ],
)
def test_whoever_may_come_from_elsewhere_does_not(change: dict[str, object]) -> None:
    refused = refuse(replace(LOCAL, **change), None)  # type: ignore[arg-type]
    assert refused is not None
    assert not refused.ask


@pytest.mark.parametrize("password", [None, "", "wrong", "tök"])
def test_with_a_token_even_this_host_needs_it(password: str | None) -> None:
    refused = refuse(replace(LOCAL, password=password), "right")
    assert refused is not None
    assert refused.ask


def test_with_the_token_anybody_gets_in() -> None:
    elsewhere = replace(LOCAL, peer="203.0.113.9", host="drydock.example", password="right")
    assert refuse(elsewhere, "right") is None
