"""The webhooks' payloads have what GitHub's published examples have, with the same types."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.demo.github.conftest import Scene

ALL_EVENTS = (
    "issues", "issue_comment", "pull_request", "pull_request_review",
    "pull_request_review_comment", "check_run", "check_suite", "push", "create", "delete",
)  # fmt: skip

# What the examples have only because of the features that the example's owner uses.
OPTIONAL = {
    "draft",
    "active_lock_reason",
    "auto_merge",
    "milestone",
    "language",
    "license",
    "homepage",
}


@pytest.fixture(scope="session")
def examples(examples_path: Path) -> dict[str, list[Any]]:
    published = json.loads(examples_path.read_text(encoding="utf-8"))
    return {event["name"]: event["examples"] for event in published}


def problems(ours: Any, theirs: list[Any], where: str) -> Iterator[str]:
    """Name what every example has and we lack, and what has a type that no example has."""
    if isinstance(ours, dict) and any(isinstance(one, dict) for one in theirs):
        objects = [one for one in theirs if isinstance(one, dict)]
        needed = set.intersection(*(set(one) for one in objects)) - OPTIONAL
        if where.endswith(".permissions"):
            return  # which permissions there are is the App's own affair
        yield from (f"{where}.{key} is missing" for key in sorted(needed - set(ours)))
        for key in sorted(set(ours) & needed):
            yield from problems(ours[key], [one[key] for one in objects], f"{where}.{key}")
    elif isinstance(ours, list) and any(isinstance(one, list) for one in theirs):
        members = [member for one in theirs for member in one or []]
        for member in ours if members else []:
            yield from problems(member, members, f"{where}[]")
    elif ours is not None and all(one is None for one in theirs):
        return  # the examples never show a value here
    elif kind(ours) not in {kind(one) for one in theirs} and ours is not None:
        yield f"{where} is {kind(ours)}"


def kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def everything_happens(scene: Scene) -> None:
    gh, alice = scene.gh, scene.alice
    loud = gh.create_app(
        "loud", permissions={"contents": "write", "issues": "write", "pull_requests": "write",
                             "checks": "write"},
        events=ALL_EVENTS, webhook_url="http://127.0.0.1:9/", webhook_secret="a test's secret",
    )  # fmt: skip
    gh.install(loud, scene.repo)
    bob = gh.create_user("bob")
    scene.repo.grant(bob, "admin")
    issue = alice.opens_issue(scene.repo, "It subtracts", "add(1, 1) is 0")
    alice.edits(issue, title="It subtracts!")
    alice.labels(issue, "aider")
    alice.unlabels(issue, "aider")
    bob.assigns(issue, alice)
    bob.unassigns(issue, alice)
    comment = alice.comments(issue, "/aider please")
    alice.edits(comment, body="/aider now")
    alice.deletes(comment)
    alice.closes(issue)
    alice.reopens(issue)
    bob.locks(issue)
    bob.unlocks(issue)
    bob.deletes(issue)
    alice.pushes(scene.repo, {"calc.py": "def add(a, b):\n    return a + b\n"}, branch="fix")
    pull = alice.opens_pull(scene.repo, head="fix", body="Fixes #1", draft=True)
    alice.edits(pull, body="Closes #1")
    alice.comments(pull, "/aider more")
    alice.labels(pull, "ready")
    alice.unlabels(pull, "ready")
    bob.assigns(pull, alice)
    bob.unassigns(pull, alice)
    alice.marks_ready(pull)
    alice.converts_to_draft(pull)
    alice.requests_review(pull, bob)
    review = bob.reviews(pull, "REQUEST_CHANGES", "Hm", {("calc.py", 2): "why?"})
    reply = alice.replies(review.comments[0], "because")
    alice.edits(reply, body="because so")
    alice.deletes(reply)
    run = gh.report_check(loud, scene.repo, pull.head_sha, name="tests")
    run.actions = [{"label": "Retry", "description": "Once more", "identifier": "retry"}]
    gh.report_check(loud, scene.repo, pull.head_sha, name="lint", conclusion="failure")
    alice.reruns(run)
    alice.presses(run, "retry")
    alice.pushes(scene.repo, {"more.py": "x = 1\n"}, branch="fix")
    alice.closes(pull)
    alice.reopens(pull)
    alice.marks_ready(pull)
    alice.merges(pull)
    alice.deletes_branch(scene.repo, "fix")
    other = gh.create_repo("acme", "gadgets")
    gh.install(loud, other)
    gh.uninstall(loud, other)
    gh.suspend(loud)
    gh.unsuspend(loud)
    gh.uninstall(loud)


def test_every_payload_has_what_githubs_examples_have(
    scene: Scene, examples: dict[str, list[Any]]
) -> None:
    everything_happens(scene)
    sent: dict[tuple[str, str | None], list[Any]] = defaultdict(list)
    for delivery in scene.gh.deliveries:
        sent[delivery.event, delivery.action].append(json.loads(delivery.body))
    found: list[str] = []
    for (event, action), payloads in sent.items():
        if event == "ping":
            continue  # an App's ping has neither repository nor sender; the examples have no App's
        theirs = [e for e in examples[event] if e.get("action") == action] or examples[event]
        for payload in payloads:
            found += problems(payload, theirs, f"{event}.{action}")
    assert not found, "\n".join(sorted(set(found)))
    assert {event for event, _ in sent} >= {*ALL_EVENTS, "ping", "installation"}
    assert len(sent) > 40


def test_payloads_name_the_installation_and_the_sender(scene: Scene) -> None:
    scene.gh.set_webhook(scene.app, "http://127.0.0.1:9/", "a test's secret")
    issue = scene.alice.opens_issue(scene.repo, "Broken")
    scene.alice.labels(issue, "aider")
    payload = json.loads(scene.gh.deliveries[-1].body)
    installation = scene.gh.installation(scene.app, scene.repo)
    assert payload["action"] == "labeled"
    assert payload["label"]["name"] == "aider"
    assert payload["installation"]["id"] == installation.id
    assert payload["sender"]["login"] == "alice"
    assert payload["repository"]["full_name"] == "acme/widgets"
    assert payload["issue"]["html_url"] == f"{scene.gh.url}/acme/widgets/issues/1"
