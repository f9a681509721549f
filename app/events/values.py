"""What happened on GitHub, as typed values. Text in them is GitHub's users' and stays untrusted."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

GHOST = "ghost"


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
    """What every event about one repository carries.

    `at` is when it happened, by GitHub's clock; None where the payload does not say. A delivery may
    come much later.
    """

    installation_id: int
    repo: RepoRef
    actor: Actor
    at: datetime | None = field(default=None, kw_only=True)


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


def subject_of(event: Event) -> str | None:
    """Return the same word for all events about one issue or pull request; None for the others.

    A check run of ours names no issue, only its run: its buttons are not held in order with the
    comments. Another's names the pull requests that its commit is the head of.
    """
    if isinstance(event, InstallationChanged):
        # What is taken away and given back must be heard in that order. An App that is installed
        # again is another installation.
        return f"installation {event.account}"
    if isinstance(event, CheckCompleted):
        return (
            f"{event.repo.id}#{min(event.check.pull_numbers)}" if event.check.pull_numbers else None
        )
    about = getattr(event, "issue", None) or getattr(event, "pull", None)
    if not isinstance(event, RepoEvent) or about is None:
        return None
    return f"{event.repo.id}#{about.number}"
