"""From a delivery's JSON to one typed event, or the reason why there is none. Pure.

Payloads: https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from app.events.parts import actor_of, check_of, common_of, issue_of, login_of, names_of, pull_of
from app.events.payload import Node, NotForUs, decode, shown
from app.events.values import (
    CheckActionRequested,
    CheckCompleted,
    CheckRerequested,
    CommentCreated,
    Event,
    Ignored,
    InstallationChanged,
    IssueAssigned,
    IssueClosed,
    IssueLabeled,
    IssueUnlabeled,
    Ping,
    PullClosed,
    ReviewCommentCreated,
    ReviewSubmitted,
)


def parse_delivery(event: str, body: bytes) -> Event | Ignored:
    """Return the typed event of one delivery whose signature was verified.

    `event` is the header `X-GitHub-Event`. Ignored(reason) for what Drydock does not use, for
    deleted accounts and for deliveries without an installation. MalformedDelivery when the bytes
    are not a JSON object or a field that is needed is missing or of the wrong type.
    """
    payload = Node(decode(body), event)
    action = payload.optional_text("action")
    builder = BUILDERS.get((event, action)) or BUILDERS.get((event, ANY_ACTION))
    if builder is None:
        named = f"{event}.{action}" if action else event
        return Ignored(f"{shown(named)} is not an event that Drydock uses")
    try:
        return builder(payload)
    except NotForUs as not_for_us:
        return Ignored(str(not_for_us))


def _issue_labeled(payload: Node) -> Event:
    label = payload.node("label").text("name")
    at = payload.node("issue").optional_moment("updated_at")
    return IssueLabeled(**common_of(payload), at=at, issue=issue_of(payload), label=label)


def _issue_unlabeled(payload: Node) -> Event:
    label = payload.optional_node("label")
    if label is None:
        # GitHub sends this when the label itself was deleted from the repository.
        raise NotForUs("the removed label is not named")
    return IssueUnlabeled(**common_of(payload), issue=issue_of(payload), label=label.text("name"))


def _issue_closed(payload: Node) -> Event:
    return IssueClosed(**common_of(payload), issue=issue_of(payload), how=payload.text("action"))


def _issue_assigned(payload: Node) -> Event:
    assignee = payload.optional_node("assignee")
    if assignee is None:
        raise NotForUs("the assignee's account was deleted")
    return IssueAssigned(
        **common_of(payload),
        at=payload.node("issue").optional_moment("updated_at"),
        issue=issue_of(payload),
        assignee=assignee.text("login"),
    )


def _comment_created(payload: Node) -> Event:
    comment = payload.node("comment")
    return CommentCreated(
        **common_of(payload),
        at=comment.optional_moment("created_at"),
        issue=issue_of(payload),
        comment_id=comment.integer("id"),
        body=comment.optional_text("body") or "",
    )


def _pull_closed(payload: Node) -> Event:
    return PullClosed(**common_of(payload), pull=pull_of(payload))


def _review_submitted(payload: Node) -> Event:
    review = payload.node("review")
    return ReviewSubmitted(
        **common_of(payload),
        at=review.optional_moment("submitted_at"),
        pull=pull_of(payload),
        review_id=review.integer("id"),
        # REST and webhooks differ in case for the same word.
        state=review.text("state").lower(),
        body=review.optional_text("body") or "",
    )


def _review_comment_created(payload: Node) -> Event:
    comment = payload.node("comment")
    return ReviewCommentCreated(
        **common_of(payload),
        at=comment.optional_moment("created_at"),
        pull=pull_of(payload),
        comment_id=comment.integer("id"),
        review_id=comment.optional_integer("pull_request_review_id"),
        in_reply_to=comment.optional_integer("in_reply_to_id"),
        body=comment.optional_text("body") or "",
        path=comment.text("path"),
        line=comment.optional_integer("line"),
        start_line=comment.optional_integer("start_line"),
        diff_hunk=comment.optional_text("diff_hunk") or "",
        commit_sha=comment.text("commit_id"),
    )


def _check_rerequested(payload: Node) -> Event:
    return CheckRerequested(**common_of(payload), check=check_of(payload))


def _check_action(payload: Node) -> Event:
    action = payload.node("requested_action")
    return CheckActionRequested(
        **common_of(payload), check=check_of(payload), identifier=action.text("identifier")
    )


def _check_completed(payload: Node) -> Event:
    return CheckCompleted(**common_of(payload), check=check_of(payload))


def _installation_changed(payload: Node) -> InstallationChanged:
    installation = payload.node("installation")
    return InstallationChanged(
        installation_id=installation.integer("id"),
        account=login_of(installation, "account"),
        action=payload.text("action"),
        actor=actor_of(payload),
        added=names_of(payload, "repositories_added"),
        removed=names_of(payload, "repositories_removed"),
    )


def _installation(payload: Node) -> InstallationChanged:
    """`installation` events list repositories in one field whose sense the action gives."""
    changed = _installation_changed(payload)
    repositories = names_of(payload, "repositories")
    went = changed.action in {"deleted", "suspend"}
    if went:
        return replace(changed, removed=repositories)
    return replace(changed, added=repositories)


def _ping(payload: Node) -> Event:
    return Ping(payload.integer("hook_id"))


ANY_ACTION = "*"


BUILDERS: Mapping[tuple[str, str | None], Callable[[Node], Event]] = {
    ("issues", "labeled"): _issue_labeled,
    ("issues", "unlabeled"): _issue_unlabeled,
    ("issues", "closed"): _issue_closed,
    ("issues", "deleted"): _issue_closed,
    ("issues", "transferred"): _issue_closed,
    ("issues", "assigned"): _issue_assigned,
    ("issue_comment", "created"): _comment_created,
    ("pull_request", "closed"): _pull_closed,
    ("pull_request_review", "submitted"): _review_submitted,
    ("pull_request_review_comment", "created"): _review_comment_created,
    ("check_run", "rerequested"): _check_rerequested,
    ("check_run", "requested_action"): _check_action,
    ("check_run", "completed"): _check_completed,
    ("installation", ANY_ACTION): _installation,
    ("installation_repositories", ANY_ACTION): _installation_changed,
    ("ping", ANY_ACTION): _ping,
}
