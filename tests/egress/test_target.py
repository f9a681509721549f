from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.guest import RequestHead
from egress.policy import Grant, GrantKind, Manifest, Phase, Wire
from egress.target import Verdict, clean_target, judge

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
        ("GET", "http://api.example/", 403, "no grant covers a tunnel to api.example"),
        ("POST", f"http://127.0.0.1:3128{PATH}", 403, "no grant covers a tunnel to 127.0.0.1"),
        ("GET", "http://user@api.example/", 403, "a target is"),
        ("GET", "https://api.example/", 403, "a target is"),
        ("GET", "ftp://api.example/", 403, "a target is"),
        ("OPTIONS", "*", 403, "a target is"),
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


TUNNEL = Grant("t", GrantKind.TUNNEL, "https", "packages.example", 443)
PLAIN = Grant("p", GrantKind.TUNNEL, "http", "plain.example", 80, methods=frozenset({"GET"}))
TUNNELS = Manifest("r", (TUNNEL, PLAIN))


def proxied(method: str, target: str, *headers: tuple[str, str]) -> Verdict:
    return judge(TUNNELS, Phase.AGENT, RequestHead(method, target, headers))


@pytest.mark.parametrize(
    "host", ["packages.example:443", "Packages.Example.:443", "packages.example", None]
)
def test_a_granted_tunnel_is_allowed_where_the_host_header_agrees(host: str | None) -> None:
    headers = [("host", host)] if host else []
    verdict = proxied("CONNECT", "PACKAGES.example:443", *headers)
    assert (verdict.grant, verdict.host, verdict.port) == (TUNNEL, "packages.example", 443)


@pytest.mark.parametrize(
    ("target", "host", "path", "query"),
    [
        ("http://plain.example/a/b?c=d", "plain.example", "/a/b", "c=d"),
        ("http://plain.example:80/a", "plain.example:80", "/a", ""),
        ("http://PLAIN.example", "plain.example", "/", ""),
        ("http://plain.example?x", "plain.example", "/", "x"),
    ],
)
def test_a_granted_plain_request_keeps_path_and_query(
    target: str, host: str, path: str, query: str
) -> None:
    verdict = proxied("GET", target, ("host", host))
    assert (verdict.grant, verdict.path, verdict.query) == (PLAIN, path, query)


@pytest.mark.parametrize(
    ("method", "target", "host"),
    [
        ("CONNECT", "packages.example:443", "other.example:443"),
        ("CONNECT", "packages.example:443", "packages.example:80"),
        ("CONNECT", "packages.example:443", "no host"),
        ("GET", "http://plain.example/", "other.example"),
        ("GET", "http://plain.example/", "plain.example:8080"),
        ("GET", "http://plain.example/", ""),
    ],
)
def test_a_host_header_that_differs_from_the_target_is_refused(
    method: str, target: str, host: str
) -> None:
    verdict = proxied(method, target, ("host", host))
    assert (verdict.grant, verdict.status) == (None, 400)
    assert "differs from the target" in verdict.reason


@pytest.mark.parametrize(
    ("method", "target", "says"),
    [
        ("CONNECT", "plain.example:80", "granted for http only, not for https"),
        ("GET", "http://packages.example/", "granted for https only, not for http"),
        ("POST", "http://plain.example/", "takes GET, not POST"),
        ("GET", "http://plain.example:8080/", "on port 80 only, not on 8080"),
    ],
)
def test_each_form_serves_its_own_scheme(method: str, target: str, says: str) -> None:
    verdict = proxied(method, target)
    assert verdict.grant is None
    assert says in verdict.reason


def test_connect_with_a_body_is_refused() -> None:
    verdict = proxied("CONNECT", "packages.example:443", ("content-length", "5"))
    assert (verdict.grant, verdict.reason) == (None, "CONNECT has no body")


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
