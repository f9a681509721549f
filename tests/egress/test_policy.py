from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.hello import ClientHello
from egress.policy import (
    BadManifest,
    Grant,
    GrantKind,
    Manifest,
    Phase,
    Wire,
    check_manifest,
    decide_addresses,
    decide_connect,
    decide_hello,
    decide_model,
    decide_plain,
    decide_request,
    manifest_hash,
    model_in_path,
)

OPENAI = Grant(
    name="openai",
    kind=GrantKind.MODEL_ROUTE,
    scheme="https",
    host="api.example",
    port=443,
    methods=frozenset({"POST"}),
    wire=Wire.OPENAI,
    reason="the model",
)
ANTHROPIC = replace(OPENAI, name="anthropic", wire=Wire.ANTHROPIC)
PACKAGES = Grant(
    name="packages",
    kind=GrantKind.TUNNEL,
    scheme="https",
    host="*.packages.example",
    port=443,
    phases=frozenset({Phase.SETUP}),
)
MANIFEST = Manifest("run-1", (OPENAI, ANTHROPIC, PACKAGES))


@pytest.mark.parametrize(
    ("route", "method", "path", "allowed", "says"),
    [
        ("openai", "POST", "/v1/chat/completions", True, "the model"),
        ("openai", "POST", "/chat/completions", True, "the model"),
        ("anthropic", "POST", "/v1/messages", True, "the model"),
        ("openai", "GET", "/v1/chat/completions", False, "takes POST, not GET"),
        ("openai", "post", "/v1/chat/completions", False, "takes POST"),
        ("openai", "POST", "/v1/messages", False, "does not serve this path"),
        ("anthropic", "POST", "/v1/chat/completions", False, "does not serve this path"),
        ("openai", "POST", "/v1/files", False, "does not serve this path"),
        ("openai", "POST", "/v1/chat/completions/", False, "does not serve this path"),
        ("openai", "POST", "/v1/../v1/chat/completions", False, "does not serve this path"),
        ("openai", "POST", "/v1/chat%2fcompletions", False, "does not serve this path"),
        ("openai", "POST", "", False, "does not serve this path"),
        ("other", "POST", "/v1/chat/completions", False, "no grant is a model route"),
        ("packages", "POST", "/v1/chat/completions", False, "no grant is a model route"),
        ("OPENAI", "POST", "/v1/chat/completions", False, "no grant is a model route"),
    ],
)
def test_a_model_route_serves_its_endpoint_and_nothing_else(
    route: str, method: str, path: str, allowed: bool, says: str
) -> None:
    decision = decide_request(MANIFEST, Phase.AGENT, route, method, path)
    assert decision.allowed is allowed
    assert says in decision.reason


@pytest.mark.parametrize("phase", [Phase.SETUP, Phase.VERIFY])
def test_a_grant_is_good_in_its_own_phases_only(phase: Phase) -> None:
    decision = decide_request(MANIFEST, phase, "openai", "POST", "/v1/chat/completions")
    assert not decision.allowed
    assert decision.reason == f"grant 'openai' belongs to agent, not to {phase}"


def test_a_grant_that_does_not_name_the_method_refuses_it() -> None:
    manifest = Manifest("run-1", (replace(OPENAI, methods=frozenset({"GET"})),))
    decision = decide_request(manifest, Phase.AGENT, "openai", "POST", "/v1/chat/completions")
    assert not decision.allowed


@given(st.text(), st.text(), st.text(), st.sampled_from(Phase))
def test_no_grant_is_no(route: str, method: str, path: str, phase: Phase) -> None:
    assert not decide_request(Manifest("run-1"), phase, route, method, path).allowed
    assert not decide_connect(Manifest("run-1"), phase, route, 443).allowed


@given(st.text(), st.text(), st.sampled_from(Phase))
def test_only_the_one_endpoint_is_ever_allowed(method: str, path: str, phase: Phase) -> None:
    decision = decide_request(MANIFEST, phase, "openai", method, path)
    if decision.allowed:
        assert (method, phase) == ("POST", Phase.AGENT)
        assert path in ("/v1/chat/completions", "/chat/completions")


