"""The broker against upstreams that stream, break, hang, redirect and tell tales."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from demo.model import ScriptedModel
from demo.scenario import Reset, Scenario, Text, Truncated, prose_only
from egress.broker import Limits
from egress.guest import GuestLimits
from egress.inject import PLACEHOLDER
from egress.meter import Meter, Price
from egress.policy import Wire
from egress.upstream import UpstreamLimits
from egress.vendors import CallError
from tests.egress.conftest import MakeBroker
from tests.egress.listener import Listener, read_all
from tests.egress.upstreams import RawUpstream, json_answer, make_authority

PATH = "/model/openai/v1/chat/completions"
OURS = {"Authorization": f"Bearer {PLACEHOLDER}"}
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def request_bytes(chat: Mapping[str, Any]) -> bytes:
    body = json.dumps(chat).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def last_error(listener: Listener) -> CallError | None:
    return listener.broker.observations()[-1].error


def read_until(sock: socket.socket, ending: bytes) -> bytes:
    data = b""
    while not data.endswith(ending):
        piece = sock.recv(65536)
        assert piece, data
        data += piece
    return data


def test_a_stream_is_passed_on_piece_by_piece(
    serve: MakeBroker, chat: Mapping[str, Any], key: str
) -> None:
    go_on = threading.Event()
    pieces = [b"data: one\n\n", b"data: two, s\n\n", f"data: {key[:6]}".encode(), b"...\n\n"]

    def play(sock: socket.socket, _: bytes) -> None:
        sock.sendall(STREAM)
        for piece in pieces:
            sock.sendall(chunk(piece))
            assert go_on.wait(10)
            go_on.clear()
        sock.sendall(b"0\r\n\r\n")

    with RawUpstream(play) as upstream:
        listener = serve(upstream.port)
        with listener.connect() as sock:
            sock.sendall(request_bytes(chat))
            # Each piece is seen before the next one is sent.
            seen = read_until(sock, chunk(pieces[0]))
            go_on.set()
            read_until(sock, chunk(pieces[1]))
            go_on.set()
            # What could be the beginning of the key waits for the next piece; the rest does not.
            read_until(sock, chunk(b"data: "))
            go_on.set()
            read_until(sock, chunk(key[:6].encode() + b"...\n\n"))
            go_on.set()
            read_until(sock, b"0\r\n\r\n")
    assert seen.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"text/event-stream" in seen
    assert listener.broker.refusals() == ()


def test_a_body_with_a_length_keeps_it_and_is_accounted_for_before_its_last_byte(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    body = json.dumps({"usage": {"prompt_tokens": 3, "completion_tokens": 4}}).encode()
    with RawUpstream(json_answer(body)) as upstream:
        listener = serve(upstream.port)
        got = listener.post(PATH, chat, OURS)
        (call,) = listener.broker.observations()
    assert got.headers["content-length"] == str(len(body))
    assert got.body == body
    assert (call.input_tokens, call.output_tokens) == (3, 4)


def test_a_body_that_ends_with_the_connection_is_whole(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}"
    with RawUpstream(answer) as upstream:
        listener = serve(upstream.port)
        assert listener.post(PATH, chat, OURS).body == b"{}"
        assert last_error(listener) is None


def test_informational_answers_are_skipped(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"
    with RawUpstream(early + json_answer(b"{}")) as upstream:
        assert serve(upstream.port).post(PATH, chat, OURS).body == b"{}"


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "304 Not Modified"])
def test_a_redirect_is_neither_followed_nor_passed_on(
    serve: MakeBroker, chat: Mapping[str, Any], status: str
) -> None:
    with RawUpstream(json_answer(b"", "Location: http://127.0.0.1:1/", status=status)) as upstream:
        listener = serve(upstream.port)
        got = listener.post(PATH, chat, OURS)
        assert len(upstream.requests) == 1
    assert got.status == 502
    assert "location" not in got.headers
    assert "redirects are not followed" in got.json["error"]["message"]
    (refusal,) = listener.broker.refusals()
    assert "a redirect" in refusal.reason
    assert last_error(listener) is CallError.REDIRECT


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request", "401 Unauthorized"])
def test_a_key_that_comes_back_is_redacted_and_recorded(
    serve: MakeBroker, chat: Mapping[str, Any], key: str, tmp_path: Path, status: str
) -> None:
    body = json.dumps({"error": {"message": f"Your key is {key}, {key}!"}}).encode()
    answer = json_answer(
        body,
        f"X-Request-Id: {key}",
        f"X-Other: Bearer {key}",
        f"Set-Cookie: k={key}",
        status=status,
    )
    with RawUpstream(answer) as upstream:
        listener = serve(upstream.port)
        got = listener.post(PATH, chat, OURS)
    stars = "*" * len(key)
    assert got.body == body.replace(key.encode(), stars.encode())
    assert got.headers["x-request-id"] == stars
    assert key not in str(got)
    (refusal,) = listener.broker.refusals()
    assert "sent the injected key back (5x)" in refusal.reason
    assert key not in (tmp_path / "audit.jsonl").read_text()
    assert key not in str(listener.broker.observations())


def test_a_key_that_comes_back_cut_into_pieces_is_redacted(
    serve: MakeBroker, chat: Mapping[str, Any], key: str
) -> None:
    def play(sock: socket.socket, _: bytes) -> None:
        sock.sendall(STREAM)
        for letter in f"data: {key}\n\n":
            sock.sendall(chunk(letter.encode()))
        sock.sendall(b"0\r\n\r\n")

    with RawUpstream(play) as upstream:
        listener = serve(upstream.port)
        got = listener.post(PATH, chat, OURS)
    assert got.body == f"data: {'*' * len(key)}\n\n".encode()
    assert len(listener.broker.refusals()) == 1


def test_an_echo_in_a_broken_answer_is_not_quoted(
    serve: MakeBroker, chat: Mapping[str, Any], key: str, tmp_path: Path
) -> None:
    with RawUpstream(f"HTTP/1.1 200 OK\r\n{key} {key}\r\n\r\n".encode()) as upstream:
        listener = serve(upstream.port)
        got = listener.post(PATH, chat, OURS)
    assert got.status == 502
    assert key not in str(got)
    assert key not in (tmp_path / "audit.jsonl").read_text()


def test_no_compression_is_asked_for_and_none_is_taken(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    with RawUpstream(json_answer(b"\x1f\x8b", "Content-Encoding: gzip")) as upstream:
        listener = serve(upstream.port)
        got = listener.post(PATH, chat, {**OURS, "Accept-Encoding": "gzip"})
        assert b"accept-encoding: identity\r\n" in upstream.requests[0].lower()
        assert b"gzip" not in upstream.requests[0]
    assert got.status == 502
    assert "compressed" in got.json["error"]["message"]


def test_response_headers_that_are_not_the_guests_business_stay_out(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    headers = ["Set-Cookie: a=b", "OpenAI-Organization: org", "Alt-Svc: h3", "Retry-After: 3"]
    with RawUpstream(json_answer(b"{}", *headers)) as upstream:
        got = serve(upstream.port).post(PATH, chat, OURS)
    assert set(got.headers) == {"content-type", "content-length", "retry-after"}


ENDPOINT = {
    Wire.OPENAI: "/v1/chat/completions",
    Wire.ANTHROPIC: "/v1/messages",
    Wire.AZURE: "/openai/deployments/model-a/chat/completions",
    Wire.GEMINI: "/v1beta/models/model-a:generateContent",
}


@pytest.mark.parametrize("wire", Wire)
def test_an_unreachable_upstream_fails_that_request_in_the_vendors_shape(
    serve: MakeBroker, chat: Mapping[str, Any], wire: Wire
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listener = serve(port, grant={"wire": wire, "name": "openai"})
    got = listener.post(
        f"/model/openai{ENDPOINT[wire]}",
        chat,
        OURS if wire is Wire.OPENAI else {"x-api-key": PLACEHOLDER},
    )
    assert got.status == 502
    assert "Connection refused" in got.json["error"]["message"]
    assert last_error(listener) is CallError.UNREACHABLE
    assert listener.broker.refusals() == ()


def test_a_name_that_does_not_resolve_is_unreachable(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    listener = serve(80, grant={"host": "nowhere.invalid"})
    assert listener.post(PATH, chat, OURS).status == 502
    assert last_error(listener) is CallError.UNREACHABLE


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 300_000 + b"\r\n\r\n",
    ],
)
def test_an_upstream_that_does_not_speak_http_is_a_bad_gateway(
    serve: MakeBroker, chat: Mapping[str, Any], answer: bytes
) -> None:
    with RawUpstream(answer) as upstream:
        listener = serve(upstream.port)
        assert listener.post(PATH, chat, OURS).status == 502
        assert last_error(listener) in (CallError.PROTOCOL, CallError.UNREACHABLE)


def test_a_reset_is_a_bad_gateway(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    with ScriptedModel(Scenario("s", (Reset(),))) as model:
        listener = serve(model.port)
        assert listener.post(PATH, chat, OURS).status == 502


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_breaks_off_is_not_ended_as_if_it_were_whole(
    serve: MakeBroker, chat: Mapping[str, Any], stream: bool
) -> None:
    with ScriptedModel(Scenario("s", (Truncated("word " * 100),))) as model:
        listener = serve(model.port)
        answer = listener.raw(request_bytes({**chat, "stream": stream}))
        assert last_error(listener) is CallError.TRUNCATED
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert not answer.endswith(b"0\r\n\r\n")
    (call,) = listener.broker.observations()
    assert call.estimated
    assert call.input_tokens > 0


def test_a_silent_upstream_is_a_gateway_timeout(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    silent = threading.Event()
    limits = Limits(upstream=UpstreamLimits(silence_s=0.1))
    with RawUpstream(lambda sock, _: silent.wait(20) and None) as upstream:
        listener = serve(upstream.port, limits=limits)
        got = listener.post(PATH, chat, OURS)
        silent.set()
    assert got.status == 504
    assert "is silent" in got.json["error"]["message"]
    assert last_error(listener) is CallError.TIMEOUT


def test_a_trickling_upstream_has_a_total_limit(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    def play(sock: socket.socket, _: bytes) -> None:
        sock.sendall(STREAM)
        with contextlib.suppress(OSError):
            while True:
                sock.sendall(chunk(b": still here\n\n"))
                time.sleep(0.02)  # it trickles: that is what is tested

    limits = Limits(upstream=UpstreamLimits(silence_s=5, total_s=0.3))
    with RawUpstream(play) as upstream:
        listener = serve(upstream.port, limits=limits)
        answer = listener.raw(request_bytes(chat))
        assert last_error(listener) is CallError.TIMEOUT
    assert not answer.endswith(b"0\r\n\r\n")


def test_an_endless_answer_is_cut_off(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    def play(sock: socket.socket, _: bytes) -> None:
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        while True:
            sock.sendall(b"x" * 65536)

    limits = Limits(upstream=UpstreamLimits(response_bytes=1_000_000))
    with RawUpstream(play) as upstream:
        listener = serve(upstream.port, limits=limits)
        answer = listener.raw(request_bytes(chat))
        assert last_error(listener) is CallError.TOO_LARGE
    assert len(answer) < 1_100_000


def test_an_error_with_an_endless_body_is_cut_to_its_beginning(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    def play(sock: socket.socket, _: bytes) -> None:
        sock.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            sock.sendall(b"x" * 65536)

    with RawUpstream(play) as upstream:
        listener = serve(upstream.port)
        got = listener.post(PATH, chat, OURS)
        assert last_error(listener) is CallError.AUTH
    assert got.status == 401
    assert len(got.body) == 64 * 1024


def test_a_401_whose_body_breaks_off_still_counts(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    with RawUpstream(b"HTTP/1.1 401 No\r\nContent-Length: 50\r\n\r\n{") as upstream:
        listener = serve(upstream.port)
        assert [listener.post(PATH, chat, OURS).status for _ in range(2)] == [401, 401]
        assert len(upstream.requests) == 1


def test_an_upstream_that_answers_before_it_has_read_is_heard(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve_early() -> None:
        sock, _ = server.accept()
        with sock:
            sock.recv(1000)
            sock.sendall(json_answer(b'{"error": "big"}', "Connection: close", status="413 No"))
            sock.shutdown(socket.SHUT_WR)
            read_all(sock)

    thread = threading.Thread(target=serve_early)
    thread.start()
    listener = serve(server.getsockname()[1])
    got = listener.post(PATH, {**chat, "filler": "x" * 5_000_000}, OURS)
    thread.join(10)
    server.close()
    assert got.status == 413
    assert last_error(listener) is CallError.REJECTED


def test_a_guest_that_sends_its_headers_too_slowly_is_cut_off(serve: MakeBroker) -> None:
    limits = Limits(GuestLimits(head_s=0.1, idle_s=5))
    listener = serve(1, limits=limits)
    with listener.connect() as sock:
        sock.sendall(b"POST /model")
        assert read_all(sock) == b""
    listener.broker.close()
    (refusal,) = listener.broker.refusals()
    assert refusal.reason == "the guest took too long over its request headers"


def test_a_guest_that_sends_its_body_too_slowly_is_cut_off(serve: MakeBroker) -> None:
    listener = serve(1, limits=Limits(GuestLimits(body_s=0.1)))
    with listener.connect() as sock:
        sock.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode())
        assert read_all(sock) == b""
    listener.broker.close()
    (refusal,) = listener.broker.refusals()
    assert refusal.reason == "the guest took too long over its request body"


def test_a_guest_that_says_nothing_is_let_go_without_a_refusal(serve: MakeBroker) -> None:
    listener = serve(1, limits=Limits(GuestLimits(idle_s=0.05)))
    with listener.connect() as sock:
        assert read_all(sock) == b""
    assert listener.broker.refusals() == ()


def test_a_guest_that_does_not_read_is_cut_off_and_the_upstream_with_it(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    ended = threading.Event()

    def play(sock: socket.socket, _: bytes) -> None:
        try:
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
            while True:
                sock.sendall(b"x" * 65536)
        finally:
            ended.set()

    with RawUpstream(play) as upstream:
        listener = serve(upstream.port, limits=Limits(GuestLimits(send_s=0.2)))
        with listener.connect() as sock:
            sock.sendall(request_bytes(chat))
            assert ended.wait(20)
        listener.broker.close()
        assert last_error(listener) is CallError.GUEST_GONE


def test_a_guest_that_leaves_is_noticed_and_its_tokens_are_counted(
    serve: MakeBroker, chat: Mapping[str, Any]
) -> None:
    ended = threading.Event()

    def play(sock: socket.socket, _: bytes) -> None:
        try:
            sock.sendall(STREAM)
            while True:
                sock.sendall(chunk(b'data: {"choices": [{"delta": {"content": "word"}}]}\n\n'))
        finally:
            ended.set()

    with RawUpstream(play) as upstream:
        meter = Meter({"model-a": Price(1.0, 1.0)})
        listener = serve(upstream.port, meter=meter)
        with listener.connect() as sock:
            sock.sendall(request_bytes(chat))
            sock.recv(100)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert ended.wait(20)
        listener.broker.close()
        assert last_error(listener) is CallError.GUEST_GONE
    assert meter.usage().estimated
    assert meter.usage().output_tokens > 0


# TLS


def test_a_tls_upstream_is_verified_with_the_operators_ca(
    serve: MakeBroker, chat: Mapping[str, Any], key: str, tmp_path: Path
) -> None:
    authority = make_authority(tmp_path, "localhost")
    with ScriptedModel(prose_only("Safe."), api_key=key, tls=authority.server) as model:
        listener = serve(
            model.port,
            grant={"scheme": "https", "host": "localhost"},
            upstream_ca=str(authority.bundle),
        )
        got = listener.post(PATH, {**chat, "stream": True}, OURS)
        assert got.status == 200
        assert b"Safe." in got.body
        assert model.requests[0].headers["host"] == f"localhost:{model.port}"
        assert last_error(listener) is None


@pytest.mark.parametrize("trusted", [True, False])
def test_a_certificate_that_does_not_fit_gets_no_request(
    serve: MakeBroker, chat: Mapping[str, Any], key: str, tmp_path: Path, trusted: bool
) -> None:
    authority = make_authority(tmp_path, "other.example" if trusted else "localhost")
    options = {"upstream_ca": str(authority.bundle)} if trusted else {}
    with ScriptedModel(prose_only(), api_key=key, tls=authority.server) as model:
        listener = serve(model.port, grant={"scheme": "https", "host": "localhost"}, **options)
        got = listener.post(PATH, chat, OURS)
        assert model.requests == ()
    assert got.status == 502
    assert "certificate verify failed" in got.json["error"]["message"]
    assert last_error(listener) is CallError.TLS


def test_plain_http_on_a_tls_grant_fails(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    with ScriptedModel(prose_only()) as model:
        listener = serve(model.port, grant={"scheme": "https", "host": "localhost"})
        assert listener.post(PATH, chat, OURS).status == 502
        assert last_error(listener) is CallError.TLS


def test_a_handshake_that_hangs_is_a_timeout(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        limits = Limits(upstream=UpstreamLimits(connect_s=0.1))
        listener = serve(
            server.getsockname()[1], grant={"scheme": "https", "host": "localhost"}, limits=limits
        )
        assert listener.post(PATH, chat, OURS).status == 504
        assert last_error(listener) is CallError.TIMEOUT


def test_a_large_answer_arrives_whole(serve: MakeBroker, chat: Mapping[str, Any]) -> None:
    text = base64.b64encode(bytes(range(256)) * 8000).decode()
    with ScriptedModel(Scenario("s", (Text(text),))) as model:
        listener = serve(model.port)
        got = listener.post(PATH, chat, OURS)
    assert got.json["choices"][0]["message"]["content"] == text
