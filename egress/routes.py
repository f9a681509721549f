"""Model routes: from a LiteLLM model name and a base URL to a grant, and to what Aider is given.

Pure. How LiteLLM joins base and path, by vendor (litellm 1.81, `main.py`,
`llms/anthropic/common_utils.py`, `llms/vertex_ai/vertex_llm_base.py`): OpenAI's client posts to
`{OPENAI_API_BASE}/chat/completions`, so a base holds `/v1` where the server wants one, and so do
those that speak its format (OpenRouter, DeepSeek, vLLM, LM Studio, LiteLLM's proxy); Anthropic's
adds `/v1/messages` to `{ANTHROPIC_API_BASE}`; Azure's `/openai/deployments/<model>/…`; Gemini's
`/models/<model>:generateContent` to a base with the API's version. The guest's base is shaped so
that both sides join to the same path.

Ollama is asked in OpenAI's format, which it serves below `/v1`: Aider is then given
`openai/<model>`.

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
_VERSION = re.compile(r"/v1(beta|alpha)?\Z")
_BARE_ANTHROPIC = re.compile(r"claude-")


class UnsupportedModel(ValueError):
    """The model's name or base cannot be served; the message says what can."""


@dataclass(frozen=True)
class _Vendor:
    """One provider: its wire, its own API (no registry), and the names that LiteLLM reads.

    `default_base` is None where everybody runs a server of their own. `endings` are what a base may
    end with because the client adds it itself; `version` is what it must end with, and gets.
    """

    wire: Wire
    default_base: str | None
    stem: str
    key_header: str = "authorization"
    endings: tuple[str, ...] = ("/chat/completions",)
    version: str = ""
    given_as: str | None = None
    more_env: tuple[tuple[str, str], ...] = ()

    @property
    def base_variable(self) -> str:
        return f"{self.stem}_API_BASE"

    @property
    def key_variable(self) -> str:
        return f"{self.stem}_API_KEY"


_OLLAMA = _Vendor(Wire.OPENAI, "http://127.0.0.1:11434", "OPENAI", version="/v1", given_as="openai")

# Azure's general availability version of the API that LiteLLM's client speaks.
_AZURE_VERSION = "2024-10-21"

_VENDORS: Mapping[str, _Vendor] = {
    "openai": _Vendor(Wire.OPENAI, "https://api.openai.com/v1", "OPENAI"),
    "anthropic": _Vendor(
        Wire.ANTHROPIC,
        "https://api.anthropic.com",
        "ANTHROPIC",
        key_header="x-api-key",
        endings=("/messages", "/v1"),
    ),
    "gemini": _Vendor(
        Wire.GEMINI,
        "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI",
        key_header="x-goog-api-key",
        endings=("/models",),
        version="/v1beta",
    ),
    "azure": _Vendor(
        Wire.AZURE,
        None,
        "AZURE",
        key_header="api-key",
        endings=("/openai",),
        more_env=(("AZURE_API_VERSION", _AZURE_VERSION),),
    ),
    "openrouter": _Vendor(Wire.OPENAI, "https://openrouter.ai/api/v1", "OPENROUTER"),
    "deepseek": _Vendor(Wire.OPENAI, "https://api.deepseek.com/beta", "DEEPSEEK"),
    "hosted_vllm": _Vendor(Wire.OPENAI, None, "HOSTED_VLLM"),
    "litellm_proxy": _Vendor(Wire.OPENAI, None, "LITELLM_PROXY"),
    "lm_studio": _Vendor(Wire.OPENAI, "http://127.0.0.1:1234/v1", "LM_STUDIO"),
    "ollama": _OLLAMA,
    "ollama_chat": _OLLAMA,
}

_SUPPORTED = (
    f"{', '.join(f'{name}/<model>' for name in _VENDORS)} (also gpt-…, o…, claude-…); any other "
    "server that speaks one of these formats works as openai/<model> or anthropic/<model> with its "
    "base URL (DRYDOCK_MODEL_API_BASE)"
)


@dataclass(frozen=True)
class ModelRoute:
    """One model, ready to be granted and to be given to Aider, by the name `aider_model`.

    `aider_env` and `aider_args` hold the guest's address and the placeholder, never a key.
    """

    model: str
    provider: str
    aider_model: str
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
    api_version: str | None = None,
    guest_base: str = GUEST_BASE,
) -> ModelRoute:
    """Build the route for a model as Aider takes it. UnsupportedModel says what to write instead.

    `weak_model` (commit messages; the model itself by default) must be of the same provider.
    Plain HTTP is for loopback and the hosts that the operator lists. Without a key
    (`with_key=False`, a local server) nothing is injected. `api_version` is Azure's.
    """
    provider, name = _split(model)
    weak_provider, weak_name = _split(weak_model or model)
    if weak_provider != provider:
        raise UnsupportedModel(f"{weak_model!r} is not of the same provider as {model!r}")
    vendor = _VENDORS[provider]
    base = _upstream_base(vendor, api_base, allow_plain_http_hosts)
    prefix, versioned = _split_version(base.path, vendor)
    guest = f"{guest_base}/model/{provider}{versioned}"
    env = {
        vendor.base_variable: guest,
        vendor.key_variable: PLACEHOLDER,
        **dict(vendor.more_env),
        **({"AZURE_API_VERSION": api_version} if api_version and provider == "azure" else {}),
    }
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
        aider_model=f"{vendor.given_as}/{name}" if vendor.given_as else model,
        grant=grant,
        wire=vendor.wire,
        key_header=vendor.key_header,
        aider_env=env,
        aider_args=_aider_args(env),
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
    wanted = api_base or vendor.default_base
    if wanted is None:
        raise UnsupportedModel(
            "this provider has no address of its own: set DRYDOCK_MODEL_API_BASE to your server's"
        )
    try:
        base = parse_base_url(wanted)
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
    if vendor.version and not _VERSION.search(path):
        path += vendor.version
    return BaseUrl(base.scheme, base.host, base.port, path)


def _split_version(path: str, vendor: _Vendor) -> tuple[str, str]:
    """Return the grant's prefix, and what the guest's base needs for the same joined path."""
    found = _VERSION.search(path)
    if found is None or vendor.wire not in (Wire.OPENAI, Wire.GEMINI):
        return path, ""
    if vendor.wire is Wire.OPENAI and found[0] != "/v1":
        return path, ""
    return path.removesuffix(found[0]), found[0]


def _aider_args(env: Mapping[str, str]) -> tuple[str, ...]:
    """Say it again as arguments: they win over whatever Aider may find in a file."""
    pairs = (("--set-env", f"{name}={value}") for name, value in env.items())
    return tuple(word for pair in pairs for word in pair)
