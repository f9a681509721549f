from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.policy import (
    BadManifest,
    Grant,
    GrantKind,
    Manifest,
    Phase,
    Wire,
    check_manifest,
    decide_connect,
    decide_model,
    decide_request,
    manifest_hash,
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
        {"name": "x"},
    ],
)
def test_any_other_right_is_another_hash(change: dict[str, object]) -> None:
    changed = Manifest("run-1", (replace(OPENAI, **change), ANTHROPIC, PACKAGES))  # type: ignore[arg-type]
    assert manifest_hash(changed) != manifest_hash(MANIFEST)
