from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.guest import RequestHead
from egress.policy import Grant, GrantKind, Manifest, Phase, Wire
from egress.target import clean_target, judge

ROUTE = Grant(
    name="openai",
    kind=GrantKind.MODEL_ROUTE,
    scheme="https",
    host="api.example",
    port=443,
    methods=frozenset({"POST"}),
    path_prefix="/llm",
    wire=Wire.OPENAI,
)
MANIFEST = Manifest("run-1", (ROUTE,))
PATH = "/model/openai/v1/chat/completions"


def head(method: str, target: str, *headers: tuple[str, str]) -> RequestHead:
    return RequestHead(method, target, (("host", "127.0.0.1:3128"), *headers))


def test_a_granted_request_gets_the_upstreams_path_and_its_query() -> None:
    verdict = judge(MANIFEST, Phase.AGENT, head("POST", PATH + "?a=1&b=?"))
    assert verdict.grant is ROUTE
    assert (verdict.path, verdict.query) == ("/llm/v1/chat/completions", "a=1&b=?")


@pytest.mark.parametrize(
    ("method", "target", "status", "says"),
    [
        ("CONNECT", "api.example:443", 403, "no grant covers a tunnel to api.example"),
        ("CONNECT", "2130706433:80", 403, "no grant covers a tunnel to 127.0.0.1"),
        ("CONNECT", "[::1]:80", 403, "no grant covers a tunnel to ::1"),
        ("CONNECT", "api.example", 400, "host:port"),
        ("CONNECT", "/", 400, "host:port"),
        ("GET", "http://api.example/", 403, "origin form"),
        ("POST", f"http://127.0.0.1:3128{PATH}", 403, "origin form"),
        ("OPTIONS", "*", 403, "origin form"),
        ("GET", "/", 403, "only model routes"),
        ("POST", "/v1/chat/completions", 403, "only model routes"),
        ("POST", "/model/openai", 403, "only model routes"),
        ("POST", "//model/openai/v1/chat/completions", 403, "only model routes"),
        ("POST", "/model//v1/chat/completions", 403, "only model routes"),
        ("POST", "/model/other/v1/chat/completions", 403, "no grant is a model route"),
        ("POST", "/model/openai//v1/chat/completions", 403, "does not serve"),
        ("POST", "/model/openai/v1/chat/completions#a", 403, "does not serve"),
        ("POST", "/model/openai/../openai/v1/chat/completions", 403, "does not serve"),
        ("POST", "/model/%6fpenai/v1/chat/completions", 403, "no grant is a model route"),
        ("POST", "/model/openai/v1/models", 403, "does not serve"),
        ("GET", PATH, 405, "takes POST"),
        ("DELETE", PATH, 405, "takes POST"),
    ],
)
def test_everything_else_is_refused_with_its_reason(
    method: str, target: str, status: int, says: str
) -> None:
    verdict = judge(MANIFEST, Phase.AGENT, head(method, target))
    assert verdict.grant is None
    assert verdict.status == status
    assert says in verdict.reason


def test_an_upgrade_is_refused_even_on_a_granted_route() -> None:
    verdict = judge(MANIFEST, Phase.AGENT, head("POST", PATH, ("upgrade", "websocket")))
    assert (verdict.grant, verdict.status) == (None, 403)


def test_a_granted_tunnel_is_not_served_here() -> None:
    tunnel = Grant("t", GrantKind.TUNNEL, "https", "api.example", 443)
    verdict = judge(Manifest("r", (tunnel,)), Phase.AGENT, head("CONNECT", "api.example:443"))
    assert (verdict.grant, verdict.status) == (None, 403)


@given(st.text(min_size=1), st.text(), st.sampled_from(Phase))
def test_only_the_one_target_is_ever_allowed(method: str, target: str, phase: Phase) -> None:
    verdict = judge(MANIFEST, phase, head(method, target))
    if verdict.grant is not None:
        assert (method, phase) == ("POST", Phase.AGENT)
        assert target.partition("?")[0] in (PATH, "/model/openai/chat/completions")


@pytest.mark.parametrize(
    ("target", "cleaned"),
    [
        ("/a?key=secret", "GET /a"),
        ("http://user:secret@host/a", "GET http://host/a"),
        ("/a\x1b[31m\n\u202e", "GET /a?[31m??"),
        ("/" + "x" * 1000, "GET /" + "x" * 195),
    ],
)
def test_a_target_is_shown_without_secrets_or_control_characters(target: str, cleaned: str) -> None:
    assert clean_target("GET", target) == cleaned
