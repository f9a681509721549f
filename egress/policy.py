"""Grants and decisions: what one run may reach, as values, and the reason for each answer.

Pure: no clock, network or environment. No grant is no.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from egress.hosts import BadHost, is_plain_path, normalise_host, parse_pattern


class Phase(StrEnum):
    SETUP = "setup"
    AGENT = "agent"
    VERIFY = "verify"


class GrantKind(StrEnum):
    MODEL_ROUTE = "model_route"
    TUNNEL = "tunnel"


class Wire(StrEnum):
    """Which vendor's format a model route speaks; decides credential header and usage fields."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True)
class Grant:
    """One allowed upstream. `name` is the route's name (`/model/<name>/…`) or the tunnel's label.

    `credential` names the injector, never holds the secret. A model route's `path_prefix` is put
    before the guest's path; its `models` are the only ones that may be asked for (empty: any).
    """

    name: str
    kind: GrantKind
    scheme: str
    host: str
    port: int
    methods: frozenset[str] = frozenset({"GET", "POST"})
    path_prefix: str = "/"
    credential: str | None = None
    wire: Wire | None = None
    phases: frozenset[Phase] = frozenset({Phase.AGENT})
    reason: str = ""
    models: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Manifest:
    """Everything one run may reach; immutable, hashed into the pull request."""

    run_id: str
    grants: tuple[Grant, ...] = field(default=())


@dataclass(frozen=True)
class Decision:
    allowed: bool
    reason: str
    grant: Grant | None = None


@dataclass(frozen=True)
class Refusal:
    """One refused attempt, as it is recorded and shown. `target` is cleaned for display."""

    at: float
    phase: Phase
    target: str
    reason: str


class BadManifest(ValueError):
    """The manifest itself is wrong; a run must not start with it."""


# What a model route serves, by wire. The shorter forms are for upstreams whose base has no `/v1`.
ENDPOINTS: Mapping[Wire, frozenset[str]] = {
    Wire.OPENAI: frozenset({"/v1/chat/completions", "/chat/completions"}),
    Wire.ANTHROPIC: frozenset({"/v1/messages"}),
}

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def decide_connect(manifest: Manifest, phase: Phase, host: str, port: int) -> Decision:
    """Decide a tunnel to `host:port`. The host may come in any spelling; no grant is no."""
    try:
        name = normalise_host(host)
    except BadHost as error:
        return Decision(False, str(error))
    named = [grant for grant in _tunnels(manifest) if parse_pattern(grant.host).matches(name)]
    if not named:
        return Decision(False, f"no grant covers a tunnel to {name}")
    on_port = [grant for grant in named if grant.port == port]
    if not on_port:
        ports = ", ".join(str(grant.port) for grant in named)
        return Decision(False, f"{name} is granted on port {ports} only, not on {port}")
    return _decide_phase(on_port, phase)


def decide_request(
    manifest: Manifest, phase: Phase, route: str, method: str, path: str
) -> Decision:
    """Decide a request to a model route. `path` is what follows `/model/<route>`, without query."""
    named = [
        grant
        for grant in manifest.grants
        if grant.kind is GrantKind.MODEL_ROUTE and grant.name == route
    ]
    if not named:
        return Decision(False, f"no grant is a model route named {route!r}")
    in_phase = _decide_phase(named, phase)
    grant = in_phase.grant
    if not in_phase.allowed or grant is None:
        return in_phase
    return _decide_endpoint(grant, method, path)


def decide_model(grant: Grant, model: str) -> Decision:
    """Decide which model a granted route may be asked for, by the name in the request body."""
    if grant.models and model not in grant.models:
        allowed = ", ".join(sorted(grant.models))
        return Decision(False, f"route {grant.name!r} serves {allowed}, not {model!r}")
    return Decision(True, grant.reason or "granted", grant)


def check_manifest(manifest: Manifest) -> None:
    """Raise BadManifest for anything a decision could stumble over: called before a run starts."""
    names = [grant.name for grant in manifest.grants]
    for grant in manifest.grants:
        if names.count(grant.name) > 1:
            raise BadManifest(f"two grants are named {grant.name!r}")
        _check_grant(grant)


def manifest_hash(manifest: Manifest) -> str:
    """Return hex SHA-256 over the grants in canonical JSON.

    Neither the run's id nor the order of the grants is in it: the same rights, the same hash, so
    that what `policy show` prints beforehand equals what the pull request shows.
    """
    grants = sorted(_canonical(_grant_facts(grant)) for grant in manifest.grants)
    return hashlib.sha256(_canonical(grants).encode()).hexdigest()


def _tunnels(manifest: Manifest) -> list[Grant]:
    return [grant for grant in manifest.grants if grant.kind is GrantKind.TUNNEL]


def _decide_phase(grants: list[Grant], phase: Phase) -> Decision:
    for grant in grants:
        if phase in grant.phases:
            return Decision(True, grant.reason or "granted", grant)
    phases = ", ".join(sorted({each.value for grant in grants for each in grant.phases}))
    name = grants[0].name
    return Decision(False, f"grant {name!r} belongs to {phases or 'no phase'}, not to {phase}")


def _decide_endpoint(grant: Grant, method: str, path: str) -> Decision:
    endpoints = ENDPOINTS[grant.wire] if grant.wire else frozenset()
    if path not in endpoints:
        return Decision(False, f"model route {grant.name!r} does not serve this path")
    if method != "POST" or method not in grant.methods:
        return Decision(False, f"model route {grant.name!r} takes POST, not {method}", grant)
    return Decision(True, grant.reason or "granted", grant)


def _check_grant(grant: Grant) -> None:
    problem = _common_problem(grant)
    if problem is None and grant.kind is GrantKind.MODEL_ROUTE:
        problem = _route_problem(grant)
    if problem is not None:
        raise BadManifest(f"grant {grant.name!r}: {problem}")


def _common_problem(grant: Grant) -> str | None:
    if not _NAME.fullmatch(grant.name):
        return "a name is lower-case letters, digits, dot, dash and underscore, at most 64"
    if not 0 < grant.port < 65536:
        return f"{grant.port} is not a port"
    if grant.path_prefix != "/" and not is_plain_path(grant.path_prefix):
        return f"{grant.path_prefix!r} is not a plain path"
    try:
        parse_pattern(grant.host)
    except BadHost as error:
        return str(error)
    return None


def _route_problem(grant: Grant) -> str | None:
    if grant.scheme not in ("http", "https"):
        return f"{grant.scheme!r} is neither http nor https"
    if grant.wire is None:
        return "a model route needs a wire format"
    if parse_pattern(grant.host).wildcard or normalise_host(grant.host) != grant.host:
        return f"{grant.host!r} is not one normalised host"
    return None


def _grant_facts(grant: Grant) -> dict[str, object]:
    facts: dict[str, object] = {
        each.name: getattr(grant, each.name) for each in fields(grant) if each.name != "reason"
    }
    return facts | {
        "methods": sorted(grant.methods),
        "phases": sorted(grant.phases),
        "models": sorted(grant.models),
    }


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
