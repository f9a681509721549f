"""What GitHub told us, as our own frozen values. Text in them is written by GitHub's users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

GHOST = "ghost"
"""The login that GitHub shows for a deleted account."""


@dataclass(frozen=True, slots=True)
class RepoHandle:
    """Which repository, and through which installation of the App."""

    installation_id: int
    repo_id: int
    owner: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


class Permission(StrEnum):
    """A person's role in a repository, from nothing to everything."""

    NONE = "none"
    READ = "read"
    TRIAGE = "triage"
    WRITE = "write"
    MAINTAIN = "maintain"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class AppInfo:
    """The App itself. `bot_login` is the login its comments and commits appear under."""

    id: int
    slug: str
    permissions: Mapping[str, str]

    @property
    def bot_login(self) -> str:
        return f"{self.slug}[bot]"


@dataclass(frozen=True, slots=True)
class RepoInfo:
    """A repository under its present name. Whether it is empty, `branch_sha` tells (None)."""

    id: int
    owner: str
    name: str
    default_branch: str
    private: bool
    archived: bool
    fork: bool
    clone_url: str
    html_url: str

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class IssueInfo:
    """An issue, or the conversation side of a pull request. A missing body is ""."""

    number: int
    title: str
    body: str
    author: str
    state: str
    locked: bool
    labels: tuple[str, ...]
    is_pull_request: bool
    html_url: str


@dataclass(frozen=True, slots=True)
class CommentInfo:
    """A comment of the conversation. `author_kind` is GitHub's account type (User, Bot, …)."""

    id: int
    author: str
    author_kind: str
    author_association: str
    body: str
    html_url: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ReviewCommentInfo:
    """An inline comment of a review. `line` is None when the comment is outdated."""

    id: int
    author: str
    author_kind: str
    author_association: str
    body: str
    path: str
    line: int | None
    start_line: int | None
    diff_hunk: str
    commit_sha: str
    in_reply_to: int | None
    html_url: str
    created_at: datetime
    review_id: int | None = None


@dataclass(frozen=True, slots=True)
class ReviewInfo:
    """A review. `state` is in the spelling of webhooks: `approved`, `changes_requested`, …"""

    id: int
    author: str
    state: str
    body: str


@dataclass(frozen=True, slots=True)
class PullInfo:
    """A pull request. `head_repo_id` is None when the fork was deleted.

    `draft_unsupported` is set by `ensure_pull` alone: a draft was wanted, the repository's plan
    has none, and an ordinary pull request was opened.
    """

    number: int
    html_url: str
    title: str
    body: str
    author: str
    state: str
    merged: bool
    draft: bool
    head_ref: str
    head_sha: str
    head_repo_id: int | None
    base_ref: str
    base_sha: str
    node_id: str
    draft_unsupported: bool = False


@dataclass(frozen=True, slots=True)
class CheckRunInfo:
    """One of our check runs. `conclusion` is None while it is not completed."""

    id: int
    name: str
    head_sha: str
    external_id: str
    status: str
    conclusion: str | None
    title: str
    summary: str
    html_url: str

    def stands_as(self, wish: CheckRunWish) -> bool:
        """Whether nothing needs to be changed for it to stand as wished."""
        return (self.status, self.conclusion, self.title, self.summary) == (
            wish.status,
            wish.conclusion,
            wish.title,
            wish.summary,
        )


@dataclass(frozen=True, slots=True)
class CheckAnnotation:
    """What a check run says about the first line of a file. `level`: notice, warning or failure."""

    path: str
    level: str
    title: str
    message: str


@dataclass(frozen=True, slots=True)
class CheckButton:
    """A button of a check run. GitHub shows three at most, and words of 20, 40, 20 characters.

    https://docs.github.com/en/rest/checks/runs
    """

    label: str
    description: str
    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRunWish:
    """How a check run should stand. `external_id` is the run's id, by which it is found again.

    `status` is queued, in_progress or completed; `conclusion` belongs to completed alone.
    `summary` and `text` are Markdown of at most 65,535 characters each; of `annotations` there are
    50 at most. They are for a run that completes: GitHub adds those of each update to the others.
    """

    name: str
    head_sha: str
    external_id: str
    status: str
    conclusion: str | None = None
    title: str
    summary: str
    text: str = ""
    details_url: str | None = None
    annotations: tuple[CheckAnnotation, ...] = ()
    buttons: tuple[CheckButton, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check run of another app that failed. `summary` and `text` are that app's, whole.

    `is_actions` says that it is a job of GitHub Actions, whose log is had by the same id.
    """

    id: int
    name: str
    conclusion: str
    is_actions: bool = False
    summary: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class AnnotationInfo:
    """What a check says about some lines of a file. Lines are 1-based."""

    path: str
    start_line: int
    end_line: int
    level: str
    title: str
    message: str
