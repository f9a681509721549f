"""GitHub's own published example payloads go the whole way: signed, over HTTP, through intake."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
import requests

from app.events import sign
from app.store import DeliveryState
from demo.github import Pull
from tests.app.conftest import webhook_examples
from tests.harbour.harbour import RIGHT, Harbour

__all__ = ["webhook_examples"]

Examples = Mapping[str, list[dict[str, Any]]]

# Every event that a trigger of Drydock comes as, and those that come along with them.
EVENTS = (
    "ping",
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "check_run",
    "check_suite",
    "installation",
    "installation_repositories",
)
# What asks for something once it is about a repository that the App is on.
TRIGGERS = {
    ("issues", "labeled"),
    ("issues", "assigned"),
    ("issue_comment", "created"),
    ("pull_request_review", "submitted"),
    ("pull_request_review_comment", "created"),
    ("check_run", "rerequested"),
    ("check_run", "requested_action"),
}


def published(examples: Examples) -> Iterator[tuple[str, dict[str, Any]]]:
    for event in EVENTS:
        assert examples[event], event
        for payload in examples[event]:
            yield event, payload


def sends(harbour: Harbour, event: str, payload: dict[str, Any]) -> str:
    """Deliver a payload as GitHub would; returns the delivery's id."""
    guid, body = str(uuid.uuid4()), json.dumps(payload).encode()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": guid,
        "X-Hub-Signature-256": sign(harbour.stage.webhook_secret, body),
    }
    url = f"{harbour.stage.web_url}/webhooks/github"
    answer = requests.post(url, body, headers=headers, timeout=30)
    assert answer.status_code < 300, (event, payload.get("action"), answer.text)
    return guid


def about_us(harbour: Harbour, payload: dict[str, Any], pull: Pull) -> dict[str, Any]:
    """The payload, but of our repository, by somebody who may, and in words that ask for help."""
    repo, app = harbour.repo, harbour.stage.connection.app
    ours = {"id": repo.id, "name": repo.name, "full_name": repo.full_name}
    owner = {**payload["repository"]["owner"], "login": "acme"}
    mona = {**payload["sender"], "login": "mona", "id": harbour.mona.user.id, "type": "User"}
    changed: dict[str, Any] = {
        **payload,
        "repository": {**payload["repository"], **ours, "owner": owner, "default_branch": "main"},
        "sender": mona,
        "installation": {"id": harbour.github.installation(app, repo).id},
    }
    words: dict[str, dict[str, Any]] = {
        "label": {"name": "aider"},
        "comment": {"body": "/aider help"},
    }
    words |= {"issue": {"number": 1}, "pull_request": {"number": pull.number}}
    words |= {"review": {"body": "/aider help"}, "check_run": {"app": {"id": app.app_id}}}
    for part, fields in words.items():
        if isinstance(changed.get(part), dict):
            changed[part] = {**changed[part], **fields}
    return changed


def unaccounted(harbour: Harbour, sent: Iterable[tuple[str, dict[str, Any], str]]) -> list[str]:
    """Those that are neither used nor ignored, or for which no reason is known."""
    wrong = []
    for event, payload, guid in sent:
        found = harbour.delivery_of(guid)
        fine = found.state in (DeliveryState.PROCESSED, DeliveryState.IGNORED) and found.reason
        if not fine:
            wrong.append(f"{event}.{payload.get('action')}: {found.state} {found.reason}")
    return wrong


def test_as_they_are_published_each_is_ignored_with_a_reason(
    harbour: Harbour, webhook_examples: Examples
) -> None:
    """They are about repositories and installations that are not ours."""
    sent = [(e, p, sends(harbour, e, p)) for e, p in published(webhook_examples)]
    harbour.settle()
    assert unaccounted(harbour, sent) == []
    assert harbour.repo.issues == ()


@pytest.mark.parametrize("event", [e for e in EVENTS if not e.startswith("installation")])
def test_about_a_repository_of_ours_each_is_used_or_ignored_with_a_reason(
    harbour: Harbour, webhook_examples: Examples, event: str
) -> None:
    assert harbour.issue.number == 1
    harbour.mona.pushes(harbour.repo, {"calc.py": RIGHT}, branch="fix")
    pull = harbour.mona.opens_pull(harbour.repo, head="fix")
    payloads = [
        about_us(harbour, payload, pull)
        for payload in webhook_examples[event]
        if "repository" in payload and payload.get("sender")
    ]
    sent = [(event, payload, sends(harbour, event, payload)) for payload in payloads]
    harbour.settle()
    assert unaccounted(harbour, sent) == []
    asked = [guid for _, payload, guid in sent if (event, payload.get("action")) in TRIGGERS]
    reasons = [harbour.delivery_of(guid).reason for guid in asked]
    assert not any("not an event that Drydock uses" in reason for reason in reasons)
