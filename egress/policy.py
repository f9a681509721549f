"""Grants and decisions: what one run may reach, as values, and the reason for each answer.

Pure: no clock, network or environment. No grant is no.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

from egress.hello import ClientHello
from egress.hosts import (
    BadHost,
    address_class,
    is_address,
    is_escaped_path,
    is_plain_path,
    normalise_host,
    parse_pattern,
)


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
    AZURE = "azure"
    GEMINI = "gemini"


@dataclass(frozen=True)
class Grant:
    """One allowed upstream. `name` is the route's name (`/model/<name>/…`) or the tunnel's label.

    `credential` names the injector, never holds the secret. A model route's `path_prefix` is put
    before the guest's path; its `models` are the only ones that may be asked for (empty: any).
    A tunnel with the scheme https is reached by CONNECT and carries TLS only; with http, by
    requests in absolute form with one of `methods`, below `path_prefix`. `private` says that the
    operator lists the host although its addresses are not public.
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
    private: bool = False


@dataclass(frozen=True)
class Manifest:
    """Everything one run may reach; immutable, hashed into the pull request.

    `terms` are the other things that bound it, as name and value: caps, refs, TTL, tier, template.
    """

    run_id: str
    grants: tuple[Grant, ...] = field(default=())
    terms: tuple[tuple[str, str], ...] = field(default=())


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
# Azure and Gemini name the model in the path.
_MODEL = r"(?P<model>[A-Za-z0-9][A-Za-z0-9._-]*)"
ENDPOINTS: Mapping[Wire, re.Pattern[str]] = {
    Wire.OPENAI: re.compile(r"(/v1)?/chat/completions"),
    Wire.ANTHROPIC: re.compile(r"/v1/messages"),
    Wire.AZURE: re.compile(rf"/openai/deployments/{_MODEL}/chat/completions"),
    Wire.GEMINI: re.compile(rf"(/v1|/v1beta|/v1alpha)/models/{_MODEL}:(stream)?[gG]enerateContent"),
}

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def decide_connect(manifest: Manifest, phase: Phase, host: str, port: int) -> Decision:
    """Decide a tunnel to `host:port`. The host may come in any spelling; no grant is no."""
    found = _find_targets(manifest, "https", host, port)
    return found if isinstance(found, Decision) else _decide_phase(found, phase)


def decide_plain(
    manifest: Manifest, phase: Phase, method: str, host: str, port: int, path: str
) -> Decision:
    """Decide a plain HTTP request to `http://host:port/path`. The path comes without query."""
    found = _find_targets(manifest, "http", host, port)
    if isinstance(found, Decision):
        return found
    below = [grant for grant in found if _is_below(grant.path_prefix, path)]
    if not below:
        prefixes = ", ".join(grant.path_prefix for grant in found)
        return Decision(False, f"{host} is granted for paths below {prefixes} only")
    with_method = [grant for grant in below if method in grant.methods]
    if not with_method:
        allowed = ", ".join(sorted(below[0].methods))
        return Decision(False, f"grant {below[0].name!r} takes {allowed}, not {method}")
    return _decide_phase(with_method, phase)


def decide_addresses(grant: Grant, host: str, addresses: Sequence[str]) -> Decision:
    """Decide a connection by what the host's name resolved to: one bad answer is no.

    Metadata services are out of reach even for a listed host, unless its name is that address.
    """
    if not addresses:
        return Decision(False, f"{host} has no address")
    for address in addresses:
        found = address_class(address)
        if found == "metadata" and host != address:
            return Decision(False, f"{host} resolves to {address}, a metadata service")
        if found is not None and not grant.private:
            return Decision(False, f"{host} resolves to {address} ({found}), not a public address")
    return Decision(True, grant.reason or "granted", grant)


def decide_hello(host: str, hello: ClientHello) -> Decision:
    """Decide what a tunnel to `host` (normalised) may carry, by how its TLS begins."""
    if hello.encrypted:
        return Decision(False, f"TLS to {host} hides its server name (ECH)")
    if hello.server_name is None:
        return Decision(False, f"TLS to {host} names no server (SNI)")
    try:
        name = normalise_host(hello.server_name)
    except BadHost:
        return Decision(False, f"TLS to {host} names a server that is no host")
    if name != host:
        return Decision(False, f"TLS to {host} names another server, {name}")
    return Decision(True, "the server name is the CONNECT host")


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
    return in_phase if grant is None else _decide_endpoint(grant, method, path)


