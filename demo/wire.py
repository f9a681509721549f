"""The vendors' formats as the scripted model speaks them.

OpenAI chat completions (which OpenRouter, DeepSeek, Ollama, vLLM and LiteLLM's proxy serve too),
Azure OpenAI's, Anthropic messages and Gemini's generateContent.

Pure. Requests are checked as strictly as the vendors do, and errors have the shapes they publish.
Sources: https://platform.openai.com/docs/api-reference/chat, …/docs/guides/error-codes,
https://docs.anthropic.com/en/api/messages, …/messages-streaming, …/errors,
https://learn.microsoft.com/azure/ai-services/openai/reference,
https://ai.google.dev/api/generate-content, …/gemini-api/docs/troubleshooting.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from demo.scenario import Fault, Message

_BAD_GEMINI_KEY = "API_KEY_INVALID"
CREATED = 1_700_000_000
PIECE = 24


@dataclass(frozen=True)
class Answer:
    """An error answer: status, JSON body, extra headers."""

    status: int
    body: Mapping[str, Any]
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Chat:
    """A checked request. `usage_wanted`: OpenAI's streams tell usage only when asked to."""

    model: str
    messages: tuple[Message, ...]
    stream: bool
    usage_wanted: bool


class Wire(Protocol):
    """One vendor's format."""

    def serves(self, path: str) -> bool:
        """Say whether a path (without query) is an endpoint of this vendor's."""

    def check_key(self, headers: Mapping[str, str], key: str | None) -> Answer | None:
        """Return the vendor's answer to a missing or wrong credential."""

    def read(self, target: str, headers: Mapping[str, str], body: object) -> Chat | Answer:
        """Check a request as the vendor does. `target` is the path, with its query."""

    def whole(self, chat: Chat, text: str) -> Mapping[str, Any]:
        """Return the body of an answer that is not streamed."""

    def events(self, chat: Chat, text: str) -> Iterator[bytes]:
        """Return the streamed answer, event by event."""

    def fault(self, fault: Fault, retry_after: int | None) -> Answer:
        """Return a published error."""

    def not_found(self, method: str, path: str) -> Answer:
        """Return the answer for a path that is not served."""