@pytest.mark.parametrize(
    ("host", "port", "phase", "allowed", "says"),
    [
        ("files.packages.example", 443, Phase.SETUP, True, "granted"),
        ("FILES.packages.example.", 443, Phase.SETUP, True, "granted"),
        ("files.packages.example", 443, Phase.AGENT, False, "belongs to setup, not to agent"),
        ("files.packages.example", 80, Phase.SETUP, False, "on port 443 only, not on 80"),
        ("packages.example", 443, Phase.SETUP, False, "no grant covers"),
        ("a.b.packages.example", 443, Phase.SETUP, False, "no grant covers"),
        ("api.example", 443, Phase.AGENT, False, "no grant covers"),
        ("127.0.0.1", 443, Phase.SETUP, False, "no grant covers"),
        ("0x7f000001", 443, Phase.SETUP, False, "no grant covers a tunnel to 127.0.0.1"),
        ("no host", 443, Phase.SETUP, False, "not a host name"),
    ],
)
def test_a_tunnel_needs_host_port_and_phase(
    host: str, port: int, phase: Phase, allowed: bool, says: str
) -> None:
    decision = decide_connect(MANIFEST, phase, host, port)
    assert decision.allowed is allowed
    assert says in decision.reason


PLAIN = Grant(
    name="mirror",
    kind=GrantKind.TUNNEL,
    scheme="http",
    host="mirror.example",
    port=80,
    methods=frozenset({"GET", "HEAD"}),
    path_prefix="/debian",
    phases=frozenset({Phase.SETUP}),
)


@pytest.mark.parametrize(
    ("method", "host", "port", "path", "allowed", "says"),
    [
        ("GET", "mirror.example", 80, "/debian/dists", True, "granted"),
        ("GET", "mirror.example", 80, "/debian/a_1%2bdeb.deb", True, "granted"),
        ("HEAD", "MIRROR.example", 80, "/debian", True, "granted"),
        ("POST", "mirror.example", 80, "/debian", False, "takes GET, HEAD, not POST"),
        ("GET", "mirror.example", 80, "/debian-security", False, "paths below /debian only"),
        ("GET", "mirror.example", 80, "/", False, "paths below /debian only"),
        ("GET", "mirror.example", 80, "/debian/../x", False, "paths below /debian only"),
        ("GET", "mirror.example", 80, "/debian/%2e%2e/x", False, "paths below /debian only"),
        ("GET", "mirror.example", 81, "/debian", False, "on port 80 only"),
        ("GET", "other.example", 80, "/debian", False, "no grant covers"),
    ],
)
def test_plain_http_needs_host_port_method_and_path(
    method: str, host: str, port: int, path: str, allowed: bool, says: str
) -> None:
    decision = decide_plain(Manifest("r", (PLAIN,)), Phase.SETUP, method, host, port, path)
    assert decision.allowed is allowed
    assert says in decision.reason


def test_of_several_grants_for_one_host_any_may_cover_a_path() -> None:
    other = replace(PLAIN, name="security", path_prefix="/debian-security")
    manifest = Manifest("r", (PLAIN, other))
    for path, name in (("/debian/x", "mirror"), ("/debian-security/x", "security")):
        decision = decide_plain(manifest, Phase.SETUP, "GET", "mirror.example", 80, path)
        assert decision.grant is not None
        assert decision.grant.name == name


def test_plain_http_is_of_its_phase_and_scheme() -> None:
    manifest = Manifest("r", (PLAIN, PACKAGES))
    plain = decide_plain(manifest, Phase.AGENT, "GET", "mirror.example", 80, "/debian")
    assert plain.reason == "grant 'mirror' belongs to setup, not to agent"
    wrong = decide_plain(manifest, Phase.SETUP, "GET", "a.packages.example", 443, "/")
    assert wrong.reason == "a.packages.example is granted for https only, not for http"
    assert not decide_connect(manifest, Phase.SETUP, "mirror.example", 80).allowed


