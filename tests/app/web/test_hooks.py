from __future__ import annotations

import io
from typing import Any

import pytest
from sqlalchemy import text

from app.events import sign
from app.settings import Settings, SettingsError
from app.store import DeliveryState, deliveries, reading, writing
from app.web.app import create_app
from app.web.hooks import MAX_BODY_BYTES
from tests.app.web.conftest import LABELED, T0, Web


def _stored(web: Web, delivery: str = "d-1") -> Any:
    with reading(web.engine) as session:
        return deliveries.get(session, delivery)


def _counts(web: Web) -> dict[str, int]:
    page = web.client.get("/metrics").get_data(as_text=True)
    lines = [line for line in page.splitlines() if line.startswith("drydock_webhooks_refused_t")]
    return {line.split('"')[1]: int(float(line.split()[-1])) for line in lines}


def test_a_signed_webhook_is_stored_before_its_id_is_enqueued(web: Web) -> None:
    seen: list[Any] = []

    def enqueue(delivery_id: str) -> None:
        seen.append(_stored(web, delivery_id))

    web.app = create_app(web.settings, web.engine, enqueue, clock=lambda: T0)
    answer = web.post()
    assert (answer.status_code, answer.json) == (202, {"status": "stored"})
    (delivery,) = seen
    assert (delivery.event, delivery.state, delivery.received_at) == ("issues", "received", T0)
    assert sign(web.secret, delivery.body) == sign(web.secret, _stored(web).body)


@pytest.mark.parametrize(
    "signature", [None, "", "sha256=", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "nonsense", "ü"]
)
def test_a_webhook_without_the_right_signature_leaves_nothing(
    web: Web, signature: str | None
) -> None:
    answer = web.post(X_Hub_Signature_256=signature)
    assert answer.status_code == 401
    assert _stored(web) is None
    assert web.enqueued == []
    assert _counts(web)["bad_signature"] == 1


def test_a_signature_of_another_body_does_not_hold(web: Web) -> None:
    assert web.post(b"{}", X_Hub_Signature_256=sign(web.secret, b"{ }")).status_code == 401


def test_nothing_is_parsed_before_the_signature_holds(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(*_: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr("app.web.hooks.parse_delivery", parse)
    assert web.post(b"\xff{", X_Hub_Signature_256="sha256=0").status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"X_GitHub_Delivery": None},
        {"X_GitHub_Delivery": "a b"},
        {"X_GitHub_Delivery": "x" * 129},
        {"X_GitHub_Event": None},
        {"X_GitHub_Event": "Issues!"},
    ],
)
def test_a_webhook_without_its_headers_is_refused(web: Web, headers: dict[str, str | None]) -> None:
    answer = web.post(**headers)  # type: ignore[arg-type]
    assert answer.status_code == 400
    assert "missing or malformed" in str(answer.json)
    assert _counts(web)["bad_headers"] == 1


def test_a_form_is_refused_with_what_to_change(web: Web) -> None:
    answer = web.post(b"payload=%7B%7D", Content_Type="application/x-www-form-urlencoded")
    assert answer.status_code == 415
    assert "application/json" in str(answer.json)


def test_an_event_that_nobody_uses_is_stored_and_answered_with_the_reason(web: Web) -> None:
    answer = web.post({"action": "created"}, event="star")
    assert answer.status_code == 202
    assert answer.json == {
        "status": "ignored",
        "reason": "star.created is not an event that Drydock uses",
    }
    assert (_stored(web).state, _stored(web).reason) == (
        DeliveryState.IGNORED,
        "star.created is not an event that Drydock uses",
    )
    assert web.enqueued == []


COMMENTED: dict[str, Any] = {
    **{key: value for key, value in LABELED.items() if key != "label"},
    "action": "created",
    "comment": {"id": 5, "body": "I see the same.", "user": {"login": "ada"}},
}


def test_a_comment_without_a_command_costs_no_worker(web: Web) -> None:
    answer = web.post(COMMENTED, event="issue_comment")
    assert answer.json == {"status": "ignored", "reason": "no /aider command in it"}
    assert (_stored(web).state, _stored(web).subject) == (DeliveryState.IGNORED, "42#1")
    assert web.enqueued == []


def test_a_comment_with_a_command_is_for_a_worker(web: Web) -> None:
    comment = {**COMMENTED["comment"], "body": "/aider help"}
    assert web.post({**COMMENTED, "comment": comment}, event="issue_comment").json == {
        "status": "stored"
    }
    assert (_stored(web).state, _stored(web).subject) == (DeliveryState.RECEIVED, "42#1")
    assert web.enqueued == ["d-1"]


