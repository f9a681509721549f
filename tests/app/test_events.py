from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.events import (
    CheckActionRequested,
    CheckRerequested,
    CommentCreated,
    Ignored,
    InstallationChanged,
    IssueAssigned,
    IssueClosed,
    IssueLabeled,
    MalformedDelivery,
    Ping,
    PullClosed,
    RepoEvent,
    ReviewCommentCreated,
    ReviewSubmitted,
    parse_delivery,
    sign,
    subject_of,
    verify_signature,
)
from app.events.delivery import BUILDERS
from app.events.payload import Node

BROKEN: tuple[Any, ...] = (None, 5, "x", [], {}, [None])
Examples = Mapping[str, list[dict[str, Any]]]


def example(examples: Examples, event: str, action: str, **changes: Any) -> bytes:
    found = next(e for e in examples[event] if e.get("action") == action)
    return json.dumps({"installation": {"id": 7}, **found, **changes}).encode()


def labeled(**changes: Any) -> dict[str, Any]:
    return {
        "action": "labeled",
        "installation": {"id": 7},
        "sender": {"login": "alice", "id": 11, "type": "User"},
        "repository": {
            "id": 5,
            "name": "ship",
            "owner": {"login": "acme"},
            "default_branch": "trunk",
        },
        "label": {"name": "aider"},
        "issue": {
            "number": 3,
            "title": "It leaks",
            "body": None,
            "user": {"login": "bob"},
            "state": "open",
            "locked": False,
        },
        **changes,
    }


def parse(payload: Any, event: str = "issues") -> Any:
    return parse_delivery(event, json.dumps(payload).encode())


def test_a_signature_over_the_raw_bytes_is_accepted() -> None:
    assert verify_signature("s3", b'{"a": 1}', sign("s3", b'{"a": 1}'))


def test_githubs_documented_signature_example_is_accepted() -> None:
    # https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    header = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert verify_signature("It's a Secret to Everybody", b"Hello, World!", header)


@pytest.mark.parametrize(
    "header", [None, "", "sha256=", "sha1=ab", "sha256=é", "é", "sha256=" + "0" * 64]
)
def test_any_other_signature_is_refused(header: str | None) -> None:
    assert not verify_signature("s3", b"{}", header)


def test_a_signature_of_other_bytes_or_another_secret_is_refused() -> None:
    assert not verify_signature("s3", b"{ }", sign("s3", b"{}"))
    assert not verify_signature("s3", b"{}", sign("s4", b"{}"))


def test_without_a_secret_nothing_can_be_verified() -> None:
    with pytest.raises(ValueError, match="secret is needed"):
        verify_signature("", b"{}", sign("x", b"{}"))


def test_every_published_payload_is_parsed_or_ignored(webhook_examples: Examples) -> None:
    seen = set()
    for event, payloads in webhook_examples.items():
        for payload in payloads:
            for extra in ({}, {"installation": {"id": 7}}):
                body = json.dumps({**extra, **payload}).encode()
                seen.add(type(parse_delivery(event, body)))
    assert {
        Ignored,
        IssueLabeled,
        CommentCreated,
        ReviewSubmitted,
        InstallationChanged,
        Ping,
    } < seen


def test_every_published_payload_of_an_event_we_use_gives_that_event(
    webhook_examples: Examples,
) -> None:
    wanted: dict[tuple[str, str], type[RepoEvent]] = {
        ("issues", "labeled"): IssueLabeled,
        ("issues", "assigned"): IssueAssigned,
        ("issues", "deleted"): IssueClosed,
        ("issues", "transferred"): IssueClosed,
        ("issue_comment", "created"): CommentCreated,
        ("pull_request", "closed"): PullClosed,
        ("pull_request_review", "submitted"): ReviewSubmitted,
        ("pull_request_review_comment", "created"): ReviewCommentCreated,
        ("check_run", "rerequested"): CheckRerequested,
        ("check_run", "requested_action"): CheckActionRequested,
    }
    for (event, action), kind in wanted.items():
        payloads = [p for p in webhook_examples[event] if p.get("action") == action]
        assert payloads
        for payload in payloads:
            found = parse({"installation": {"id": 7}, **payload}, event)
            assert isinstance(found, kind), (event, action)
            assert found.repo.full_name == payload["repository"]["full_name"]
            assert found.actor.login == payload["sender"]["login"]


