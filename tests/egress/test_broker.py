"""The broker over real sockets, against the scripted model: what passes, and what it costs."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from demo.model import ScriptedModel
from demo.scenario import Fault, HttpError, Scenario, Text, failing, prose_only
from egress.audit import AuditBroken, AuditLog, verify
from egress.broker import Broker
from egress.inject import PLACEHOLDER, BadCredential, Credential
from egress.ledger import KEPT
from egress.meter import Meter, Price
from egress.policy import BadManifest, Grant, GrantKind, Manifest, Phase, Wire
from egress.vendors import CallError
from tests.egress.conftest import PRICES, MakeBroker, grant_for
from tests.egress.listener import read_all

PATH = "/model/openai/v1/chat/completions"
MESSAGES = "/model/anthropic/v1/messages"
OURS = {"Authorization": f"Bearer {PLACEHOLDER}"}
ANTHROPIC = {"name": "anthropic", "credential": "anthropic", "wire": Wire.ANTHROPIC}
ANTHROPIC_HEADERS = {"x-api-key": PLACEHOLDER, "anthropic-version": "2023-06-01"}


@pytest.fixture
def records(tmp_path: Path) -> Any:
    def read() -> list[dict[str, Any]]:
        assert verify(tmp_path / "audit.jsonl").ok
        lines = (tmp_path / "audit.jsonl").read_text().splitlines()
        return [json.loads(line)["record"] for line in lines]

    return read


def test_a_granted_call_reaches_the_upstream_with_our_key_and_is_accounted_for(
    serve: MakeBroker, chat: Mapping[str, Any], key: str, records: Any
) -> None:
    with ScriptedModel(prose_only("Hello."), api_key=key) as model:
        listener = serve(model.port)
        got = listener.post(PATH, chat, OURS)
        assert got.status == 200
        assert got.json["choices"][0]["message"]["content"] == "Hello."
        (call,) = listener.broker.observations()
        (request,) = model.requests
    assert request.headers["authorization"] == f"Bearer {key}"
    assert request.headers["host"] == f"127.0.0.1:{model.port}"
    assert request.body == chat
    usage = got.json["usage"]
    assert (call.route, call.status, call.error) == ("openai", 200, None)
    assert (call.input_tokens, call.output_tokens) == (
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )
    assert call.cost_usd == pytest.approx(1e-3 * call.input_tokens + 2e-3 * call.output_tokens)
    assert listener.broker.refusals() == ()
    assert [each["kind"] for each in records()] == ["allowed", "model_call"]
    assert key not in str(records())


@pytest.mark.parametrize("stream", [False, True])
def test_both_of_anthropics_ways_pass(
    serve: MakeBroker, chat: Mapping[str, Any], key: str, stream: bool
) -> None:
    with ScriptedModel(prose_only("Hello."), api_key=key) as model:
        listener = serve(model.port, grant=ANTHROPIC)
        body = {**chat, "max_tokens": 9, "stream": stream}
        got = listener.post(MESSAGES, body, ANTHROPIC_HEADERS)
        assert got.status == 200
        assert model.requests[0].headers["x-api-key"] == key
        (call,) = listener.broker.observations()
    assert b"Hello." in got.body
    assert not call.estimated
    assert call.output_tokens == 2
    assert listener.broker.refusals() == ()


@pytest.mark.parametrize("wanted", [False, True])
def test_a_streams_usage_is_read_or_estimated(
    serve: MakeBroker, chat: Mapping[str, Any], key: str, wanted: bool
) -> None:
    options = {"stream_options": {"include_usage": True}} if wanted else {}
    with ScriptedModel(prose_only("Hello there."), api_key=key) as model:
        listener = serve(model.port)
        got = listener.post(PATH, {**chat, "stream": True, **options}, OURS)
        (call,) = listener.broker.observations()
    assert got.body.endswith(b"data: [DONE]\n\n")
    assert got.headers["content-type"].startswith("text/event-stream")
    assert call.estimated is not wanted
    assert call.output_tokens > 0
    assert listener.broker.refusals() == ()


def test_an_upstream_below_a_path_of_its_own_is_asked_there(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port, grant={"path_prefix": "/llm"})
        listener.post(PATH + "?beta=true", chat, OURS)
        assert model.requests[0].path == "/llm/v1/chat/completions?beta=true"


@pytest.mark.parametrize("stream", [False, True])
def test_geminis_model_is_in_its_path_and_its_usage_in_every_piece(
    serve: MakeBroker, key: str, stream: bool
) -> None:
    grant = {"wire": Wire.GEMINI, "name": "gemini", "models": frozenset({"model-a"})}
    body = {"contents": [{"role": "user", "parts": [{"text": "Say something."}]}]}
    how = "streamGenerateContent?alt=sse" if stream else "generateContent"
    with ScriptedModel(prose_only("Hello there, whoever you are."), api_key=key) as model:
        listener = serve(model.port, grant=grant, header="x-goog-api-key")
        sent = {"x-goog-api-key": PLACEHOLDER}
        got = listener.post(f"/model/gemini/v1beta/models/model-a:{how}", body, sent)
        assert got.status == 200
        other = listener.post("/model/gemini/v1beta/models/dear:generateContent", body, sent)
        assert other.status == 403
        assert len(model.requests) == 1
        assert model.requests[0].headers["x-goog-api-key"] == key
    (call,) = listener.broker.observations()
    assert (call.output_tokens, call.estimated, call.model) == (8, False, "model-a")


def test_azures_path_and_body_are_for_one_model(serve: MakeBroker, key: str) -> None:
    grant = {"wire": Wire.AZURE, "name": "azure", "models": frozenset({"model-a"})}
    path = "/model/azure/openai/deployments/model-a/chat/completions?api-version=x"
    body = {"messages": [{"role": "user", "content": "Say something."}]}
    with ScriptedModel(prose_only("Hello."), api_key=key) as model:
        listener = serve(model.port, grant=grant, header="api-key")
        for extra, status in (({}, 200), ({"model": "model-a"}, 200), ({"model": "dear"}, 400)):
            assert listener.post(path, {**body, **extra}).status == status
        assert all(each.headers["api-key"] == key for each in model.requests)
        assert len(model.requests) == 2
    assert "the body for another model" in listener.broker.refusals()[0].reason


def test_a_route_without_a_credential_sends_none(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port, grant={"credential": None})
        assert listener.post(PATH, chat, OURS).status == 200
        assert "authorization" not in model.requests[0].headers


def test_one_connection_carries_several_requests(
    serve: MakeBroker, chat: Mapping[str, Any], key: str
) -> None:
    body = json.dumps(chat).encode()
    request = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with ScriptedModel(prose_only(), api_key=key) as model:
        listener = serve(model.port)
        answers = listener.raw((request + body) * 3)
        assert len(model.requests) == 3
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == 3


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({"Authorization": "Bearer own-secret"}, ""),
        ({"x-api-key": "own-secret"}, ""),
        ({"Api-Key": "own-secret"}, ""),
        ({"Cookie": "own-secret"}, ""),
        ({"Proxy-Authorization": "own-secret"}, ""),
        ({}, "?key=own-secret"),
        ({}, "?api%5fkey=own-secret"),
    ],
)
def test_a_credential_of_the_guests_own_does_not_arrive_and_is_recorded(
    serve: MakeBroker,
    chat: Mapping[str, Any],
    key: str,
    headers: Mapping[str, str],
    query: str,
    records: Any,
) -> None:
    with ScriptedModel(prose_only(), api_key=key) as model:
        listener = serve(model.port)
        assert listener.post(PATH + query, chat, headers).status == 200
        (request,) = model.requests
    assert "own-secret" not in str(request)
    assert request.headers["authorization"] == f"Bearer {key}"
    (refusal,) = listener.broker.refusals()
    assert "credential of its own" in refusal.reason
    assert refusal.phase is Phase.AGENT
    assert "own-secret" not in str(records())
    assert records()[0]["kind"] == "refused"


@pytest.mark.parametrize(
    ("fault", "wire", "error"),
    [
        (Fault.AUTH, Wire.OPENAI, CallError.AUTH),
        (Fault.PERMISSION, Wire.OPENAI, CallError.AUTH),
        (Fault.QUOTA, Wire.OPENAI, CallError.QUOTA),
        (Fault.AUTH, Wire.ANTHROPIC, CallError.AUTH),
        (Fault.QUOTA, Wire.ANTHROPIC, CallError.QUOTA),
    ],
)
def test_a_dead_key_costs_one_call(
    serve: MakeBroker,
    chat: Mapping[str, Any],
    key: str,
    fault: Fault,
    wire: Wire,
    error: CallError,
) -> None:
    anthropic = wire is Wire.ANTHROPIC
    with ScriptedModel(failing(fault), api_key=key) as model:
        listener = serve(model.port, grant=ANTHROPIC if anthropic else {})
        path, headers = (MESSAGES, ANTHROPIC_HEADERS) if anthropic else (PATH, OURS)
        body = {**chat, "max_tokens": 5}
        answers = [listener.post(path, body, headers) for _ in range(5)]
        assert len(model.requests) == 1
        calls = listener.broker.observations()
    assert len({(each.status, each.body) for each in answers}) == 1
    assert all(each.headers["x-should-retry"] == "false" for each in answers)
    assert "error" in answers[-1].json
    assert [call.error for call in calls] == [error] * 5
    assert listener.broker.final_error is error
    assert [call.asked_upstream for call in calls] == [True] + [False] * 4
    assert calls[0].detail


@pytest.mark.parametrize(
    ("fault", "status", "error"),
    [
        (Fault.RATE_LIMIT, 429, CallError.RATE_LIMIT),
        (Fault.SERVER, 500, CallError.SERVER),
        (Fault.OVERLOADED, 503, CallError.SERVER),
        (Fault.OVERFLOW, 400, CallError.OVERFLOW),
        (Fault.NOT_FOUND, 404, CallError.REJECTED),
    ],
)
def test_an_error_that_may_pass_goes_through_as_it_is(
    serve: MakeBroker, chat: Mapping[str, Any], fault: Fault, status: int, error: CallError
) -> None:
    scenario = Scenario("s", (HttpError(fault, times=1, retry_after=7), Text("Now.")))
    with ScriptedModel(scenario) as model:
        listener = serve(model.port)
        first, second = (listener.post(PATH, chat, OURS) for _ in range(2))
    assert (first.status, second.status) == (status, 200)
    assert first.headers["retry-after"] == "7"
    assert "x-should-retry" not in first.headers
    assert [call.error for call in listener.broker.observations()] == [error, None]


@pytest.mark.parametrize("wire", [Wire.OPENAI, Wire.ANTHROPIC])
def test_at_the_cap_the_broker_answers_the_vendors_quota_error(
    serve: MakeBroker, chat: Mapping[str, Any], wire: Wire
) -> None:
    anthropic = wire is Wire.ANTHROPIC
    with ScriptedModel(prose_only()) as model:
        listener = serve(
            model.port,
            grant=ANTHROPIC if anthropic else {},
            meter=Meter({"model-a": Price(1.0, 1.0)}, cap_usd=2.0),
        )
        path, headers = (MESSAGES, ANTHROPIC_HEADERS) if anthropic else (PATH, OURS)
        body = {**chat, "max_tokens": 5}
        assert listener.post(path, body, headers).status == 200
        got = listener.post(path, body, headers)
        assert len(model.requests) == 1
    assert got.status == (400 if anthropic else 429)
    assert "spending cap" in got.json["error"]["message"]
    last = listener.broker.observations()[-1]
    assert (last.error, last.asked_upstream, last.cost_usd) == (CallError.BUDGET, False, 0.0)
    assert listener.broker.final_error is CallError.BUDGET
    assert listener.broker.over_cap is not None
    assert last.detail == listener.broker.over_cap.text
    assert listener.broker.refusals() == ()


def test_a_model_that_the_route_does_not_name_is_refused(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port, grant={"models": frozenset({"model-a"})})
        assert listener.post(PATH, {**chat, "model": "dear"}, OURS).status == 403
        assert listener.post(PATH, chat, OURS).status == 200
        assert len(model.requests) == 1
    assert "serves model-a, not 'dear'" in listener.broker.refusals()[0].reason


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"{}",
        b'{"model": 5}',
        b'{"model": ""}',
        b'{"model": "model-a", "model": "dear"}',
        b'{"model": "model-a", "mod\\u0065l": "dear"}',
        '{"model": "model-a"}'.encode("utf-16"),
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_body_that_names_no_one_model_is_refused(serve: MakeBroker, body: bytes) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port)
        got = listener.post(PATH, body, OURS)
        assert got.status == 400
        assert got.body.startswith(b"Drydock refused this request: the request body")
        assert model.requests == ()
    assert len(listener.broker.refusals()) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", PATH, 405),
        ("PUT", PATH, 405),
        ("POST", "/model/openai/v1/files", 403),
        ("POST", "/model/other/v1/chat/completions", 403),
        ("POST", "/", 403),
        ("GET", "http://example.com/", 403),
    ],
)
def test_everything_else_is_refused_recorded_and_shown(
    serve: MakeBroker, records: Any, method: str, path: str, status: int
) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port)
        got = listener.post(path, b"x" * 100_000, method=method)
        assert model.requests == ()
    assert got.status == status
    assert got.headers["content-type"].startswith("text/plain")
    (refusal,) = listener.broker.refusals()
    assert refusal.reason in got.body.decode()
    assert refusal.target == f"{method} {path}"
    assert records() == [
        {
            "kind": "refused",
            "run": "run-1",
            "phase": "agent",
            "target": refusal.target,
            "reason": refusal.reason,
        }
    ]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", 403),
        (b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n\x16\x03\x01", 403),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"garbage\r\n\r\n", 400),
        (
            b"GET %b HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
            % PATH.encode(),
            403,
        ),
        (
            b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % PATH.encode(),
            400,
        ),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 70_000 + b"\r\n\r\n", 431),
    ],
)
def test_other_protocols_and_smuggling_are_refused(
    serve: MakeBroker, data: bytes, status: int
) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port)
        answer = listener.raw(data)
        assert model.requests == ()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Drydock refused this request: " in answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert len(listener.broker.refusals()) == 1


def test_the_phase_decides(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port, phase=Phase.SETUP)
        assert listener.post(PATH, chat, OURS).status == 403
        listener.broker.phase = Phase.AGENT
        assert listener.post(PATH, chat, OURS).status == 200
        listener.broker.phase = Phase.VERIFY
        assert listener.post(PATH, chat, OURS).status == 403
    assert [each.phase for each in listener.broker.refusals()] == [Phase.SETUP, Phase.VERIFY]


def test_a_flood_of_refusals_is_counted_and_not_kept(
    serve: MakeBroker, monkeypatch: pytest.MonkeyPatch, records: Any
) -> None:
    monkeypatch.setattr("egress.ledger.KEPT", 5)
    listener = serve(1)
    for _ in range(8):
        assert listener.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    assert len(listener.broker.refusals()) == 5
    assert listener.broker.refusal_count == 8
    listener.broker.close()
    listener.broker.close()
    assert [each["kind"] for each in records()] == ["refused"] * 5 + ["unlisted"]
    assert records()[-1]["refusals"] == 3
    assert KEPT == 1000


def test_many_connections_at_once_do_not_mix(serve: MakeBroker, key: str, audit: AuditLog) -> None:
    def echo(messages: Any) -> Text:
        return Text(messages[-1].text)

    with ScriptedModel(echo, api_key=key) as model:
        listener = serve(model.port)
        answers: dict[int, str] = {}

        def ask(number: int) -> None:
            message = {"role": "user", "content": f"number {number}"}
            got = listener.post(PATH, {"model": "model-a", "messages": [message]}, OURS)
            answers[number] = got.json["choices"][0]["message"]["content"]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert answers == {number: f"number {number}" for number in range(30)}
    assert len(listener.broker.observations()) == 30
    assert verify(audit.path).ok


def test_without_a_working_audit_log_nothing_is_let_through(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    class Broken:
        def append(self, record: Mapping[str, Any], *, durable: bool = False) -> None:
            raise AuditBroken("the disk is full")

    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port, audit=Broken())
        for _ in range(2):
            got = listener.post(PATH, chat, OURS)
            assert got.status == 503
            assert b"cannot record" in got.body
        assert model.requests == ()
        assert listener.broker.failure == "the disk is full"
        # There is nothing to record at the end either.
        listener.broker.close()


def test_closing_ends_waiting_connections(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    asked, release = threading.Event(), threading.Event()

    def wait(messages: Any) -> Text:
        asked.set()
        release.wait(20)
        return Text("late")

    with ScriptedModel(wait) as model:
        listener = serve(model.port)
        idle, busy = listener.connect(), listener.connect()
        body = json.dumps(chat).encode()
        busy.sendall(
            f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert asked.wait(10)
        listener.broker.close()
        assert read_all(idle) == b""
        # Cut off, or told just before that its upstream was: never the answer.
        assert b"late" not in (answer := read_all(busy))
        assert answer == b"" or answer.startswith(b"HTTP/1.1 502 ")
        (call,) = listener.broker.observations()
        assert call.error is not None
        # Whoever comes later finds it shut.
        assert listener.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") == b""
        release.set()
        for sock in (idle, busy):
            sock.close()


def broker(audit: AuditLog, *grants: Grant, **credentials: Credential) -> Broker:
    return Broker(
        Manifest("run-1", grants), credentials=credentials, meter=Meter(PRICES), audit=audit
    )


def test_a_credential_that_is_missing_or_for_another_upstream_stops_the_start(
    audit: AuditLog, key: str
) -> None:
    with pytest.raises(BadCredential, match="no credential is named 'openai'"):
        broker(audit, grant_for(80))
    other = Credential("openai", "authorization", key, ("http", "127.0.0.1", 81))
    with pytest.raises(BadCredential, match="is not for"):
        broker(audit, grant_for(80), openai=other)


def test_a_wrong_manifest_stops_the_start(audit: AuditLog) -> None:
    with pytest.raises(BadManifest):
        broker(audit, grant_for(0, credential=None))
    with pytest.raises(BadManifest, match="a host's name"):
        broker(audit, Grant("t", GrantKind.TUNNEL, "https", "192.0.2.1", 443))


def test_an_unreadable_ca_bundle_stops_the_start(audit: AuditLog, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Broker(
            Manifest("run-1"),
            credentials={},
            meter=Meter({}),
            audit=audit,
            upstream_ca=str(tmp_path / "missing.pem"),
        )


@pytest.mark.parametrize(("scheme", "made"), [("https", True), ("http", False)])
def test_the_authorities_are_read_only_for_a_model_behind_tls(
    audit: AuditLog, key: str, monkeypatch: pytest.MonkeyPatch, scheme: str, made: bool
) -> None:
    asked: list[str | None] = []
    monkeypatch.setattr("egress.broker.tls_context", asked.append)
    tunnel = Grant("t", GrantKind.TUNNEL, "https", "pypi.test", 443)
    credential = Credential("openai", "authorization", key, (scheme, "127.0.0.1", 4000))
    broker(audit, grant_for(4000, scheme=scheme), tunnel, openai=credential)
    assert asked == ([None] if made else [])


def test_the_guest_may_leave_in_the_middle(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port)
        body = json.dumps(chat).encode()
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with listener.connect() as sock:
            sock.sendall(head + body[:5])
            sock.shutdown(socket.SHUT_RDWR)
        assert listener.post(PATH, chat, OURS).status == 200
