"""Webhook bytes → one typed event, or the reason why there is none.

Nothing after this module sees GitHub's JSON. Pure. The signature is checked over the raw bytes
before anything is parsed; text in the values is GitHub's users' and stays untrusted.

Payloads: https://docs.github.com/en/webhooks/webhook-events-and-payloads
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

SIGNATURE_HEADER = "X-Hub-Signature-256"
_SIGNATURE_PREFIX = "sha256="
GHOST = "ghost"


class MalformedDelivery(Exception):
    """The bytes are signed but are not what GitHub documents; the message says where."""


@dataclass(frozen=True)
class Actor:
    """Who did it. `kind` is GitHub's account type: `User`, `Bot`, `Organization`, `Mannequin`."""

    login: str
    id: int
    kind: str = "User"

    @property
    def is_bot(self) -> bool:
        return self.kind == "Bot" or self.login.endswith("[bot]")


@dataclass(frozen=True)
class RepoRef:
    id: int
    owner: str
    name: str
    default_branch: str
    archived: bool = False

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True)
class IssueRef:
    """An issue or, when `is_pull_request`, the issue side of a pull request.

    `author` is `ghost` for a deleted account; a missing body is "".
    """

    number: int
    title: str
    body: str
    author: str
    is_pull_request: bool
    state: str
    locked: bool
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()


@dataclass(frozen=True)
class PullRef:
    """A pull request. `head_repo_id` is None when the fork was deleted."""

    number: int
    title: str
    body: str
    author: str
    state: str
    head_ref: str
    head_sha: str
    head_repo_id: int | None
    base_ref: str
    base_sha: str
    draft: bool = False
    merged: bool = False


@dataclass(frozen=True)
class CheckRef:
    """A check run. `external_id` is what its app wrote there: for ours, the run's id."""

    id: int
    name: str
    head_sha: str
    external_id: str
    status: str
    conclusion: str | None
    app_id: int | None
    pull_numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class RepoName:
    """A repository as installation events name it: without a default branch."""

    id: int
    full_name: str


@dataclass(frozen=True)
class RepoEvent:
    """What every event about one repository carries."""

    installation_id: int
    repo: RepoRef
    actor: Actor


@dataclass(frozen=True)
class IssueLabeled(RepoEvent):
    """`label` was added in this event; labels that were there before do not count."""

    issue: IssueRef
    label: str


@dataclass(frozen=True)
class IssueUnlabeled(RepoEvent):
    issue: IssueRef
    label: str


@dataclass(frozen=True)
class IssueClosed(RepoEvent):
    """The issue is no longer open here. `how` is `closed`, `deleted` or `transferred`."""

    issue: IssueRef
    how: str = "closed"


@dataclass(frozen=True)
class IssueAssigned(RepoEvent):
    issue: IssueRef
    assignee: str


@dataclass(frozen=True)
class CommentCreated(RepoEvent):
    """A comment on an issue, or on a pull request's conversation."""

    issue: IssueRef
    comment_id: int
    body: str


@dataclass(frozen=True)
class PullClosed(RepoEvent):
    pull: PullRef


@dataclass(frozen=True)
class ReviewSubmitted(RepoEvent):
    """`state` is `approved`, `changes_requested` or `commented`; the body may be ""."""

    pull: PullRef
    review_id: int
    state: str
    body: str


@dataclass(frozen=True)
class ReviewCommentCreated(RepoEvent):
    """An inline comment. Lines are 1-based in the file of `commit_sha`; None when outdated."""

    pull: PullRef
    comment_id: int
    review_id: int | None
    in_reply_to: int | None
    body: str
    path: str
    line: int | None
    start_line: int | None
    diff_hunk: str
    commit_sha: str


@dataclass(frozen=True)
class CheckRerequested(RepoEvent):
    check: CheckRef


@dataclass(frozen=True)
class CheckActionRequested(RepoEvent):
    """A button on one of our check runs; `identifier` is the one that we gave it."""

    check: CheckRef
    identifier: str


@dataclass(frozen=True)
class CheckCompleted(RepoEvent):
    check: CheckRef


@dataclass(frozen=True)
class InstallationChanged:
    """The App's reach changed. `action` is GitHub's word: created, deleted, suspend, added, …

    `added` and `removed` are what this event says came or went; `deleted` and `suspend` mean
    everything of the installation went.
    """

    installation_id: int
    account: str
    action: str
    actor: Actor
    added: tuple[RepoName, ...] = ()
    removed: tuple[RepoName, ...] = ()


@dataclass(frozen=True)
class Ping:
    """GitHub tries the webhook's address."""

    hook_id: int


@dataclass(frozen=True)
class Ignored:
    """Well-formed, and nothing for us; the reason is stored with the delivery."""

    reason: str