def test_taking_any_one_field_away_never_crashes_the_parser(webhook_examples: Examples) -> None:
    for event, action in (("issues", "labeled"), ("pull_request_review_comment", "created")):
        whole = json.loads(example(webhook_examples, event, action))
        for path in _paths(whole):
            for broken in BROKEN:
                _parse_or_malformed(event, _with(whole, path, broken))


def _paths(value: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(value, dict) or len(above) > 2:
        return []
    here = [(*above, key) for key in value]
    return here + [p for key, v in value.items() for p in _paths(v, (*above, key))]


def _with(whole: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed = copy.copy(whole)
    changed[path[0]] = value if len(path) == 1 else _with(whole[path[0]], path[1:], value)
    return changed


def _parse_or_malformed(event: str, payload: Any) -> None:
    said = _complaint(payload, event)
    assert said is None or said.startswith(event)


def _complaint(payload: Any, event: str) -> str | None:
    try:
        parse(payload, event)
    except MalformedDelivery as error:
        return str(error)
    return None


def test_a_label_event_carries_what_a_run_needs() -> None:
    event = parse(labeled())
    assert isinstance(event, IssueLabeled)
    assert (event.installation_id, event.repo.id, event.repo.default_branch) == (7, 5, "trunk")
    assert (event.actor.login, event.actor.id, event.label) == ("alice", 11, "aider")
    assert (event.issue.number, event.issue.author, event.issue.body) == (3, "bob", "")
    assert not event.issue.is_pull_request


def test_a_comment_on_a_pull_request_is_told_apart() -> None:
    payload = labeled(action="created", comment={"id": 9, "body": "/aider"})
    payload["issue"]["pull_request"] = {"url": "u"}
    event = parse(payload, "issue_comment")
    assert isinstance(event, CommentCreated)
    assert event.issue.is_pull_request


@pytest.mark.parametrize("action", ["edited", "deleted"])
def test_edited_and_deleted_comments_are_ignored(action: str) -> None:
    found = parse(labeled(action=action, comment={"id": 9, "body": "/aider"}), "issue_comment")
    assert found == Ignored(f"issue_comment.{action} is not an event that Drydock uses")


def test_a_deleted_author_is_a_ghost_and_the_event_still_counts() -> None:
    payload = labeled()
    payload["issue"]["user"] = None
    event = parse(payload)
    assert isinstance(event, IssueLabeled)
    assert event.issue.author == "ghost"


def test_all_events_about_one_issue_or_pull_request_have_one_subject(
    webhook_examples: Examples,
) -> None:
    about = ("issues", "issue_comment", "pull_request_review", "pull_request_review_comment")
    found = [
        parse_delivery(event, json.dumps({**_given(payload), "installation": {"id": 7}}).encode())
        for event in about
        for payload in webhook_examples[event]
    ]
    subjects = {subject_of(e) for e in found if isinstance(e, RepoEvent)}
    assert subjects == {"5#3"}


def _given(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload as one about number 3 of the repository 5."""
    of = "issue" if "issue" in payload else "pull_request"
    repository = {**payload["repository"], "id": 5}
    return {**payload, of: {**payload[of], "number": 3}, "repository": repository}


def test_other_issues_and_other_repositories_are_other_subjects() -> None:
    base = labeled()
    other_issue = labeled(issue={**base["issue"], "number": 4})
    other_repo = labeled(repository={**base["repository"], "id": 6})
    assert {subject_of(parse(e)) for e in (base, other_issue, other_repo)} == {"5#3", "5#4", "6#3"}


def test_what_is_about_no_issue_has_no_subject(webhook_examples: Examples) -> None:
    check = example(webhook_examples, "check_run", "rerequested")
    assert isinstance(parsed := parse_delivery("check_run", check), CheckRerequested)
    assert subject_of(parsed) is None
    assert subject_of(parse({"zen": "Keep it simple.", "hook_id": 1}, "ping")) is None


def test_a_deleted_sender_is_ignored_with_the_reason() -> None:
    found = parse(labeled(sender=None))
    assert isinstance(found, Ignored)
    assert "ghost" in found.reason


def test_a_delivery_without_an_installation_is_ignored_with_the_reason() -> None:
    payload = labeled()
    del payload["installation"]
    found = parse(payload)
    assert isinstance(found, Ignored)
    assert "installation" in found.reason


def test_a_label_deleted_from_the_repository_is_ignored() -> None:
    payload = labeled(action="unlabeled")
    del payload["label"]
    assert isinstance(parse(payload), Ignored)


def test_a_deleted_fork_leaves_no_head_repository(webhook_examples: Examples) -> None:
    payload = json.loads(example(webhook_examples, "pull_request", "closed"))
    payload["pull_request"]["head"]["repo"] = None
    event = parse(payload, "pull_request")
    assert isinstance(event, PullClosed)
    assert event.pull.head_repo_id is None


def test_a_suspended_installation_says_what_went() -> None:
    repositories = [{"id": 1, "full_name": "a/b"}]
    base = {"installation": {"id": 7, "account": {"login": "a"}}, "repositories": repositories}
    sender = {"login": "alice", "id": 1}
    gone = parse({**base, "action": "suspend", "sender": sender}, "installation")
    came = parse({**base, "action": "created", "sender": sender}, "installation")
    assert [r.full_name for r in gone.removed] == ["a/b"]
    assert not gone.added
    assert [r.full_name for r in came.added] == ["a/b"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"payload=%7B%7D", "content type"),
        (b'{"a":' * 100_000, "not JSON"),
        (b'{"action": 5}', "issues.action is not a string"),
    ],
)
def test_what_is_not_a_delivery_is_malformed_and_says_why(body: bytes, words: str) -> None:
    with pytest.raises(MalformedDelivery, match=words):
        parse_delivery("issues", body)


def test_a_missing_field_is_named_by_its_path() -> None:
    payload = labeled()
    del payload["issue"]["title"]
    with pytest.raises(MalformedDelivery, match=r"issues\.issue\.title is not a string"):
        parse(payload)


def test_true_is_not_an_issue_number() -> None:
    payload = labeled()
    payload["issue"]["number"] = True
    with pytest.raises(MalformedDelivery, match="number is not an integer"):
        parse(payload)


def test_text_that_no_database_stores_is_repaired() -> None:
    payload = labeled()
    payload["issue"]["title"] = "a\0b\ud800c\U0001f600"
    event = parse(payload)
    assert isinstance(event, IssueLabeled)
    assert event.issue.title == "ab\ufffdc\U0001f600"


@given(st.text(max_size=30), st.binary(max_size=200))
def test_no_bytes_crash_the_parser(event: str, body: bytes) -> None:
    with contextlib.suppress(MalformedDelivery):
        parse_delivery(event, body)


@given(
    st.sampled_from([key[0] for key in BUILDERS]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["action", "issue", "sender", "installation", "id", "repository"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=10,
    ),
)
def test_no_json_crashes_the_parser(event: str, payload: Any) -> None:
    assert "\n" not in (_complaint(payload, event) or "")


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01T13:00:00+01:00", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        (None, None),
    ],
)
def test_a_moment_is_read_in_any_zone(written: str | None, at: datetime | None) -> None:
    assert Node({"created_at": written}, "x").optional_moment("created_at") == at


@pytest.mark.parametrize("written", ["yesterday", "", 5, True])
def test_what_is_no_moment_is_said(written: object) -> None:
    with pytest.raises(MalformedDelivery, match=r"x\.created_at is not"):
        Node({"created_at": written}, "x").optional_moment("created_at")