class OpenAIWire:
    # As OpenAI, OpenRouter and DeepSeek have it.
    _PATHS = frozenset(
        {"/v1/chat/completions", "/api/v1/chat/completions", "/beta/chat/completions"}
    )

    _FAULTS: Mapping[Fault, tuple[int, str, str | None, str]] = {
        Fault.AUTH: (
            401,
            "invalid_request_error",
            "invalid_api_key",
            "Incorrect API key provided.",
        ),
        Fault.PERMISSION: (
            403,
            "invalid_request_error",
            "unsupported_country_region_territory",
            "Country, region, or territory not supported",
        ),
        Fault.QUOTA: (
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        Fault.RATE_LIMIT: (
            429,
            "requests",
            "rate_limit_exceeded",
            "Rate limit reached for requests. Please try again in 1s.",
        ),
        Fault.SERVER: (
            500,
            "server_error",
            None,
            "The server had an error while processing your request. Sorry about that!",
        ),
        Fault.OVERLOADED: (
            503,
            "server_error",
            None,
            "The engine is currently overloaded, please try again later",
        ),
        Fault.OVERFLOW: (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 9001 tokens. Please reduce the length of the messages.",
        ),
        Fault.NOT_FOUND: (
            404,
            "invalid_request_error",
            "model_not_found",
            "The model does not exist or you do not have access to it.",
        ),
    }

    def serves(self, path: str) -> bool:
        return path in self._PATHS

    def check_key(self, headers: Mapping[str, str], key: str | None) -> Answer | None:
        given = headers.get("authorization", "")
        if key is None or given == f"Bearer {key}":
            return None
        if not given.startswith("Bearer "):
            return _openai_error(401, "You didn't provide an API key.", code=None)
        return _openai_error(401, "Incorrect API key provided.", code="invalid_api_key")

    def read(self, target: str, headers: Mapping[str, str], body: object) -> Chat | Answer:
        if not isinstance(body, dict):
            return _openai_error(400, "We could not parse the JSON body of your request.")
        if not isinstance(body.get("model"), str) or not body["model"]:
            return _openai_error(400, "you must provide a model parameter")
        messages = _read_messages(
            body.get("messages"), {"system", "developer", "user", "assistant"}
        )
        if messages is None:
            return _openai_error(
                400,
                "Missing or invalid parameter: 'messages'.",
                code="missing_required_parameter",
                param="messages",
            )
        options = body.get("stream_options")
        stream = body.get("stream") is True
        if options is not None and not stream:
            text = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
            return _openai_error(400, text, param="stream_options")
        wanted = isinstance(options, dict) and options.get("include_usage") is True
        return Chat(body["model"], messages, stream, wanted)

    def whole(self, chat: Chat, text: str) -> Mapping[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return {
            **self._head(chat, text, "chat.completion"),
            "choices": [choice],
            "usage": self._usage(chat, text),
        }

    def events(self, chat: Chat, text: str) -> Iterator[bytes]:
        head = self._head(chat, text, "chat.completion.chunk")
        if chat.usage_wanted:
            head["usage"] = None
        deltas: list[tuple[dict[str, str], str | None]] = [
            ({"role": "assistant", "content": ""}, None)
        ]
        deltas += [({"content": piece}, None) for piece in _pieces(text)]
        deltas.append(({}, "stop"))
        for delta, finish in deltas:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            yield _event({**head, "choices": [choice]})
        if chat.usage_wanted:
            yield _event({**head, "choices": [], "usage": self._usage(chat, text)})
        yield b"data: [DONE]\n\n"

    def fault(self, fault: Fault, retry_after: int | None) -> Answer:
        status, kind, code, message = self._FAULTS[fault]
        answer = _openai_error(status, message, kind=kind, code=code)
        return Answer(answer.status, answer.body, _retry_header(retry_after))

    def not_found(self, method: str, path: str) -> Answer:
        return _openai_error(404, f"Invalid URL ({method} {path})")

    def _head(self, chat: Chat, text: str, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{_digest(text)}",
            "object": kind,
            "created": CREATED,
            "model": chat.model,
            "system_fingerprint": "fp_scripted",
        }

    def _usage(self, chat: Chat, text: str) -> Mapping[str, Any]:
        prompt, completion = prompt_tokens(chat), count_tokens(text)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        }


class AzureWire(OpenAIWire):
    """Azure's: the same format, the deployment in the path, and another header."""

    _PATH = re.compile(r"/openai/deployments/([^/]+)/chat/completions")

    def serves(self, path: str) -> bool:
        return self._PATH.fullmatch(path) is not None

    def check_key(self, headers: Mapping[str, str], key: str | None) -> Answer | None:
        if key is None or headers.get("api-key", "") == key:
            return None
        text = (
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to "
            "provide a valid key for an active subscription and use a correct regional API "
            "endpoint for your resource."
        )
        return Answer(401, {"error": {"code": "401", "message": text}})

    def read(self, target: str, headers: Mapping[str, str], body: object) -> Chat | Answer:
        path, _, query = target.partition("?")
        if not query.startswith("api-version="):
            return Answer(404, {"error": {"code": "404", "message": "Resource not found"}})
        found = self._PATH.fullmatch(path)
        named = {"model": found[1]} if found else {}
        return super().read(target, headers, {**body, **named} if isinstance(body, dict) else body)


class AnthropicWire:
    def serves(self, path: str) -> bool:
        return path == "/v1/messages"

    _FAULTS: Mapping[Fault, tuple[int, str, str]] = {
        Fault.AUTH: (401, "authentication_error", "invalid x-api-key"),
        Fault.PERMISSION: (
            403,
            "permission_error",
            "Your API key does not have permission to use the specified resource.",
        ),
        Fault.QUOTA: (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & "
            "Billing to upgrade or purchase credits.",
        ),
        Fault.RATE_LIMIT: (
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit.",
        ),
        Fault.SERVER: (500, "api_error", "Internal server error"),
        Fault.OVERLOADED: (529, "overloaded_error", "Overloaded"),
        Fault.OVERFLOW: (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        ),
        Fault.NOT_FOUND: (404, "not_found_error", "model: not found"),
    }

    def check_key(self, headers: Mapping[str, str], key: str | None) -> Answer | None:
        given = headers.get("x-api-key", "")
        if key is None or given == key:
            return None
        words = "invalid x-api-key" if given else "x-api-key header is required"
        return _anthropic_error(401, "authentication_error", words)

    def read(self, target: str, headers: Mapping[str, str], body: object) -> Chat | Answer:
        if "anthropic-version" not in headers:
            return self._invalid("anthropic-version: header is required")
        if not isinstance(body, dict):
            return self._invalid("The request body is not valid JSON")
        if not isinstance(body.get("model"), str) or not body["model"]:
            return self._invalid("model: Field required")
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
            return self._invalid("max_tokens: Field required")
        messages = _read_messages(body.get("messages"), {"user", "assistant"})
        if messages is None:
            return self._invalid("messages: Field required")
        system = (Message("system", _text_of(body["system"])),) if body.get("system") else ()
        return Chat(body["model"], system + messages, body.get("stream") is True, True)

    def whole(self, chat: Chat, text: str) -> Mapping[str, Any]:
        return {
            **self._head(chat, text),
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": self._usage(chat, count_tokens(text)),
        }

    def events(self, chat: Chat, text: str) -> Iterator[bytes]:
        block = {"type": "text", "text": ""}
        start = {**self._head(chat, text), "usage": self._usage(chat, 1)}
        yield _named({"type": "message_start", "message": start})
        yield _named({"type": "content_block_start", "index": 0, "content_block": block})
        yield _named({"type": "ping"})
        for piece in _pieces(text):
            delta = {"type": "text_delta", "text": piece}
            yield _named({"type": "content_block_delta", "index": 0, "delta": delta})
        yield _named({"type": "content_block_stop", "index": 0})
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        usage = {"output_tokens": count_tokens(text)}
        yield _named({"type": "message_delta", "delta": end, "usage": usage})
        yield _named({"type": "message_stop"})

    def fault(self, fault: Fault, retry_after: int | None) -> Answer:
        answer = _anthropic_error(*self._FAULTS[fault])
        return Answer(answer.status, answer.body, _retry_header(retry_after))

    def not_found(self, method: str, path: str) -> Answer:
        return _anthropic_error(404, "not_found_error", "Not found")

    def _invalid(self, message: str) -> Answer:
        return _anthropic_error(400, "invalid_request_error", message)

    def _head(self, chat: Chat, text: str) -> dict[str, Any]:
        return {
            "id": f"msg_{_digest(text)}",
            "type": "message",
            "role": "assistant",
            "model": chat.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }

    def _usage(self, chat: Chat, output: int) -> Mapping[str, Any]:
        return {
            "input_tokens": prompt_tokens(chat),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output,
        }


class GeminiWire:
    """Gemini's: the model and whether to stream are in the path, the usage in every piece."""

    _PATH = re.compile(r"/v1beta/models/([^/:]+):(generateContent|streamGenerateContent)")
    _FAULTS: Mapping[Fault, tuple[int, str, str]] = {
        Fault.AUTH: (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
        Fault.PERMISSION: (403, "PERMISSION_DENIED", "The caller does not have permission"),
        Fault.QUOTA: (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details. "
            "Quota exceeded for quota metric GenerateRequestsPerDayPerProjectPerModel.",
        ),
        Fault.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted."),
        Fault.SERVER: (500, "INTERNAL", "An internal error has occurred."),
        Fault.OVERLOADED: (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        Fault.OVERFLOW: (
            400,
            "INVALID_ARGUMENT",
            "The input token count (210000) exceeds the maximum number of tokens allowed (200000).",
        ),
        Fault.NOT_FOUND: (404, "NOT_FOUND", "models/x is not found for API version v1beta"),
    }

    def serves(self, path: str) -> bool:
        return self._PATH.fullmatch(path) is not None

    def check_key(self, headers: Mapping[str, str], key: str | None) -> Answer | None:
        if key is None or headers.get("x-goog-api-key", "") == key:
            return None
        return self.fault(Fault.AUTH, None)

    def read(self, target: str, headers: Mapping[str, str], body: object) -> Chat | Answer:
        path, _, query = target.partition("?")
        found = self._PATH.fullmatch(path)
        contents = body.get("contents") if isinstance(body, dict) else None
        if found is None or not isinstance(body, dict) or not isinstance(contents, list):
            return _gemini_error(400, "INVALID_ARGUMENT", "contents is not specified")
        streamed = found[2] == "streamGenerateContent"
        if streamed and "alt=sse" not in query.split("&"):
            return _gemini_error(400, "INVALID_ARGUMENT", "only server-sent events are spoken here")
        system = body.get("system_instruction") or body.get("systemInstruction")
        messages = [Message("system", _parts_text(system))] if system else []
        roles = {"model": "assistant"}
        messages += [
            Message(roles.get(str(each.get("role")), "user"), _parts_text(each))
            for each in contents
            if isinstance(each, dict)
        ]
        return Chat(found[1], tuple(messages), streamed, True)

    def whole(self, chat: Chat, text: str) -> Mapping[str, Any]:
        return self._piece(chat, text, count_tokens(text), "STOP")

    def events(self, chat: Chat, text: str) -> Iterator[bytes]:
        pieces = _pieces(text) or [""]
        for number, piece in enumerate(pieces, 1):
            last = number == len(pieces)
            tokens = count_tokens(text) if last else count_tokens("".join(pieces[:number]))
            yield _event(self._piece(chat, piece, tokens, "STOP" if last else None))

    def fault(self, fault: Fault, retry_after: int | None) -> Answer:
        answer = _gemini_error(*self._FAULTS[fault])
        if fault is Fault.AUTH:
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": _BAD_GEMINI_KEY}
            answer = Answer(400, {"error": {**answer.body["error"], "details": [info]}})
        return Answer(answer.status, answer.body, _retry_header(retry_after))

    def not_found(self, method: str, path: str) -> Answer:
        return _gemini_error(404, "NOT_FOUND", "Requested entity was not found.")

    def _piece(self, chat: Chat, text: str, output: int, finish: str | None) -> Mapping[str, Any]:
        prompt = prompt_tokens(chat)
        candidate: dict[str, Any] = {
            "content": {"parts": [{"text": text}], "role": "model"},
            "index": 0,
        }
        return {
            "candidates": [candidate | ({"finishReason": finish} if finish else {})],
            "usageMetadata": {
                "promptTokenCount": prompt,
                "candidatesTokenCount": output,
                "totalTokenCount": prompt + output,
            },
            "modelVersion": chat.model,
            "responseId": _digest(text),
        }


OPENAI = OpenAIWire()
AZURE = AzureWire()
ANTHROPIC = AnthropicWire()
GEMINI = GeminiWire()


def wire_for(path: str, headers: Mapping[str, str]) -> Wire:
    """Return the format of a request: by its path, else by the vendor's own header."""
    wires: tuple[Wire, ...] = (OPENAI, AZURE, ANTHROPIC, GEMINI)
    for wire in wires:
        if wire.serves(path):
            return wire
    return ANTHROPIC if "anthropic-version" in headers else OPENAI


def count_tokens(text: str) -> int:
    """Return a made-up but stable number: a token for every four characters, and one more."""
    return len(text) // 4 + 1


def prompt_tokens(chat: Chat) -> int:
    return sum(count_tokens(each.text) for each in chat.messages)


def _read_messages(value: object, roles: set[str]) -> tuple[Message, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    if any(not isinstance(each, dict) or each.get("role") not in roles for each in value):
        return None
    return tuple(Message(each["role"], _text_of(each.get("content"))) for each in value)


def _text_of(content: object) -> str:
    """Return a message's text: a string, or the text blocks of a list."""
    if isinstance(content, list):
        return "".join(str(each.get("text", "")) for each in content if isinstance(each, dict))
    return content if isinstance(content, str) else ""


def _pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)]


def _event(value: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _named(value: Mapping[str, Any]) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def _openai_error(
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    code: str | None = None,
    param: str | None = None,
) -> Answer:
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Answer(status, {"error": error})


def _anthropic_error(status: int, kind: str, message: str) -> Answer:
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Answer(status, {**body, "request_id": f"req_{_digest(message)}"})


def _gemini_error(status: int, kind: str, message: str) -> Answer:
    return Answer(status, {"error": {"code": status, "message": message, "status": kind}})


def _parts_text(content: object) -> str:
    """Return the text of a Gemini content's parts."""
    parts = content.get("parts") if isinstance(content, dict) else None
    # A single part need not be in a list.
    listed = parts if isinstance(parts, list) else [parts]
    return "".join(str(part.get("text", "")) for part in listed if isinstance(part, dict))


def _retry_header(seconds: int | None) -> tuple[tuple[str, str], ...]:
    return () if seconds is None else (("retry-after", str(seconds)),)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