@pytest.mark.parametrize(
    ("addresses", "allowed", "says"),
    [
        (["93.184.215.14"], True, "granted"),
        (["2606:2800:21f:cb07::1", "93.184.215.14"], True, "granted"),
        ([], False, "has no address"),
        (["127.0.0.1"], False, "(loopback)"),
        (["93.184.215.14", "10.0.0.1"], False, "10.0.0.1 (private)"),
        (["::ffff:10.0.0.1"], False, "(private)"),
        (["169.254.169.254"], False, "a metadata service"),
    ],
)
def test_one_address_that_is_not_public_refuses_the_connection(
    addresses: list[str], allowed: bool, says: str
) -> None:
    decision = decide_addresses(PACKAGES, "files.packages.example", addresses)
    assert decision.allowed is allowed
    assert says in decision.reason


def test_a_listed_host_may_be_private_but_never_a_metadata_service() -> None:
    listed = replace(PACKAGES, private=True)
    assert decide_addresses(listed, "a.packages.example", ["10.0.0.1", "fd00::1"]).allowed
    assert not decide_addresses(listed, "a.packages.example", ["169.254.169.254"]).allowed
    assert decide_addresses(listed, "169.254.169.254", ["169.254.169.254"]).allowed


@pytest.mark.parametrize(
    ("hello", "allowed", "says"),
    [
        (ClientHello("api.example"), True, "is the CONNECT host"),
        (ClientHello("API.example."), True, "is the CONNECT host"),
        (ClientHello("other.example"), False, "names another server, other.example"),
        (ClientHello("x.api.example"), False, "names another server"),
        (ClientHello(None), False, "names no server"),
        (ClientHello("no host"), False, "a server that is no host"),
        (ClientHello(""), False, "a server that is no host"),
        (ClientHello("api.example", encrypted=True), False, "hides its server name"),
    ],
)
def test_a_tunnels_server_name_is_its_connect_host(
    hello: ClientHello, allowed: bool, says: str
) -> None:
    decision = decide_hello("api.example", hello)
    assert decision.allowed is allowed
    assert says in decision.reason


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"credential": "x"}, "no credential"),
        ({"wire": Wire.OPENAI}, "no credential"),
        ({"models": frozenset({"x"})}, "no credential"),
        ({"host": "192.0.2.1"}, "a host's name"),
        ({"host": "[2001:db8::1]"}, "a host's name"),
        ({"scheme": "ssh"}, "neither http nor https"),
        ({"scheme": "http", "methods": frozenset()}, "no method"),
    ],
)
def test_a_wrong_tunnel_stops_the_start(change: dict[str, object], says: str) -> None:
    with pytest.raises(BadManifest, match=says):
        check_manifest(Manifest("run-1", (replace(PACKAGES, **change),)))  # type: ignore[arg-type]


def test_a_route_that_names_its_models_serves_no_other() -> None:
    grant = replace(OPENAI, models=frozenset({"small", "large"}))
    assert decide_model(grant, "small").allowed
    refused = decide_model(grant, "dear")
    assert not refused.allowed
    assert refused.reason == "route 'openai' serves large, small, not 'dear'"
    assert decide_model(OPENAI, "any").allowed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "Open AI"}, "a name is"),
        ({"name": "a/b"}, "a name is"),
        ({"name": ""}, "a name is"),
        ({"port": 0}, "not a port"),
        ({"port": 65536}, "not a port"),
        ({"host": "*.com"}, "wildcard"),
        ({"host": "*.api.example"}, "not one normalised host"),
        ({"host": "API.example"}, "not one normalised host"),
        ({"host": "0x7f.1"}, "not one normalised host"),
        ({"host": ""}, "not a host name"),
        ({"scheme": "ftp"}, "neither http nor https"),
        ({"wire": None}, "wire"),
        ({"path_prefix": "/a/../b"}, "plain path"),
        ({"path_prefix": "a"}, "plain path"),
    ],
)
def test_a_wrong_grant_stops_the_start(change: dict[str, object], says: str) -> None:
    with pytest.raises(BadManifest, match=says):
        check_manifest(Manifest("run-1", (replace(OPENAI, **change),)))  # type: ignore[arg-type]


