from __future__ import annotations

import http.client
import json
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from demo.model import ScriptedModel, main
from demo.scenario import (
    Fault,
    Hang,
    HttpError,
    Reset,
    Scenario,
    Text,
    Truncated,
    failing,
    prose_only,
)

CHAT: Mapping[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello there"}]}
OPENAI = "/v1/chat/completions"
ANTHROPIC = "/v1/messages"
VERSION = {"anthropic-version": "2023-06-01"}
TEXT = "One answer, long enough for several pieces of a stream."


class Got:
    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        self.body = answer.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        lines = [line[5:].strip() for line in self.body.splitlines() if line.startswith(b"data:")]
        return [json.loads(line) for line in lines if line != b"[DONE]"]


def post(
    model: ScriptedModel,
    path: str,
    body: Any = CHAT,
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
) -> Got:
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=20)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, dict(headers or {}))
        return Got(connection.getresponse())
    finally:
        connection.close()


@pytest.fixture
def key() -> str:
    return secrets.token_hex(12)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(prose_only(TEXT)) as model:
        yield model


def test_openai_whole(model: ScriptedModel) -> None:
    got = post(model, OPENAI).json
    assert got["object"] == "chat.completion"
    assert got["choices"][0]["message"] == {"role": "assistant", "content": TEXT, "refusal": None}
    assert got["choices"][0]["finish_reason"] == "stop"
    usage = got["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize("wanted", [False, True])
def test_openai_streams_tell_usage_only_when_asked(model: ScriptedModel, wanted: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if wanted else {}
    got = post(model, OPENAI, {**CHAT, "stream": True, **options})
    assert got.headers["content-type"].startswith("text/event-stream")
    assert got.body.endswith(b"data: [DONE]\n\n")
    events = got.events
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == TEXT
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert (events[-1]["choices"] == []) is wanted
    assert ("usage" in events[0]) is wanted
    if wanted:
        assert events[0]["usage"] is None
        assert events[-1]["usage"]["completion_tokens"] == len(TEXT) // 4 + 1


def test_anthropic_whole(model: ScriptedModel) -> None:
    got = post(model, ANTHROPIC, {**CHAT, "max_tokens": 5}, VERSION).json
    assert (got["type"], got["role"], got["stop_reason"]) == ("message", "assistant", "end_turn")
    assert got["content"] == [{"type": "text", "text": TEXT}]
    assert got["usage"]["output_tokens"] == len(TEXT) // 4 + 1


def test_anthropic_streams_in_the_published_order(model: ScriptedModel) -> None:
    got = post(model, ANTHROPIC, {**CHAT, "max_tokens": 5, "stream": True}, VERSION)
    kinds = [event["type"] for event in got.events]
    named = [line[7:].decode() for line in got.body.splitlines() if line.startswith(b"event: ")]
    assert kinds == named
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    deltas = [each["delta"] for each in got.events if each["type"] == "content_block_delta"]
    assert "".join(delta["text"] for delta in deltas) == TEXT
    assert got.events[0]["message"]["usage"]["output_tokens"] == 1
    assert got.events[-2]["usage"]["output_tokens"] == len(TEXT) // 4 + 1


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (OPENAI, {}),
        (OPENAI, {"Authorization": "Bearer wrong"}),
        (OPENAI, {"Authorization": "Basic {key}"}),
        (OPENAI, {"x-api-key": "{key}"}),
        (ANTHROPIC, VERSION),
        (ANTHROPIC, {**VERSION, "x-api-key": "wrong"}),
        (ANTHROPIC, {**VERSION, "Authorization": "Bearer {key}"}),
    ],
)
def test_a_missing_or_wrong_key_is_a_401_in_the_vendors_shape(
    key: str, path: str, headers: Mapping[str, str]
) -> None:
    given = {name: value.replace("{key}", key) for name, value in headers.items()}
    with ScriptedModel(prose_only(), api_key=key) as model:
        got = post(model, path, {**CHAT, "max_tokens": 5}, given)
    assert got.status == 401
    if path == OPENAI:
        assert set(got.json["error"]) == {"message", "type", "param", "code"}
    else:
        assert got.json["type"] == "error"
        assert got.json["error"]["type"] == "authentication_error"
    assert key not in got.body.decode()