@pytest.mark.parametrize(("slug", "status"), [(None, "stored"), ("drydock", "ignored")])
def test_who_we_are_is_left_to_a_worker_where_only_github_knows(
    web: Web, slug: str | None, status: str
) -> None:
    web.build(app_slug=slug)
    assigned = {**LABELED, "action": "assigned", "assignee": {"login": "bob"}}
    answer = web.post(assigned).json
    assert answer is not None
    assert answer["status"] == status


@pytest.mark.parametrize("body", [b"not json", b"[]", b'{"action": "labeled"}'])
def test_a_signed_payload_that_is_malformed_is_refused_and_not_stored(
    web: Web, body: bytes
) -> None:
    answer = web.post(body)
    if answer.status_code == 202:
        assert answer.json is not None
        assert answer.json["status"] == "ignored"
        return
    assert answer.status_code == 400
    assert _stored(web) is None


def test_the_same_delivery_again_is_a_duplicate_and_is_not_worked_on_twice(web: Web) -> None:
    web.post()
    with writing(web.engine) as session:
        deliveries.mark(session, "d-1", DeliveryState.PROCESSED, T0)
    answer = web.post()
    assert (answer.status_code, answer.json) == (202, {"status": "duplicate"})
    assert web.enqueued == ["d-1"]
    web.post({"action": "created"}, event="star", delivery="d-2")
    assert web.post({"action": "created"}, event="star", delivery="d-2").json == {
        "status": "duplicate"
    }


@pytest.mark.parametrize("state", [DeliveryState.RECEIVED, DeliveryState.FAILED])
def test_redelivering_what_was_not_done_asks_for_it_again(web: Web, state: DeliveryState) -> None:
    web.post()
    with writing(web.engine) as session:
        deliveries.mark(session, "d-1", state, T0)
    assert web.post().json == {"status": "duplicate"}
    assert web.enqueued == ["d-1", "d-1"]
    # Also without the queue: whoever looks for what waits finds it.
    assert _stored(web).state == DeliveryState.RECEIVED


def test_a_queue_that_is_down_loses_nothing(web: Web) -> None:
    web.queue_error = ConnectionError("Redis is down")
    answer = web.post()
    assert (answer.status_code, answer.json) == (202, {"status": "stored"})
    assert _stored(web).enqueue_failures == 1
    with reading(web.engine) as session:
        web.later(60)
        assert [d.delivery_id for d in deliveries.stale(session, web.now, (10,))] == ["d-1"]
    page = web.client.get("/metrics").get_data(as_text=True)
    assert "drydock_enqueue_failures_total 1.0" in page
    assert "drydock_oldest_waiting_delivery_seconds 60.0" in page


def test_a_database_that_is_down_is_told_to_github(web: Web) -> None:
    with web.engine.connect() as blocker:
        # Somebody holds the write lock for longer than the webhook may wait.
        blocker.execute(text("SELECT 1"))
        answer = web.post()
    assert answer.status_code == 503
    assert answer.json == {"status": "unavailable", "reason": "the database does not answer"}
    assert web.enqueued == []
    assert web.post().json == {"status": "stored"}


def test_a_body_of_25_mb_is_taken_and_one_byte_more_is_not(web: Web) -> None:
    body = b'{"action": "created", "x": "%s"}'
    padding = MAX_BODY_BYTES - len(body % b"")
    assert web.post(body % (b"a" * padding), event="star").status_code == 202
    answer = web.post(body % (b"a" * (padding + 1)), event="star", delivery="d-2")
    assert answer.status_code == 413
    assert _counts(web)["too_large"] == 1


def test_a_body_without_a_length_is_limited_too(web: Web) -> None:
    answer = web.client.post(
        "/webhooks/github",
        input_stream=io.BytesIO(b"a" * (MAX_BODY_BYTES + 1)),
        environ_overrides={"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 413


def test_without_a_secret_there_is_no_application(web: Web) -> None:
    settings = Settings.model_validate({"state_dir": web.settings.state_dir})
    with pytest.raises(SettingsError, match="DRYDOCK_WEBHOOK_SECRET is not set"):
        create_app(settings, web.engine, lambda _: None)


def test_only_post_is_taken(web: Web) -> None:
    answer = web.client.get("/webhooks/github")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


def test_no_answer_and_no_log_shows_a_body_or_the_secret(
    web: Web, capsys: pytest.CaptureFixture[str]
) -> None:
    payload = {**LABELED, "issue": {**LABELED["issue"], "title": "TOP-SECRET-TITLE"}}
    answers = [web.post(payload), web.post(payload, X_Hub_Signature_256="sha256=0")]
    printed = capsys.readouterr()
    for shown in (*(a.get_data(as_text=True) for a in answers), printed.out, printed.err):
        assert "TOP-SECRET-TITLE" not in shown
        assert web.secret not in shown