def test_two_grants_of_one_name_stop_the_start() -> None:
    with pytest.raises(BadManifest, match="two grants"):
        check_manifest(Manifest("run-1", (OPENAI, OPENAI)))


def test_a_good_manifest_passes() -> None:
    check_manifest(MANIFEST)


def test_the_hash_is_of_the_rights_not_of_the_run_or_the_order() -> None:
    other = Manifest("run-2", (PACKAGES, ANTHROPIC, replace(OPENAI, reason="other words")))
    assert manifest_hash(MANIFEST) == manifest_hash(other)
    assert len(manifest_hash(MANIFEST)) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"host": "b.example"},
        {"port": 444},
        {"scheme": "http"},
        {"path_prefix": "/a"},
        {"methods": frozenset({"GET"})},
        {"phases": frozenset({Phase.SETUP})},
        {"models": frozenset({"x"})},
        {"credential": "x"},
        {"private": True},
        {"name": "x"},
    ],
)
def test_any_other_right_is_another_hash(change: dict[str, object]) -> None:
    changed = Manifest("run-1", (replace(OPENAI, **change), ANTHROPIC, PACKAGES))  # type: ignore[arg-type]
    assert manifest_hash(changed) != manifest_hash(MANIFEST)


def test_a_host_that_is_granted_whole_is_granted_with_every_path() -> None:
    manifest = Manifest("r", (replace(PLAIN, path_prefix="/"),))
    for path in ("/", "/a%2e", "/a//b", "/a;b"):
        assert decide_plain(manifest, Phase.SETUP, "GET", "mirror.example", 80, path).allowed


def test_a_model_route_takes_post_alone_whatever_its_grant_says() -> None:
    manifest = Manifest("r", (replace(OPENAI, methods=frozenset({"GET", "POST"})),))
    decision = decide_request(manifest, Phase.AGENT, "openai", "GET", "/v1/chat/completions")
    assert not decision.allowed


def test_a_model_route_without_a_wire_serves_nothing() -> None:
    manifest = Manifest("r", (replace(OPENAI, wire=None),))
    decision = decide_request(manifest, Phase.AGENT, "openai", "POST", "/v1/chat/completions")
    assert not decision.allowed


@pytest.mark.parametrize(
    "grant",
    [
        replace(OPENAI, path_prefix="/llm"),
        PLAIN,
        replace(PLAIN, host="192.0.2.1"),
        replace(PACKAGES, methods=frozenset()),
    ],
)
def test_other_good_grants_pass(grant: Grant) -> None:
    check_manifest(Manifest("r", (grant,)))


@pytest.mark.parametrize(
    ("wire", "path", "model"),
    [
        (Wire.GEMINI, "/v1beta/models/g-1.5:generateContent", "g-1.5"),
        (Wire.GEMINI, "/v1beta/models/g:streamGenerateContent", "g"),
        (Wire.GEMINI, "/v1beta/models/g:countTokens", None),
        (Wire.GEMINI, "/v1beta/models/../g:generateContent", None),
        (Wire.AZURE, "/openai/deployments/mine/chat/completions", "mine"),
        (Wire.AZURE, "/openai/deployments/a/b/chat/completions", None),
        (Wire.OPENAI, "/v1/chat/completions", None),
        (None, "/v1/chat/completions", None),
    ],
)
def test_where_the_path_names_the_model_it_is_read_there(
    wire: Wire | None, path: str, model: str | None
) -> None:
    assert model_in_path(replace(OPENAI, wire=wire), path) == model