def test_the_right_key_is_taken(key: str) -> None:
    with ScriptedModel(prose_only(), api_key=key) as model:
        assert post(model, OPENAI, headers={"Authorization": f"Bearer {key}"}).status == 200
        headers = {**VERSION, "x-api-key": key}
        assert post(model, ANTHROPIC, {**CHAT, "max_tokens": 5}, headers).status == 200


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        (OPENAI, b"{", {}),
        (OPENAI, [], {}),
        (OPENAI, {"messages": CHAT["messages"]}, {}),
        (OPENAI, {"model": "m"}, {}),
        (OPENAI, {"model": "m", "messages": []}, {}),
        (OPENAI, {"model": "m", "messages": ["hello"]}, {}),
        (OPENAI, {"model": "m", "messages": [{"role": "pirate", "content": "hello"}]}, {}),
        (OPENAI, {**CHAT, "stream_options": {"include_usage": True}}, {}),
        (ANTHROPIC, {**CHAT, "max_tokens": 5}, {}),
        (ANTHROPIC, b"{", VERSION),
        (ANTHROPIC, CHAT, VERSION),
        (ANTHROPIC, {"max_tokens": 5, "messages": CHAT["messages"]}, VERSION),
        (ANTHROPIC, {"max_tokens": 5, "model": "m"}, VERSION),
        (
            ANTHROPIC,
            {"model": "m", "max_tokens": 5, "messages": [{"role": "system", "content": "a"}]},
            VERSION,
        ),
    ],
)
def test_what_the_vendors_refuse_is_refused(
    model: ScriptedModel, path: str, body: Any, headers: Mapping[str, str]
) -> None:
    got = post(model, path, body, headers)
    assert got.status == 400
    assert got.json["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(("method", "path"), [("GET", OPENAI), ("POST", "/v1/files"), ("GET", "/")])
def test_other_paths_are_not_found(model: ScriptedModel, method: str, path: str) -> None:
    assert post(model, path, method=method).status == 404


@pytest.mark.parametrize(
    ("fault", "openai", "anthropic"),
    [
        (Fault.AUTH, (401, "invalid_api_key"), (401, "authentication_error")),
        (
            Fault.PERMISSION,
            (403, "unsupported_country_region_territory"),
            (403, "permission_error"),
        ),
        (Fault.QUOTA, (429, "insufficient_quota"), (400, "invalid_request_error")),
        (Fault.RATE_LIMIT, (429, "rate_limit_exceeded"), (429, "rate_limit_error")),
        (Fault.SERVER, (500, None), (500, "api_error")),
        (Fault.OVERLOADED, (503, None), (529, "overloaded_error")),
        (Fault.OVERFLOW, (400, "context_length_exceeded"), (400, "invalid_request_error")),
        (Fault.NOT_FOUND, (404, "model_not_found"), (404, "not_found_error")),
    ],
)
def test_faults_have_the_published_shapes(
    fault: Fault, openai: tuple[int, str | None], anthropic: tuple[int, str]
) -> None:
    with ScriptedModel(failing(fault)) as model:
        one = post(model, OPENAI)
        two = post(model, ANTHROPIC, {**CHAT, "max_tokens": 5}, VERSION)
    assert (one.status, one.json["error"]["code"]) == openai
    assert (two.status, two.json["error"]["type"]) == anthropic
    assert two.json["type"] == "error"
    assert ("retry-after" in one.headers) is (fault is Fault.RATE_LIMIT)


def test_every_request_is_kept_as_it_came(model: ScriptedModel) -> None:
    post(model, OPENAI + "?a=1", CHAT, {"Authorization": "Bearer shown"})
    post(model, "/other", b"raw")
    first, second = model.requests
    assert (first.method, first.path, first.body) == ("POST", OPENAI + "?a=1", CHAT)
    assert first.headers["authorization"] == "Bearer shown"
    assert (second.raw, second.body) == (b"raw", None)


def test_text_blocks_are_read_like_text() -> None:
    blocks = [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]
    body = {
        "model": "m",
        "max_tokens": 5,
        "system": blocks,
        "messages": [{"role": "user", "content": blocks}],
    }
    with ScriptedModel(lambda messages: Text("|".join(m.text for m in messages))) as model:
        got = post(model, ANTHROPIC, body, VERSION)
    assert got.json["content"][0]["text"] == "one two|one two"


def test_one_connection_carries_several_requests(model: ScriptedModel) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", model.port, timeout=20)
    for stream in (False, True, False):
        connection.request("POST", OPENAI, json.dumps({**CHAT, "stream": stream}))
        assert connection.getresponse().read()
    connection.close()
    assert len(model.requests) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_truncated_answer_breaks_off(stream: bool) -> None:
    with (
        ScriptedModel(Scenario("s", (Truncated(TEXT),))) as model,
        pytest.raises(http.client.IncompleteRead),
    ):
        post(model, OPENAI, {**CHAT, "stream": stream})


def test_a_reset_is_a_reset() -> None:
    with ScriptedModel(Scenario("s", (Reset(),))) as model, pytest.raises(ConnectionResetError):
        post(model, OPENAI)


def test_a_hang_ends_after_its_time() -> None:
    with (
        ScriptedModel(Scenario("s", (Hang(0.01),))) as model,
        pytest.raises(http.client.RemoteDisconnected),
    ):
        post(model, OPENAI)


def test_stopping_ends_a_hang_and_everything_else() -> None:
    model = ScriptedModel(Scenario("s", (Hang(),))).start()
    caught: list[type[BaseException]] = []

    def ask() -> None:
        try:
            post(model, OPENAI)
        except OSError as error:
            caught.append(type(error))

    asking = threading.Thread(target=ask)
    asking.start()
    while not model.requests:
        threading.Event().wait(0.005)
    model.stop()
    model.stop()
    asking.join(10)
    assert len(caught) == 1
    with pytest.raises(ConnectionRefusedError):
        post(model, OPENAI)


def test_a_conversation_that_no_scenario_is_meant_for_finds_no_model() -> None:
    with ScriptedModel([Scenario("s", (HttpError(Fault.AUTH),), when="other words")]) as model:
        assert post(model, OPENAI).status == 404


def test_it_runs_alone(tmp_path: Path, key: str) -> None:
    key_file, scenario = tmp_path / "key", tmp_path / "scenario.json"
    key_file.write_text(key + "\n")
    scenario.write_text(json.dumps({"name": "s", "replies": [{"kind": "text", "text": "alone"}]}))
    process = subprocess.Popen(
        [sys.executable, "-m", "demo.model", "--scenario", scenario, "--api-key-file", key_file],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        cwd=Path(__file__).parents[2],
    )
    try:
        assert process.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)/v1", process.stdout.readline())
        assert found is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=20)
        connection.request("POST", OPENAI, json.dumps(CHAT), {"Authorization": f"Bearer {key}"})
        assert b"alone" in connection.getresponse().read()
        connection.close()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.parametrize("name", ["no-such-file", "{folder}/broken.json"])
def test_a_scenario_that_cannot_be_read_is_wrong_use(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(SystemExit) as caught:
        main(["--scenario", name.replace("{folder}", str(tmp_path))])
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err
