"""What a run may reach beside its model: from the operator's settings, narrowed by the repository.

The operator's word is the most that any run gets. A repository may leave things out; what it asks
for beyond that is an error that names the setting, never a wider grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from app.repo_config import EgressWish
from app.settings import Settings, SettingsError
from egress.hosts import (
    DEFAULT_PORTS,
    BadHost,
    HostPattern,
    parse_base_url,
    parse_pattern,
)
from egress.policy import BadManifest, Grant, GrantKind, Manifest, Phase, check_manifest
from egress.routes import GUEST_BASE
from sandbox.template.host import HostConfig, collect_tools
from sandbox.template.registries import Registry, find_registries

READ_METHODS = frozenset({"GET", "HEAD"})
# Every tool reads some of these; loopback is the guest's own, the broker's address included.
PROXY_ENV: Mapping[str, str] = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), GUEST_BASE),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1"),
}
# What npm asks beside the packages: of no use in a machine, and refused where only files are open.
QUIET_ENV: Mapping[str, str] = {
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
}
PINNED_ENV: Mapping[str, str] = {"PIP_REQUIRE_HASHES": "1"}
_HOST_GRANT = "host"


@dataclass(frozen=True)
class Egress:
    """Tunnels, and what the tools that use them are told. `troubles` are for the operator."""

    grants: tuple[Grant, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    pinned_only: bool = False
    troubles: tuple[str, ...] = ()

    def environment(self, phase: Phase) -> dict[str, str]:
        """Return what a command's environment needs in a phase: nothing where nothing is open."""
        if not any(phase in grant.phases for grant in self.grants):
            return {}
        pinned = PINNED_ENV if self.pinned_only else {}
        return {**PROXY_ENV, **QUIET_ENV, **self.env, **pinned}


def operator_egress(settings: Settings, rootfs: Path) -> Egress:
    """Return the most that a run may reach. SettingsError names what is wrong."""
    wanted = [each for each in _registries_in(rootfs.resolve()) if each.tool in settings.registries]
    phases = frozenset(Phase(phase) for phase in settings.registry_phases)
    try:
        private = [parse_pattern(each) for each in settings.allowed_private_hosts]
        made = [*_registry_grants(wanted, phases), *_host_grants(settings.allowed_hosts)]
        grants = tuple(_mark_private(grant, private) for grant in made)
        check_manifest(Manifest("", grants))
    except (BadHost, BadManifest) as error:
        raise SettingsError((f"DRYDOCK_ALLOWED_HOSTS or _PRIVATE_HOSTS: {error}",)) from error
    return Egress(
        grants=grants,
        env={name: value for each in wanted for name, value in each.env},
        pinned_only=settings.pinned_only,
        troubles=tuple(each.trouble for each in wanted if each.trouble),
    )


def check_egress(settings: Settings) -> None:
    """Refuse to start with a wrong rule. SettingsError."""
    operator_egress(settings, Path("/nonexistent"))


def narrow(egress: Egress, wish: EgressWish | None) -> Egress | str:
    """Leave out what a repository does not want; a sentence when it asks for what is not open."""
    if wish is None:
        return egress
    tools = {_tool_of(grant) for grant in egress.grants} - {_HOST_GRANT}
    hosts = {grant.host for grant in egress.grants if _tool_of(grant) == _HOST_GRANT}
    asked_tools = tools if wish.registries is None else set(wish.registries)
    asked_hosts = hosts if wish.hosts is None else set(wish.hosts)
    beyond = sorted((asked_tools - tools) | (asked_hosts - hosts))
    if beyond:
        return (
            f"egress: {', '.join(beyond)} is not open on this host; a repository can only leave "
            "out what the operator allows (DRYDOCK_REGISTRIES, DRYDOCK_ALLOWED_HOSTS)"
        )
    kept = (
        grant
        for grant in egress.grants
        if (_tool_of(grant) in asked_tools)
        or (_tool_of(grant) == _HOST_GRANT and grant.host in asked_hosts)
    )
    return replace(egress, grants=tuple(kept))


@lru_cache(maxsize=8)
def _registries_in(rootfs: Path) -> tuple[Registry, ...]:
    """Asked once by each process, and only for tools that the template has: asking is slow."""
    has = {registry.tool for registry in find_registries(rootfs, HostConfig())}
    return find_registries(rootfs, collect_tools(tools=has)) if has else ()


def _registry_grants(registries: Iterable[Registry], phases: frozenset[Phase]) -> list[Grant]:
    grants = []
    for registry in registries:
        places = dict.fromkeys(_place_of(url) for url in registry.urls)
        for number, (scheme, host, port, path) in enumerate(places, 1):
            grants.append(
                Grant(
                    name=registry.tool if number == 1 else f"{registry.tool}.{number}",
                    kind=GrantKind.TUNNEL,
                    scheme=scheme,
                    host=host,
                    port=port,
                    methods=READ_METHODS if scheme == "http" else frozenset({"CONNECT"}),
                    path_prefix=path,
                    phases=phases,
                    reason=f"{registry.tool} is configured with it",
                )
            )
    return grants


def _place_of(url: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port and path; a TLS tunnel's path is nothing that we can see."""
    base = parse_base_url(url)
    return base.scheme, base.host, base.port, (base.path or "/") if base.scheme == "http" else "/"


def _host_grants(listed: Iterable[str]) -> list[Grant]:
    return [_host_grant(f"{_HOST_GRANT}.{n}", text) for n, text in enumerate(listed, 1)]


def _host_grant(name: str, text: str) -> Grant:
    """Read `[http://|https://]HOST[:PORT][/PATH] [PHASE …]`; TLS and the set-up by default."""
    address, *words = text.split()
    scheme, separator, rest = address.rpartition("://")
    authority, slash, path = rest.partition("/")
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, ""
    scheme = scheme if separator else "https"
    if scheme not in DEFAULT_PORTS or (port and not port.isdecimal()):
        raise BadHost(f"{address!r}: write [https://]HOST[:PORT]")
    if scheme == "https" and path:
        raise BadHost(f"{address!r}: a TLS tunnel shows no path, so none can be granted")
    pattern = parse_pattern(host)
    return Grant(
        name=name,
        kind=GrantKind.TUNNEL,
        scheme=scheme,
        host=f"*.{pattern.text}" if pattern.wildcard else pattern.text,
        port=int(port) if port else DEFAULT_PORTS[scheme],
        methods=READ_METHODS if scheme == "http" else frozenset({"CONNECT"}),
        path_prefix=slash + path.rstrip("/") if path.rstrip("/") else "/",
        phases=_phases_of(address, words),
        reason="the operator lists it",
    )


def _phases_of(address: str, words: list[str]) -> frozenset[Phase]:
    known = {phase.value for phase in Phase}
    if unknown := set(words) - known:
        raise BadHost(f"{address!r}: {min(unknown)!r} is none of {', '.join(sorted(known))}")
    return frozenset(Phase(word) for word in words) or frozenset({Phase.SETUP})


def _mark_private(grant: Grant, listed: Iterable[HostPattern]) -> Grant:
    """Say so of a host that the operator lists as one whose addresses need not be public."""
    own = parse_pattern(grant.host)
    private = any(each == own or (not own.wildcard and each.matches(own.text)) for each in listed)
    return replace(grant, private=private)


def _tool_of(grant: Grant) -> str:
    return grant.name.partition(".")[0]
