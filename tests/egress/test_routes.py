from __future__ import annotations

import pytest

from egress.inject import PLACEHOLDER
from egress.policy import Manifest, Phase, Wire, check_manifest, decide_request
from egress.routes import UnsupportedModel, model_route

GUEST = "http://127.0.0.1:3128/model"


@pytest.mark.parametrize(
    ("model", "api_base", "upstream", "guest_base"),
    [
        ("openai/gpt-4o", None, "https://api.openai.com:443/v1/chat/completions", "openai/v1"),
        ("gpt-4o", None, "https://api.openai.com:443/v1/chat/completions", "openai/v1"),
        ("o3-mini", None, "https://api.openai.com:443/v1/chat/completions", "openai/v1"),
        ("chatgpt-4o-latest", None, "https://api.openai.com:443/v1/chat/completions", "openai/v1"),
        (
            "openai/org/model",
            "https://host.example/llm/v1",
            "https://host.example:443/llm/v1/chat/completions",
            "openai/v1",
        ),
        (
            "openai/model",
            "https://host.example/llm/v1/chat/completions",
            "https://host.example:443/llm/v1/chat/completions",
            "openai/v1",
        ),
        (
            "openai/model",
            "https://host.example/v1beta/openai/",
            "https://host.example:443/v1beta/openai/chat/completions",
            "openai",
        ),
        (
            "openai/model",
            "https://host.example",
            "https://host.example:443/chat/completions",
            "openai",
        ),
        (
            "openai/local",
            "http://127.0.0.1:11434/v1",
            "http://127.0.0.1:11434/v1/chat/completions",
            "openai/v1",
        ),
        ("anthropic/claude-x", None, "https://api.anthropic.com:443/v1/messages", "anthropic"),
        ("claude-x", None, "https://api.anthropic.com:443/v1/messages", "anthropic"),
        (
            "claude-x",
            "https://host.example:8443/llm",
            "https://host.example:8443/llm/v1/messages",
            "anthropic",
        ),
        (
            "claude-x",
            "https://host.example/llm/v1",
            "https://host.example:443/llm/v1/messages",
            "anthropic",
        ),
        (
            "claude-x",
            "https://host.example/llm/v1/messages",
            "https://host.example:443/llm/v1/messages",
            "anthropic",
        ),
    ],
)
def test_the_guests_base_and_the_grant_join_to_the_upstreams_path(
    model: str, api_base: str | None, upstream: str, guest_base: str
) -> None:
    route = model_route(model, api_base)
    check_manifest(Manifest("run-1", (route.grant,)))
    base = next(value for name, value in route.aider_env.items() if name.endswith("_API_BASE"))
    assert base == f"{GUEST}/{guest_base}"
    # What LiteLLM adds to the base, by vendor.
    joined = base + ("/v1/messages" if route.wire is Wire.ANTHROPIC else "/chat/completions")
    path = joined.removeprefix(f"{GUEST}/{route.provider}")
    decision = decide_request(
        Manifest("run-1", (route.grant,)), Phase.AGENT, route.provider, "POST", path
    )
    assert decision.allowed, decision.reason
    grant = route.grant
    asked = f"{grant.scheme}://{grant.host}:{grant.port}{grant.path_prefix.rstrip('/')}{path}"
    assert asked == upstream


def test_aider_is_given_the_local_address_and_a_placeholder() -> None:
    route = model_route("openai/gpt-4o")
    assert route.model == "openai/gpt-4o"
    assert route.aider_env == {
        "OPENAI_API_BASE": f"{GUEST}/openai/v1",
        "OPENAI_API_KEY": PLACEHOLDER,
    }
    assert route.aider_args == (
        "--set-env",
        f"OPENAI_API_BASE={GUEST}/openai/v1",
        "--set-env",
        f"OPENAI_API_KEY={PLACEHOLDER}",
    )


def test_the_key_is_bound_to_the_upstream_in_the_vendors_header(key: str) -> None:
    route = model_route("claude-x", "https://host.example/llm")
    origin = ("https", "host.example", 443)
    assert route.credential(key).header_for(origin) == ("x-api-key", key)
    assert key not in repr(route)
    bearer = model_route("gpt-4o").credential(key).header_for(("https", "api.openai.com", 443))
    assert bearer == ("authorization", f"Bearer {key}")


def test_the_route_serves_the_models_of_the_run_and_no_other() -> None:
    assert model_route("openai/org/large").grant.models == frozenset({"org/large"})
    grant = model_route("gpt-4o", weak_model="openai/gpt-4o-mini").grant
    assert grant.models == frozenset({"gpt-4o", "gpt-4o-mini"})
    with pytest.raises(UnsupportedModel, match="not of the same provider"):
        model_route("gpt-4o", weak_model="claude-x")


def test_a_server_without_a_key_gets_none() -> None:
    assert (
        model_route("openai/local", "http://localhost:1/v1", with_key=False).grant.credential
        is None
    )


