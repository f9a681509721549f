"""One model call: plan it from the guest's request, pass the answer through, say what came of it.

The answer's bytes go on as they come; only an error's body is held, because what it means decides
what the next call is told. `done` is called exactly once, before the guest can see the end of the
answer, so that nobody observes a finished call that is not yet accounted for.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any

from egress.guest import BadRequest, GuestConnection, GuestGone
from egress.inject import (
    Credential,
    Headers,
    Redactor,
    Stripped,
    keep_response_headers,
)
from egress.meter import Tokens, UsageReader
from egress.policy import Grant, Wire
from egress.upstream import Exchange, ResponseHead, UpstreamFailed, UpstreamRequest
from egress.vendors import (
    FINAL_ERRORS,
    CallError,
    ErrorAnswer,
    classify,
    failure_answer,
    message_of,
)

MAX_ERROR_BODY = 64 * 1024
NO_RETRY = ("x-should-retry", "false")
NO_TOKENS = Tokens()


@dataclass(frozen=True)
class Outcome:
    """What came of one call. `final` is the answer to repeat when asking again is of no use."""

    status: int
    error: CallError | None
    tokens: Tokens = NO_TOKENS
    final: ErrorAnswer | None = None
    echoes: int = 0
    redirect: bool = False
    detail: str = ""


def read_model(body: bytes, target: str, in_path: str | None = None) -> str:
    """Return the model that a request is for. BadRequest unless the body is one JSON object.

    A repeated key is refused: the upstream might read the other one. So is a body that names
    another model than the path does.
    """
    try:
        # Decoded first: json would also take UTF-16, which an upstream might read differently.
        request = json.loads(body.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BadRequest(
            400, f"the request body is not plain JSON: {error}"[:200], target
        ) from None
    if not isinstance(request, dict):
        raise BadRequest(400, "the request body is no JSON object", target)
    model = request.get("model", in_path)
    if not isinstance(model, str) or not model:
        raise BadRequest(400, "the request body names no model", target)
    if in_path is not None and model != in_path:
        raise BadRequest(400, f"the path is for {in_path!r}, the body for another model", target)
    return model


def plan_request(
    grant: Grant, credential: Credential | None, stripped: Stripped, path: str, body: bytes
) -> UpstreamRequest:
    """Build the upstream's request: the guest's kept headers, and our credential."""
    origin = (grant.scheme, grant.host, grant.port)
    own = [credential.header_for(origin)] if credential else []
    target = f"{path}?{stripped.query}" if stripped.query else path
    return UpstreamRequest(origin, "POST", target, (*stripped.headers, *own), body)


class Relay:
    """Carries one answer from an exchange to the guest."""

    def __init__(
        self,
        guest: GuestConnection,
        wire: Wire,
        credential: Credential | None,
        request_bytes: int,
        done: Callable[[Outcome], None],
    ) -> None:
        self._guest = guest
        self._wire = wire
        self._redactor = credential.redactor() if credential else Redactor(b"")
        self._request_bytes = request_bytes
        self._done = done
        self._finished = False

    def run(self, open_exchange: Callable[[], Exchange]) -> None:
        """Make the call. GuestGone when the guest left or its answer had to be cut off."""
        try:
            with closing(open_exchange()) as exchange:
                exchange.send()
                self._answer(exchange, exchange.head())
        except UpstreamFailed as failure:
            self._fail(failure)
        finally:
            # Whatever went wrong, the call is accounted for.
            self._finish(Outcome(502, CallError.PROTOCOL))

    def _answer(self, exchange: Exchange, head: ResponseHead) -> None:
        headers = [(name, self._redactor.clean_header(value)) for name, value in head.headers]
        if 300 <= head.status < 400:
            self._refuse_redirect(head)
        elif head.header("content-encoding").lower() not in ("", "identity"):
            # An echoed key could not be seen in it.
            raise UpstreamFailed(CallError.PROTOCOL, "the upstream compressed its answer unasked")
        elif head.status >= 400:
            self._pass_error(exchange, head, headers)
        else:
            self._pass_stream(exchange, head, headers)

    def _pass_stream(self, exchange: Exchange, head: ResponseHead, headers: Headers) -> None:
        streamed = head.header("content-type").startswith("text/event-stream")
        reader = UsageReader(streamed, self._request_bytes)
        try:
            self._guest.start(head.status, keep_response_headers(headers), head.length)
            self._pump(exchange, head, reader)
            self._guest.finish()
        except UpstreamFailed as failure:
            outcome = Outcome(head.status, failure.error, reader.tokens(), detail=failure.reason)
            self._finish(outcome)
            raise GuestGone(failure.reason) from None
        except GuestGone:
            self._finish(Outcome(head.status, CallError.GUEST_GONE, reader.tokens()))
            raise

    def _pump(self, exchange: Exchange, head: ResponseHead, reader: UsageReader) -> None:
        """Pass the body on. With a known length, its last chunk is the end for the guest."""
        received = 0
        for chunk in exchange.chunks():
            received += len(chunk)
            last = received == head.length
            self._pass(self._redactor.feed(chunk), head, reader, last=last)
        self._pass(b"", head, reader, last=True)

    def _pass(self, data: bytes, head: ResponseHead, reader: UsageReader, *, last: bool) -> None:
        if last:
            data += self._redactor.flush()
        # The reader quotes errors, so it too sees only what is redacted.
        reader.feed(data)
        if last:
            self._finish(_outcome_of(head.status, reader))
        self._guest.send(data)

    def _pass_error(self, exchange: Exchange, head: ResponseHead, headers: Headers) -> None:
        body = self._redactor.feed(_read_beginning(exchange)) + self._redactor.flush()
        error = classify(head.status, body)
        kept = [(n, v) for n, v in keep_response_headers(headers) if n != "content-type"]
        kind = dict(headers).get("content-type", "text/plain")
        answer = ErrorAnswer(head.status, kind, body)
        final = answer if error in FINAL_ERRORS else None
        if final:
            kept = [pair for pair in kept if pair[0] != NO_RETRY[0]] + [NO_RETRY]
        self._finish(Outcome(head.status, error, final=final, detail=message_of(body)))
        self._guest.answer(answer.status, answer.body, answer.content_type, kept)

    def _refuse_redirect(self, head: ResponseHead) -> None:
        reason = f"the upstream answered {head.status}, a redirect; redirects are not followed"
        self._finish(Outcome(head.status, CallError.REDIRECT, redirect=True, detail=reason))
        self._send_failure(CallError.REDIRECT, reason)

    def _fail(self, failure: UpstreamFailed) -> None:
        answer = failure_answer(self._wire, failure.error, failure.reason)
        self._finish(Outcome(answer.status, failure.error, detail=failure.reason))
        self._send_failure(failure.error, failure.reason)

    def _send_failure(self, error: CallError, reason: str) -> None:
        answer = failure_answer(self._wire, error, reason)
        self._guest.answer(answer.status, answer.body, answer.content_type)

    def _finish(self, outcome: Outcome) -> None:
        if not self._finished:
            self._finished = True
            self._done(replace(outcome, echoes=self._redactor.found))


def _outcome_of(status: int, reader: UsageReader) -> Outcome:
    """A stream may begin with 200 and then carry an error event."""
    error = CallError.SERVER if reader.error else None
    return Outcome(status, error, reader.tokens(), detail=reader.error or "")


def _read_beginning(exchange: Exchange) -> bytes:
    """Return an error's body as far as it comes, at most MAX_ERROR_BODY: its status says enough."""
    body = b""
    with suppress(UpstreamFailed):
        for chunk in exchange.chunks():
            body += chunk
            if len(body) >= MAX_ERROR_BODY:
                break
    return body[:MAX_ERROR_BODY]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is repeated")
    return made
