"""`POST /webhooks/github`: verify the raw bytes, store the delivery, enqueue its id, answer.

Nothing is parsed before the signature holds, and GitHub is never called. What is answered with
202 is in the database; what is not is answered with an error that GitHub shows, so that it can be
redelivered.

    202  stored | duplicate | ignored (with the reason)
    400  a header is missing, or the payload is not what GitHub documents
    401  the signature is missing or wrong
    413  more than 25 MB, which is also the most that GitHub sends
    415  not application/json
    503  the database does not answer
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

import structlog
from flask import Blueprint, Response, jsonify, request
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import RequestEntityTooLarge

from app.decide import label_in_question, needs_facts
from app.events import (
    SIGNATURE_HEADER,
    CheckActionRequested,
    CheckRerequested,
    Event,
    Ignored,
    IssueAssigned,
    MalformedDelivery,
    ReviewSubmitted,
    parse_delivery,
    subject_of,
    verify_signature,
)
from app.store import DeliveryState, NewDelivery, deliveries, writing
from app.web.deps import Deps

MAX_BODY_BYTES = 25 * 1024 * 1024
"""https://docs.github.com/en/webhooks/webhook-events-and-payloads#payload-cap"""

# It is only a count, and GitHub has waited for the queue already.
_COUNT_PATIENCE_S = 1.0

_DELIVERY_ID = re.compile(r"[\x21-\x7e]{1,128}")
_EVENT = re.compile(r"[a-z0-9_]{1,64}")

_log = structlog.get_logger(__name__)


class RefusedBecause(StrEnum):
    """Why a webhook was not taken; the order is the layout of a file: add at the end."""

    BAD_SIGNATURE = "bad_signature"
    TOO_LARGE = "too_large"
    BAD_HEADERS = "bad_headers"
    BAD_CONTENT_TYPE = "bad_content_type"
    MALFORMED = "malformed"


class _Refused(Exception):
    """Not taken; becomes an answer."""

    def __init__(self, status: int, because: RefusedBecause, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.because = because
        self.reason = reason


@dataclass(frozen=True)
class _Meaning:
    """What a webhook says, as far as the web application needs it.

    `ignored` is why nobody needs to work on it, or "".
    """

    subject: str | None
    ignored: str


def hooks(deps: Deps) -> Blueprint:
    """Return the blueprint that receives webhooks."""
    blueprint = Blueprint("hooks", __name__)

    @blueprint.post("/webhooks/github")
    def receive() -> Response:
        new = _accept(deps)
        earlier = deps.inbox.put(new)
        if new.reason and earlier is None:
            return _answer("ignored", reason=new.reason)
        # GitHub's Redeliver button is how a person asks for another try.
        if earlier is None or earlier.state in (DeliveryState.RECEIVED, DeliveryState.FAILED):
            _enqueue(deps, new.delivery_id)
        return _answer("stored" if earlier is None else "duplicate")

    @blueprint.errorhandler(_Refused)
    def refused(error: _Refused) -> Response:
        deps.refused.add(error.because)
        _log.warning("webhook_refused", because=error.because, reason=error.reason)
        return _answer("refused", error.status, reason=error.reason)

    return blueprint


def _accept(deps: Deps) -> NewDelivery:
    body = _read_body()
    secret = deps.webhook_secret.get_secret_value()
    if not verify_signature(secret, body, request.headers.get(SIGNATURE_HEADER)):
        raise _Refused(401, RefusedBecause.BAD_SIGNATURE, f"{SIGNATURE_HEADER} does not hold")
    delivery_id = _header("X-GitHub-Delivery", _DELIVERY_ID)
    event = _header("X-GitHub-Event", _EVENT)
    if request.mimetype != "application/json":
        raise _Refused(
            415,
            RefusedBecause.BAD_CONTENT_TYPE,
            "set the webhook's content type to application/json",
        )
    meaning = _meaning(deps, event, body)
    return NewDelivery(
        delivery_id=delivery_id,
        event=event,
        body=body,
        received_at=deps.clock(),
        subject=meaning.subject,
        reason=meaning.ignored,
    )


def _read_body() -> bytes:
    # A body without a length is silently cut at Werkzeug's limit: one byte more tells.
    request.max_content_length = MAX_BODY_BYTES + 1
    try:
        body = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise _too_large() from None
    if len(body) > MAX_BODY_BYTES:
        raise _too_large()
    return body


def _too_large() -> _Refused:
    return _Refused(413, RefusedBecause.TOO_LARGE, f"a body has at most {MAX_BODY_BYTES} bytes")


def _header(name: str, form: re.Pattern[str]) -> str:
    value = request.headers.get(name, "")
    if not form.fullmatch(value):
        raise _Refused(400, RefusedBecause.BAD_HEADERS, f"{name} is missing or malformed")
    return value


def _meaning(deps: Deps, event: str, body: bytes) -> _Meaning:
    try:
        parsed = parse_delivery(event, body)
    except MalformedDelivery as error:
        # Not stored, so that a redelivery after the mistake is mended is a new one.
        raise _Refused(400, RefusedBecause.MALFORMED, str(error)) from error
    if isinstance(parsed, Ignored):
        return _Meaning(None, parsed.reason)
    return _Meaning(subject_of(parsed), _why_passed_over(deps, parsed))


def _why_passed_over(deps: Deps, event: Event) -> str:
    """Return why a worker would do nothing about it either; "" where only a worker can tell.

    Most of what GitHub sends is of this kind (comments without a command), and costs no task then.
    Workers may know more: the App's own login, where it has to be asked from GitHub.
    """
    settings = deps.settings
    if settings.own_login is None and isinstance(event, IssueAssigned | ReviewSubmitted):
        return ""
    if settings.app_id is None and isinstance(event, CheckRerequested | CheckActionRequested):
        return ""
    ignored = needs_facts(
        event,
        own_login=settings.own_login,
        app_id=settings.app_id,
        label=label_in_question(event, settings.label),
        allowed_bots=settings.allowed_bots,
    )
    return ignored.reason if ignored is not None else ""


def _enqueue(deps: Deps, delivery_id: str) -> None:
    """Tell the queue. When it is down the delivery waits in the database for the reconciler."""
    try:
        deps.enqueue(delivery_id)
    except Exception as error:  # noqa: BLE001 -- whatever it was, the delivery is stored
        _log.error("enqueue_failed", delivery=delivery_id, error=repr(error))
        _count_failure(deps, delivery_id)


def _count_failure(deps: Deps, delivery_id: str) -> None:
    try:
        with writing(deps.engine, patience_s=_COUNT_PATIENCE_S) as session:
            deliveries.count_enqueue_failure(session, delivery_id)
    except SQLAlchemyError as error:
        _log.error("enqueue_failure_not_counted", delivery=delivery_id, error=repr(error))


def _answer(status: str, code: int = 202, **more: str) -> Response:
    response = jsonify(status=status, **more)
    response.status_code = code
    return response