def model_in_path(grant: Grant, path: str) -> str | None:
    """Return the model that a route's path names (below the route); None where the body does."""
    found = ENDPOINTS[grant.wire].fullmatch(path) if grant.wire else None
    return found.groupdict().get("model") if found else None


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
    """Return hex SHA-256 over the grants and terms in canonical JSON.

    Neither the run's id nor the order of the grants is in it: the same rights, the same hash, so
    that what `policy show` prints beforehand equals what the pull request shows.
    """
    grants = sorted(_canonical(grant_facts(grant)) for grant in manifest.grants)
    covered = _canonical([grants, sorted(manifest.terms)])
    return hashlib.sha256(covered.encode()).hexdigest()


def _find_targets(manifest: Manifest, scheme: str, host: str, port: int) -> list[Grant] | Decision:
    """Return the grants for a scheme, host and port, or the refusal that names what is missing."""
    try:
        name = normalise_host(host)
    except BadHost as error:
        return Decision(False, str(error))
    named = [grant for grant in _tunnels(manifest) if parse_pattern(grant.host).matches(name)]
    if not named:
        return Decision(False, f"no grant covers a tunnel to {name}")
    spoken = [grant for grant in named if grant.scheme == scheme]
    if not spoken:
        return Decision(False, f"{name} is granted for {named[0].scheme} only, not for {scheme}")
    on_port = [grant for grant in spoken if grant.port == port]
    if not on_port:
        ports = ", ".join(str(grant.port) for grant in spoken)
        return Decision(False, f"{name} is granted on port {ports} only, not on {port}")
    return on_port


def _tunnels(manifest: Manifest) -> list[Grant]:
    return [grant for grant in manifest.grants if grant.kind is GrantKind.TUNNEL]


def _is_below(prefix: str, path: str) -> bool:
    """Say whether a path lies below a prefix; under a narrow one it must have one reading only."""
    if prefix == "/":
        return path.startswith("/")
    stem = prefix.rstrip("/")
    return is_escaped_path(path) and (path == stem or path.startswith(f"{stem}/"))


def _decide_phase(grants: list[Grant], phase: Phase) -> Decision:
    for grant in grants:
        if phase in grant.phases:
            return Decision(True, grant.reason or "granted", grant)
    phases = ", ".join(sorted({each.value for grant in grants for each in grant.phases}))
    name = grants[0].name
    return Decision(False, f"grant {name!r} belongs to {phases or 'no phase'}, not to {phase}")


def _decide_endpoint(grant: Grant, method: str, path: str) -> Decision:
    if grant.wire is None or not ENDPOINTS[grant.wire].fullmatch(path):
        return Decision(False, f"model route {grant.name!r} does not serve this path")
    if method != "POST" or method not in grant.methods:
        return Decision(False, f"model route {grant.name!r} takes POST, not {method}", grant)
    return Decision(True, grant.reason or "granted", grant)


def _check_grant(grant: Grant) -> None:
    problem = _common_problem(grant)
    if problem is None:
        is_route = grant.kind is GrantKind.MODEL_ROUTE
        problem = _route_problem(grant) if is_route else _tunnel_problem(grant)
    if problem is not None:
        raise BadManifest(f"grant {grant.name!r}: {problem}")


def _common_problem(grant: Grant) -> str | None:
    if not _NAME.fullmatch(grant.name):
        return "a name is lower-case letters, digits, dot, dash and underscore, at most 64"
    if grant.scheme not in ("http", "https"):
        return f"{grant.scheme!r} is neither http nor https"
    if not 0 < grant.port < 65536:
        return f"{grant.port} is not a port"
    if not is_plain_path(grant.path_prefix):
        return f"{grant.path_prefix!r} is not a plain path"
    try:
        parse_pattern(grant.host)
    except BadHost as error:
        return str(error)
    return None


def _route_problem(grant: Grant) -> str | None:
    if grant.wire is None:
        return "a model route needs a wire format"
    if parse_pattern(grant.host).wildcard or normalise_host(grant.host) != grant.host:
        return f"{grant.host!r} is not one normalised host"
    return None


def _tunnel_problem(grant: Grant) -> str | None:
    if grant.credential is not None or grant.wire is not None or grant.models:
        return "a tunnel has no credential, wire format or models"
    if grant.scheme == "https" and is_address(parse_pattern(grant.host).text):
        return "TLS is granted to a host's name, which its SNI can be held against"
    if grant.scheme == "http" and not grant.methods:
        return "no method is granted"
    return None


def grant_facts(grant: Grant) -> dict[str, object]:
    """Return a grant as JSON values, without its reason: what the manifest's hash covers."""
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
