"""Model routes: from a LiteLLM model name and a base URL to a grant, and to what Aider is given.

Pure. How LiteLLM joins base and path, by vendor (litellm 1.81, `main.py`,
`llms/anthropic/common_utils.py`): OpenAI's client posts to `{OPENAI_API_BASE}/chat/completions`,
so a base holds `/v1` where the server wants one; Anthropic's adds `/v1/messages` to
`{ANTHROPIC_API_BASE}`. The guest's base is shaped so that both sides join to the same path.

A route is named after LiteLLM's provider, which also is how its models are priced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from egress.hosts import BadHost, BaseUrl, is_loopback, parse_base_url, parse_pattern
from egress.inject import PLACEHOLDER, Credential
from egress.policy import Grant, GrantKind, Wire

GUEST_BASE = "http://127.0.0.1:3128"

_BARE_OPENAI = re.compile(r"(gpt-|chatgpt-|o\d)")
_BARE_ANTHROPIC = re.compile(r"claude-")


class UnsupportedModel(ValueError):
    """The model's name or base cannot be served; the message says what can."""


@dataclass(frozen=True)
class _Vendor:
    """One provider: its wire, its own API (no registry), and the names that LiteLLM reads."""

    wire: Wire
    default_base: str
    key_header: str
    # What a base may end with because the client adds it itself.
    endings: tuple[str, ...]
    base_variable: str
    key_variable: str


_VENDORS: Mapping[str, _Vendor] = {
    "openai": _Vendor(
        wire=Wire.OPENAI,
        default_base="https://api.openai.com/v1",
        key_header="authorization",
        endings=("/chat/completions",),
        base_variable="OPENAI_API_BASE",
        key_variable="OPENAI_API_KEY",
    ),
    "anthropic": _Vendor(
        wire=Wire.ANTHROPIC,
        default_base="https://api.anthropic.com",
        key_header="x-api-key",
        endings=("/messages", "/v1"),
        base_variable="ANTHROPIC_API_BASE",
        key_variable="ANTHROPIC_API_KEY",
    ),
}

_SUPPORTED = (
    "openai/<model> and anthropic/<model> (also gpt-…, o…, claude-…); any other server that speaks "
    "one of the two formats works as openai/<model> or anthropic/<model> with its base URL "
    "(DRYDOCK_MODEL_API_BASE)"
)


@dataclass(frozen=True)
class ModelRoute:
    """One model, ready to be granted and to be given to Aider.

    `aider_env` and `aider_args` hold the guest's address and the placeholder, never a key.
    """

    model: str
    provider: str
    grant: Grant
    wire: Wire
    key_header: str
    aider_env: Mapping[str, str]
    aider_args: tuple[str, ...]

    def credential(self, key: str) -> Credential:
        """Bind a key to this route's upstream. BadCredential for one that is no header value."""
        origin = (self.grant.scheme, self.grant.host, self.grant.port)
        return Credential(self.provider, self.key_header, key, origin)


def model_route(
    model: str,
    api_base: str | None = None,
    allow_plain_http_hosts: Collection[str] = (),
    *,
    weak_model: str | None = None,
    with_key: bool = True,
    guest_base: str = GUEST_BASE,
) -> ModelRoute:
    """Build the route for a model as Aider takes it. UnsupportedModel says what to write instead.

    `weak_model` (commit messages; the model itself by default) must be of the same provider.
    Plain HTTP is for loopback and the hosts that the operator lists. Without a key
    (`with_key=False`, a local server) nothing is injected.
    """
    provider, name = _split(model)
    weak_provider, weak_name = _split(weak_model or model)
    if weak_provider != provider:
        raise UnsupportedModel(f"{weak_model!r} is not of the same provider as {model!r}")
    vendor = _VENDORS[provider]
    base = _upstream_base(vendor, api_base, allow_plain_http_hosts)
    prefix, versioned = _split_version(base.path, vendor)
    guest = f"{guest_base}/model/{provider}{versioned}"
    grant = Grant(
        name=provider,
        kind=GrantKind.MODEL_ROUTE,
        scheme=base.scheme,
        host=base.host,
        port=base.port,
        methods=frozenset({"POST"}),
        path_prefix=prefix or "/",
        credential=provider if with_key else None,
        wire=vendor.wire,
        reason=f"the model {model}",
        models=frozenset({name, weak_name}),
    )
    return ModelRoute(
        model=model,
        provider=provider,
        grant=grant,
        wire=vendor.wire,
        key_header=vendor.key_header,
        aider_env={vendor.base_variable: guest, vendor.key_variable: PLACEHOLDER},
        aider_args=_aider_args(vendor, guest),
    )


def _split(model: str) -> tuple[str, str]:
    """Return LiteLLM's provider and the name that the provider is asked for."""
    provider, slash, name = model.partition("/")
    if slash and name and provider in _VENDORS:
        return provider, name
    if not slash and _BARE_OPENAI.match(model):
        return "openai", model
    if not slash and _BARE_ANTHROPIC.match(model):
        return "anthropic", model
    raise UnsupportedModel(f"the model {model!r} is not supported; supported are {_SUPPORTED}")


def _upstream_base(
    vendor: _Vendor, api_base: str | None, allow_plain_http_hosts: Collection[str]
) -> BaseUrl:
    try:
        base = parse_base_url(api_base or vendor.default_base)
        listed = any(parse_pattern(each).matches(base.host) for each in allow_plain_http_hosts)
    except BadHost as error:
        raise UnsupportedModel(str(error)) from None
    if base.scheme == "http" and not (listed or is_loopback(base.host)):
        raise UnsupportedModel(
            f"plain HTTP to {base.host} would show the key to the network: use https, or list the "
            "host among those that plain HTTP is allowed to"
        )
    path = base.path
    for ending in vendor.endings:
        path = path.removesuffix(ending)
    return BaseUrl(base.scheme, base.host, base.port, path)


def _split_version(path: str, vendor: _Vendor) -> tuple[str, str]:
    """Return the grant's prefix, and what the guest's base needs for the same joined path."""
    if vendor.wire is Wire.OPENAI and path.endswith("/v1"):
        return path.removesuffix("/v1"), "/v1"
    return path, ""


def _aider_args(vendor: _Vendor, guest: str) -> tuple[str, ...]:
    """Say it again as arguments: they win over whatever Aider may find in a file."""
    return (
        "--set-env",
        f"{vendor.base_variable}={guest}",
        "--set-env",
        f"{vendor.key_variable}={PLACEHOLDER}",
    )