Event = (
    IssueLabeled
    | IssueUnlabeled
    | IssueClosed
    | IssueAssigned
    | CommentCreated
    | PullClosed
    | ReviewSubmitted
    | ReviewCommentCreated
    | CheckRerequested
    | CheckActionRequested
    | CheckCompleted
    | InstallationChanged
    | Ping
)


def sign(secret: str, body: bytes) -> str:
    """Return the value of `X-Hub-Signature-256` for these bytes."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return _SIGNATURE_PREFIX + digest


def verify_signature(secret: str, body: bytes, header: str | None) -> bool:
    """True only if `header` is the HMAC-SHA256 of the raw `body`, compared in constant time.

    ValueError when there is no secret: an empty key would let everybody sign.
    https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
    """
    if not secret:
        raise ValueError("a webhook secret is needed to verify a signature")
    given = (header or "").encode("utf-8", "replace")
    return hmac.compare_digest(sign(secret, body).encode(), given)


def subject_of(event: Event) -> str | None:
    """Return the same word for all events about one issue or pull request; None for the others.

    A check run names no issue, only its run: its buttons are not held in order with the comments.
    """
    about = getattr(event, "issue", None) or getattr(event, "pull", None)
    if not isinstance(event, RepoEvent) or about is None:
        return None
    return f"{event.repo.id}#{about.number}"


def parse_delivery(event: str, body: bytes) -> Event | Ignored:
    """Return the typed event of one delivery whose signature was verified.

    `event` is the header `X-GitHub-Event`. Ignored(reason) for what Drydock does not use, for
    deleted accounts and for deliveries without an installation. MalformedDelivery when the bytes
    are not a JSON object or a field that is needed is missing or of the wrong type.
    """
    payload = _Node(_decode(body), event)
    action = payload.optional_text("action")
    builder = _BUILDERS.get((event, action)) or _BUILDERS.get((event, ANY_ACTION))
    if builder is None:
        named = f"{event}.{action}" if action else event
        return Ignored(f"{_shown(named)} is not an event that Drydock uses")
    try:
        return builder(payload)
    except _NotForUs as not_for_us:
        return Ignored(str(not_for_us))


class _NotForUs(Exception):
    """Well-formed, but lacks what every event of ours needs; becomes Ignored."""


def _shown(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:100])


def _decode(body: bytes) -> Mapping[str, Any]:
    if body.startswith(b"payload="):
        raise MalformedDelivery(
            "the body is form-encoded: set the webhook's content type to application/json"
        )
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedDelivery(f"the body is not JSON ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise MalformedDelivery("the body is not a JSON object")
    return value


def _clean(text: str) -> str:
    """Drop NUL (PostgreSQL stores none) and lone surrogates (UTF-8 has none)."""
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return paired.replace("\0", "")


class _Node:
    """One JSON object and the path to it, so that an error can say where it was."""

    def __init__(self, value: Mapping[str, Any], path: str) -> None:
        self._value = value
        self._path = path

    def _wrong(self, key: str, wanted: str) -> MalformedDelivery:
        return MalformedDelivery(f"{_shown(self._path)}.{key} is not {wanted}")

    def has(self, key: str) -> bool:
        return self._value.get(key) is not None

    def node(self, key: str) -> _Node:
        found = self.optional_node(key)
        if found is None:
            raise self._wrong(key, "an object")
        return found

    def optional_node(self, key: str) -> _Node | None:
        value = self._value.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return _Node(value, f"{self._path}.{key}")

    def nodes(self, key: str) -> tuple[_Node, ...]:
        values = self._value.get(key)
        if values is None:
            return ()
        if not isinstance(values, list) or not all(isinstance(v, dict) for v in values):
            raise self._wrong(key, "a list of objects")
        return tuple(_Node(v, f"{self._path}.{key}[{i}]") for i, v in enumerate(values))

    def text(self, key: str) -> str:
        value = self._value.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return _clean(value)

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def integer(self, key: str) -> int:
        value = self._value.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "an integer")
        return value

    def optional_integer(self, key: str) -> int | None:
        return self.integer(key) if self.has(key) else None

    def flag(self, key: str) -> bool:
        """A missing or null flag is false, as in older GitHub Enterprise payloads."""
        value = self._value.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return bool(value)


def _installation_id(payload: _Node) -> int:
    installation = payload.optional_node("installation")
    if installation is None:
        raise _NotForUs("the delivery names no installation: it is a webhook, not our App's")
    return installation.integer("id")


def _actor(payload: _Node) -> Actor:
    sender = payload.optional_node("sender")
    if sender is None:
        raise _NotForUs("the sender's account was deleted (a ghost has no permission)")
    return Actor(sender.text("login"), sender.integer("id"), sender.optional_text("type") or "User")


def _login(node: _Node, key: str = "user") -> str:
    user = node.optional_node(key)
    return user.text("login") if user is not None else GHOST


def _repo(payload: _Node) -> RepoRef:
    node = payload.node("repository")
    return RepoRef(
        id=node.integer("id"),
        owner=node.node("owner").text("login"),
        name=node.text("name"),
        default_branch=node.text("default_branch"),
        archived=node.flag("archived"),
    )


def _common(payload: _Node) -> dict[str, Any]:
    return {
        "installation_id": _installation_id(payload),
        "repo": _repo(payload),
        "actor": _actor(payload),
    }


def _issue(payload: _Node) -> IssueRef:
    node = payload.node("issue")
    return IssueRef(
        number=node.integer("number"),
        title=node.text("title"),
        body=node.optional_text("body") or "",
        author=_login(node),
        is_pull_request=node.has("pull_request"),
        # Some of GitHub's own examples (deleted, pinned) have no state; such an issue was open.
        state=node.optional_text("state") or "open",
        locked=node.flag("locked"),
        labels=tuple(label.text("name") for label in node.nodes("labels")),
        assignees=tuple(user.text("login") for user in node.nodes("assignees")),
    )


def _pull(payload: _Node) -> PullRef:
    node = payload.node("pull_request")
    head, base = node.node("head"), node.node("base")
    fork = head.optional_node("repo")
    return PullRef(
        number=node.integer("number"),
        title=node.text("title"),
        body=node.optional_text("body") or "",
        author=_login(node),
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


def _check(payload: _Node) -> CheckRef:
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


def _issue_labeled(payload: _Node) -> Event:
    label = payload.node("label").text("name")
    return IssueLabeled(**_common(payload), issue=_issue(payload), label=label)


def _issue_unlabeled(payload: _Node) -> Event:
    label = payload.optional_node("label")
    if label is None:
        # GitHub sends this when the label itself was deleted from the repository.
        raise _NotForUs("the removed label is not named")
    return IssueUnlabeled(**_common(payload), issue=_issue(payload), label=label.text("name"))


def _issue_closed(payload: _Node) -> Event:
    return IssueClosed(**_common(payload), issue=_issue(payload), how=payload.text("action"))


def _issue_assigned(payload: _Node) -> Event:
    assignee = payload.optional_node("assignee")
    if assignee is None:
        raise _NotForUs("the assignee's account was deleted")
    return IssueAssigned(**_common(payload), issue=_issue(payload), assignee=assignee.text("login"))


def _comment_created(payload: _Node) -> Event:
    comment = payload.node("comment")
    return CommentCreated(
        **_common(payload),
        issue=_issue(payload),
        comment_id=comment.integer("id"),
        body=comment.optional_text("body") or "",
    )


def _pull_closed(payload: _Node) -> Event:
    return PullClosed(**_common(payload), pull=_pull(payload))


def _review_submitted(payload: _Node) -> Event:
    review = payload.node("review")
    return ReviewSubmitted(
        **_common(payload),
        pull=_pull(payload),
        review_id=review.integer("id"),
        # REST and webhooks differ in case for the same word.
        state=review.text("state").lower(),
        body=review.optional_text("body") or "",
    )


def _review_comment_created(payload: _Node) -> Event:
    comment = payload.node("comment")
    return ReviewCommentCreated(
        **_common(payload),
        pull=_pull(payload),
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


def _check_rerequested(payload: _Node) -> Event:
    return CheckRerequested(**_common(payload), check=_check(payload))


def _check_action(payload: _Node) -> Event:
    action = payload.node("requested_action")
    return CheckActionRequested(
        **_common(payload), check=_check(payload), identifier=action.text("identifier")
    )


def _check_completed(payload: _Node) -> Event:
    return CheckCompleted(**_common(payload), check=_check(payload))


def _names(payload: _Node, key: str) -> tuple[RepoName, ...]:
    return tuple(
        RepoName(node.integer("id"), node.text("full_name")) for node in payload.nodes(key)
    )


def _installation_changed(payload: _Node) -> InstallationChanged:
    installation = payload.node("installation")
    return InstallationChanged(
        installation_id=installation.integer("id"),
        account=_login(installation, "account"),
        action=payload.text("action"),
        actor=_actor(payload),
        added=_names(payload, "repositories_added"),
        removed=_names(payload, "repositories_removed"),
    )


def _installation(payload: _Node) -> InstallationChanged:
    """`installation` events list repositories in one field whose sense the action gives."""
    changed = _installation_changed(payload)
    repositories = _names(payload, "repositories")
    went = changed.action in {"deleted", "suspend"}
    if went:
        return replace(changed, removed=repositories)
    return replace(changed, added=repositories)


def _ping(payload: _Node) -> Event:
    return Ping(payload.integer("hook_id"))


ANY_ACTION = "*"

_BUILDERS: Mapping[tuple[str, str | None], Callable[[_Node], Event]] = {
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