@pytest.mark.parametrize(
    "model",
    [
        "",
        "sonnet",
        "bedrock/claude",
        "vertex_ai/gemini-pro",
        "openai/",
        "/gpt-4o",
        "llama3",
    ],
)
def test_an_unsupported_model_is_answered_with_what_is_supported(model: str) -> None:
    with pytest.raises(UnsupportedModel) as caught:
        model_route(model)
    assert "openai/<model>, anthropic/<model>, gemini/<model>" in str(caught.value)
    assert "DRYDOCK_MODEL_API_BASE" in str(caught.value)


@pytest.mark.parametrize("host", ["10.0.0.5", "models.lan", "0xa000005"])
def test_plain_http_needs_a_listed_host(host: str) -> None:
    base = f"http://{host}:8000/v1"
    with pytest.raises(UnsupportedModel, match="plain HTTP"):
        model_route("openai/m", base)
    with pytest.raises(UnsupportedModel, match="plain HTTP"):
        model_route("openai/m", base, ["other.lan"])
    assert model_route("openai/m", base, ["10.0.0.5", "*.models.lan", "models.lan"])


@pytest.mark.parametrize(
    "base", ["api.example", "https://u:p@api.example", "https://api.example?key=1", "ftp://a.b"]
)
def test_a_bad_base_is_refused(base: str) -> None:
    with pytest.raises(UnsupportedModel):
        model_route("openai/m", base)


def test_a_bad_pattern_among_the_listed_hosts_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="wildcard"):
        model_route("openai/m", "https://api.example", ["*.com"])


@pytest.mark.parametrize(
    ("model", "api_base", "adds", "upstream"),
    [
        (
            "gemini/gemini-2.5-pro",
            None,
            "/models/gemini-2.5-pro:generateContent",
            "https://generativelanguage.googleapis.com:443/v1beta/models/gemini-2.5-pro:generateContent",
        ),
        (
            "gemini/g",
            "https://proxy.example/x",
            "/models/g:streamGenerateContent",
            "https://proxy.example:443/x/v1beta/models/g:streamGenerateContent",
        ),
        (
            "azure/mine",
            "https://x.example/openai",
            "/openai/deployments/mine/chat/completions",
            "https://x.example:443/openai/deployments/mine/chat/completions",
        ),
        (
            "openrouter/a/b",
            None,
            "/chat/completions",
            "https://openrouter.ai:443/api/v1/chat/completions",
        ),
        (
            "deepseek/deepseek-chat",
            None,
            "/chat/completions",
            "https://api.deepseek.com:443/beta/chat/completions",
        ),
        (
            "hosted_vllm/m",
            "http://127.0.0.1:8000/v1",
            "/chat/completions",
            "http://127.0.0.1:8000/v1/chat/completions",
        ),
        (
            "litellm_proxy/m",
            "https://llm.example",
            "/chat/completions",
            "https://llm.example:443/chat/completions",
        ),
        ("lm_studio/m", None, "/chat/completions", "http://127.0.0.1:1234/v1/chat/completions"),
        ("ollama/m", None, "/chat/completions", "http://127.0.0.1:11434/v1/chat/completions"),
        (
            "ollama_chat/m",
            "http://127.0.0.1:5/v1",
            "/chat/completions",
            "http://127.0.0.1:5/v1/chat/completions",
        ),
    ],
)
def test_every_vendor_joins_to_its_own_path(
    model: str, api_base: str | None, adds: str, upstream: str
) -> None:
    route = model_route(model, api_base)
    manifest = Manifest("run-1", (route.grant,))
    check_manifest(manifest)
    base = next(value for name, value in route.aider_env.items() if name.endswith("_API_BASE"))
    path = (base + adds).removeprefix(f"{GUEST}/{route.provider}")
    decision = decide_request(manifest, Phase.AGENT, route.provider, "POST", path)
    assert decision.allowed, decision.reason
    grant = route.grant
    asked = f"{grant.scheme}://{grant.host}:{grant.port}{grant.path_prefix.rstrip('/')}{path}"
    assert asked == upstream


def test_ollama_is_given_to_aider_as_a_server_of_openais_format() -> None:
    route = model_route("ollama_chat/llama3")
    assert (route.aider_model, route.provider) == ("openai/llama3", "ollama_chat")
    assert route.aider_env["OPENAI_API_BASE"] == f"{GUEST}/ollama_chat/v1"


def test_azure_gets_an_api_version() -> None:
    route = model_route("azure/mine", "https://x.example")
    assert route.key_header == "api-key"
    assert route.aider_env["AZURE_API_VERSION"] == "2024-10-21"
    newer = model_route("azure/mine", "https://x.example", api_version="2025-01-01-preview")
    assert newer.aider_env["AZURE_API_VERSION"] == "2025-01-01-preview"


@pytest.mark.parametrize("model", ["azure/mine", "hosted_vllm/m", "litellm_proxy/m"])
def test_a_server_of_ones_own_needs_its_address(model: str) -> None:
    with pytest.raises(UnsupportedModel, match="DRYDOCK_MODEL_API_BASE"):
        model_route(model)
