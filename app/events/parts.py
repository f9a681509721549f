"""What several events have in common: who, where, and about which issue or pull request. Pure."""

from __future__ import annotations

from typing import Any

from app.events.payload import Node, NotForUs
from app.events.values import GHOST, Actor, CheckRef, IssueRef, PullRef, RepoName, RepoRef


def _installation_id(payload: Node) -> int:
    installation = payload.optional_node("installation")
    if installation is None:
        raise NotForUs("the delivery names no installation: it is a webhook, not our App's")
    return installation.integer("id")


def actor_of(payload: Node) -> Actor:
    """Return who did it. NotForUs when the account is gone."""
    sender = payload.optional_node("sender")
    if sender is None:
        raise NotForUs("the sender's account was deleted (a ghost has no permission)")
    return Actor(sender.text("login"), sender.integer("id"), sender.optional_text("type") or "User")


def login_of(node: Node, key: str = "user") -> str:
    """Return an account's name, `ghost` for a deleted one."""
    user = node.optional_node(key)
    return user.text("login") if user is not None else GHOST


def _repo(payload: Node) -> RepoRef:
    node = payload.node("repository")
    return RepoRef(
        id=node.integer("id"),
        owner=node.node("owner").text("login"),
        name=node.text("name"),
        default_branch=node.text("default_branch"),
        archived=node.flag("archived"),
    )


def common_of(payload: Node) -> dict[str, Any]:
    """Return the fields that every event about one repository has."""
    return {
        "installation_id": _installation_id(payload),
        "repo": _repo(payload),
        "actor": actor_of(payload),
    }


def issue_of(payload: Node) -> IssueRef:
    """Return the issue of a payload. MalformedDelivery."""
    node = payload.node("issue")
    return IssueRef(
        number=node.integer("number"),
        title=node.text("title"),
        body=node.optional_text("body") or "",
        author=login_of(node),
        is_pull_request=node.has("pull_request"),
        # Some of GitHub's own examples (deleted, pinned) have no state; such an issue was open.
        state=node.optional_text("state") or "open",
        locked=node.flag("locked"),
        labels=tuple(label.text("name") for label in node.nodes("labels")),
        assignees=tuple(user.text("login") for user in node.nodes("assignees")),
    )


def pull_of(payload: Node) -> PullRef:
    """Return the pull request of a payload. MalformedDelivery."""
    node = payload.node("pull_request")
    head, base = node.node("head"), node.node("base")
    fork = head.optional_node("repo")
    return PullRef(
        number=node.integer("number"),
        title=node.text("title"),
        body=node.optional_text("body") or "",
        author=login_of(node),
        state=node.text("state"),
        head_ref=head.text("ref"),
        head_sha=head.text("sha"),
        head_repo_id=fork.integer("id") if fork is not None else None,
        base_ref=base.text("ref"),
        base_sha=base.text("sha"),
        draft=node.flag("draft"),
        # Only `pull_request` events say `merged`; review events say when.
        merged=node.flag("merged") or node.has("merged_at"),
    )


def check_of(payload: Node) -> CheckRef:
    """Return the check run of a payload. MalformedDelivery."""
    node = payload.node("check_run")
    app = node.optional_node("app")
    return CheckRef(
        id=node.integer("id"),
        name=node.text("name"),
        head_sha=node.text("head_sha"),
        external_id=node.optional_text("external_id") or "",
        status=node.text("status"),
        conclusion=node.optional_text("conclusion"),
        app_id=app.optional_integer("id") if app is not None else None,
        pull_numbers=tuple(pull.integer("number") for pull in node.nodes("pull_requests")),
    )


def names_of(payload: Node, key: str) -> tuple[RepoName, ...]:
    """Return the repositories in a list of an installation's payload."""
    return tuple(
        RepoName(node.integer("id"), node.text("full_name")) for node in payload.nodes(key)
    )
