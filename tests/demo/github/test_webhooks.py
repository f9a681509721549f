"""Deliveries: signed, in order, remembered, sent again; and who hears what."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.demo.github.conftest import Scene

SECRET = "a secret of the test"


class Receiver:
    """A web server that keeps what it is sent and answers what it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.status = 202
        self.hold = threading.Event()
        self.hold.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((dict(self.headers), body))
                receiver.hold.wait(10)
                with suppress(BrokenPipeError):  # the sender may have given up
                    self.send_response(receiver.status)
                    self.end_headers()
                    self.wfile.write(b"noted")

            def log_message(self, *_args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.close()


@pytest.fixture
def listening(scene: Scene, receiver: Receiver) -> Scene:
    scene.gh.set_webhook(scene.app, receiver.url, SECRET)
    scene.gh.wait_for_deliveries()
    receiver.requests.clear()
    return scene


def test_a_delivery_is_signed_and_says_what_it_is(listening: Scene, receiver: Receiver) -> None:
    listening.alice.opens_issue(listening.repo, "Ünïcode")
    listening.gh.wait_for_deliveries()
    ((headers, body),) = receiver.requests
    expected = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    assert headers["X-Hub-Signature-256"] == f"sha256={expected}"
    assert headers["X-GitHub-Event"] == "issues"
    assert headers["X-GitHub-Hook-Installation-Target-Type"] == "integration"
    assert headers["X-GitHub-Hook-Installation-Target-ID"] == str(listening.app.app_id)
    assert headers["User-Agent"].startswith("GitHub-Hookshot/")
    assert headers["Content-Type"] == "application/json"
    assert listening.gh.deliveries[-1].guid == headers["X-GitHub-Delivery"]


def test_the_answer_is_remembered(listening: Scene, receiver: Receiver) -> None:
    receiver.status = 500
    listening.alice.opens_issue(listening.repo, "x")
    listening.gh.wait_for_deliveries()
    last = listening.gh.deliveries[-1]
    assert (last.status_code, last.status) == (500, "Invalid HTTP Response: 500")
    assert last.response_body == "noted"


def test_events_arrive_in_the_order_in_which_they_happened(
    listening: Scene, receiver: Receiver
) -> None:
    issue = listening.alice.opens_issue(listening.repo, "x")
    listening.alice.labels(issue, "aider")
    listening.alice.comments(issue, "hi")
    listening.alice.closes(issue)
    listening.gh.wait_for_deliveries()
    events = [headers["X-GitHub-Event"] for headers, _ in receiver.requests]
    assert events == ["issues", "issues", "issue_comment", "issues"]


def test_a_slow_receiver_times_out_and_a_dead_one_cannot_be_reached(
    listening: Scene, receiver: Receiver
) -> None:
    listening.gh.world.courier.timeout = 0.2
    receiver.hold.clear()
    listening.alice.opens_issue(listening.repo, "x")
    listening.gh.wait_for_deliveries()
    assert listening.gh.deliveries[-1].status == "timed out"
    receiver.hold.set()
    listening.gh.set_webhook(listening.app, "http://127.0.0.1:9/")
    listening.gh.wait_for_deliveries()
    assert listening.gh.deliveries[-1].status == "failed to connect to host"


def test_a_delivery_can_be_sent_again_through_the_api(listening: Scene, receiver: Receiver) -> None:
    receiver.status = 503
    listening.alice.opens_issue(listening.repo, "x")
    listening.gh.wait_for_deliveries()
    receiver.status = 202
    app = listening.as_app()
    newest = app("GET", "/app/hook/deliveries").json()[0]
    assert (newest["status_code"], newest["redelivery"]) == (503, False)
    assert app("POST", f"/app/hook/deliveries/{newest['id']}/attempts").status_code == 202
    listening.gh.wait_for_deliveries()
    (first, second) = receiver.requests
    assert first[1] == second[1]
    assert first[0]["X-GitHub-Delivery"] == second[0]["X-GitHub-Delivery"]
    again = app("GET", "/app/hook/deliveries").json()[0]
    assert (again["status_code"], again["redelivery"]) == (202, True)
    shown = app("GET", f"/app/hook/deliveries/{again['id']}").json()
    assert shown["request"]["payload"]["action"] == "opened"
    assert shown["response"]["payload"] == "noted"


def test_the_log_of_deliveries_goes_on_at_a_cursor(listening: Scene) -> None:
    for number in range(3):
        listening.alice.opens_issue(listening.repo, f"{number}")
    listening.gh.wait_for_deliveries()
    app = listening.as_app()
    first = app("GET", "/app/hook/deliveries?per_page=2")
    rest = app("GET", first.links["next"]["url"])
    ids = [one["id"] for one in first.json() + rest.json()]
    assert ids == sorted((d.id for d in listening.gh.deliveries), reverse=True)


def test_only_subscribed_permitted_and_installed_apps_hear(
    scene: Scene, receiver: Receiver
) -> None:
    gh = scene.gh
    apps = {
        "deaf": gh.create_app("deaf", events=[], webhook_url=receiver.url),
        "pushes": gh.create_app("pushes", events=["push"], webhook_url=receiver.url),
        "absent": gh.create_app("absent", webhook_url=receiver.url),
        "hears": gh.create_app("hears", webhook_url=receiver.url),
    }
    for name in ("deaf", "pushes", "hears"):
        gh.install(apps[name], scene.repo)
    before = len(gh.deliveries)
    scene.alice.opens_issue(scene.repo, "x")
    assert [d.app.slug for d in gh.deliveries[before:]] == ["hears"]


def test_events_that_the_permissions_do_not_cover_cannot_be_asked_for(scene: Scene) -> None:
    with pytest.raises(ValueError, match="the event push needs contents"):
        scene.gh.create_app("x", permissions={"issues": "read"}, events=["push"])


def test_installing_and_taking_away_is_always_told(scene: Scene, receiver: Receiver) -> None:
    gh = scene.gh
    app = gh.create_app("told", events=[], webhook_url=receiver.url, webhook_secret=SECRET)
    gadgets = gh.create_repo("acme", "gadgets")
    gh.install(app, scene.repo)
    gh.install(app, gadgets)
    gh.uninstall(app, gadgets)
    gh.suspend(app)
    gh.unsuspend(app)
    gh.uninstall(app)
    told = [(d.event, d.action) for d in gh.deliveries]
    assert told == [
        ("ping", None),
        ("installation", "created"),
        ("installation_repositories", "added"),
        ("installation_repositories", "removed"),
        ("installation", "suspend"),
        ("installation", "unsuspend"),
        ("installation", "deleted"),
    ]
