"""Every vendor's route, asked by the LiteLLM that Aider brings, in a real machine.

Each has a server of its own that speaks the vendor's format, checks the vendor's credential header
and knows only the real key; the machine has the route's local address and a placeholder.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.settings import load_settings
from demo.model import ScriptedModel
from demo.scenario import Fault, failing, prose_only
from egress.audit import AuditLog
from egress.broker import Broker
from egress.ledger import ModelCall
from egress.meter import Meter
from egress.policy import Manifest, Refusal
from egress.routes import ModelRoute, model_route
from egress.vendors import CallError
from sandbox.provider import WORK_DIR, MachineSpec
from sandbox.providers import make_provider
from tests.egress.listener import Listener
from workers.services import find_template
from workers.shell import template_environment

pytestmark = pytest.mark.machine

SAID = "Hello from the other side, in more than one piece."
# Model, the path of its base, and the header that must carry the key.
VENDORS: Mapping[str, tuple[str, str, str]] = {
    "openai": ("openai/gpt-4o", "/v1", "authorization"),
    "anthropic": ("anthropic/claude-sonnet-4-20250514", "", "x-api-key"),
    "gemini": ("gemini/gemini-2.5-pro", "/v1beta", "x-goog-api-key"),
    "azure": ("azure/mine", "", "api-key"),
    "openrouter": ("openrouter/anthropic/claude-sonnet-4", "/api/v1", "authorization"),
    "deepseek": ("deepseek/deepseek-chat", "/beta", "authorization"),
    "ollama": ("ollama_chat/llama3", "", "authorization"),
    "vllm": ("hosted_vllm/mistral", "/v1", "authorization"),
    "litellm": ("litellm_proxy/anything", "/v1", "authorization"),
    "compatible": ("lm_studio/local", "/v1", "authorization"),
}


@dataclass(frozen=True)
class Seen:
    """What came of it all: answers by (vendor, streamed), and what the broker saw."""

    answers: Mapping[tuple[str, bool], Mapping[str, str]]
    calls: tuple[ModelCall, ...]
    refusals: tuple[Refusal, ...]
    models: Mapping[str, ScriptedModel]
    routes: Mapping[str, ModelRoute]
    keys: Mapping[str, str]
    machine_said: str


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """Ask all of them in one machine: what is slow is importing LiteLLM."""
    folder = tmp_path_factory.mktemp("vendors")
    template = find_template(load_settings())
    keys = {name: f"key-{secrets.token_hex(16)}" for name in VENDORS}
    with ExitStack() as stack:
        models = {
            name: stack.enter_context(ScriptedModel(prose_only(SAID), api_key=keys[name]))
            for name in VENDORS
        }
        routes = {
            name: model_route(model, models[name].url + base)
            for name, (model, base, _) in VENDORS.items()
        }
        audit = stack.enter_context(AuditLog(folder / "audit.jsonl"))
        broker = Broker(
            Manifest("vendors", tuple(route.grant for route in routes.values())),
            credentials={r.provider: r.credential(keys[name]) for name, r in routes.items()},
            meter=Meter({}),
            audit=audit,
        )
        stack.callback(broker.close)
        provider = make_provider(os.environ.get("DRYDOCK_PROVIDER", "auto"), folder / "state")
        sandbox = provider.create(MachineSpec("vendors", template), broker.handle)
        stack.callback(sandbox.kill)
        sandbox.write_file(f"{WORK_DIR}/ask.py", Path(__file__).with_name("ask.py").read_bytes())
        jobs = [
            {"name": name, "model": route.aider_model, "env": dict(route.aider_env)}
            for name, route in routes.items()
        ]
        done = sandbox.exec(
            ["/opt/aider/bin/python", f"{WORK_DIR}/ask.py", json.dumps(jobs)],
            env={**template_environment(template), "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            timeout_s=240,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
        yield Seen(
            answers={(line["name"], line["stream"]): line for line in lines},
            calls=broker.observations(),
            refusals=broker.refusals(),
            models=models,
            routes=routes,
            keys=keys,
            machine_said=(done.stdout + done.stderr).decode("utf-8", "replace"),
        )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", VENDORS)
def test_litellm_reaches_the_vendor_with_our_key(seen: Seen, name: str, stream: bool) -> None:
    answer = seen.answers.get((name, stream))
    assert answer is not None, seen.machine_said[-2000:]
    assert answer["error"] == ""
    assert answer["said"] == SAID
    header = VENDORS[name][2]
    bearer = "Bearer " if header == "authorization" else ""
    requests = seen.models[name].requests
    assert len(requests) == 2
    assert all(each.headers[header] == bearer + seen.keys[name] for each in requests)


@pytest.mark.parametrize("name", VENDORS)
def test_the_vendors_own_usage_is_read(seen: Seen, name: str) -> None:
    calls = [call for call in seen.calls if call.route == seen.routes[name].provider]
    assert [call.status for call in calls] == [200, 200]
    whole, streamed = calls
    assert whole.output_tokens == len(SAID) // 4 + 1
    assert not whole.estimated
    assert streamed.output_tokens > 0


def test_nothing_was_refused_and_no_key_came_in(seen: Seen) -> None:
    assert seen.refusals == ()
    assert not any(key in seen.machine_said for key in seen.keys.values())


def test_a_dead_key_is_the_vendors_own_error_and_costs_one_call(tmp_path: Path) -> None:
    """Asked as LiteLLM asks, by route, without a machine."""
    for model, base, _ in VENDORS.values():
        with (
            ScriptedModel(failing(Fault.AUTH)) as server,
            AuditLog(tmp_path / "audit.jsonl") as audit,
        ):
            route = model_route(model, server.url + base)
            broker = Broker(
                Manifest("dead", (route.grant,)),
                credentials={route.provider: route.credential("dead-key-0123456789")},
                meter=Meter({}),
                audit=audit,
            )
            with Listener(broker) as listener:
                path, body = asked(route)
                sent = {"anthropic-version": "2023-06-01"}
                statuses = {listener.post(path, body, sent).status for _ in range(3)}
            assert len(server.requests) == 1, model
            assert {call.error for call in broker.observations()} == {CallError.AUTH}, model
            assert statuses < {400, 401, 403}, model


def asked(route: ModelRoute) -> tuple[str, dict[str, object]]:
    """Return the path and body that a client of this wire sends."""
    base = next(v for k, v in route.aider_env.items() if k.endswith("_API_BASE"))
    path = base.removeprefix("http://127.0.0.1:3128")
    name = min(route.grant.models)
    message = {"role": "user", "content": "Hi."}
    ends = {
        "openai": ("/chat/completions", {"model": name, "messages": [message]}),
        "anthropic": ("/v1/messages", {"model": name, "max_tokens": 9, "messages": [message]}),
        "azure": (
            f"/openai/deployments/{name}/chat/completions?api-version=x",
            {"messages": [message]},
        ),
        "gemini": (
            f"/models/{name}:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]},
        ),
    }
    end, body = ends[route.wire]
    return path + end, body
