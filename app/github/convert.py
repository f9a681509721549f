"""PyGithub's objects into our values."""

from __future__ import annotations

from github.CheckRun import CheckRun
from github.CheckRunAnnotation import CheckRunAnnotation
from github.Issue import Issue
from github.IssueComment import IssueComment
from github.NamedUser import NamedUser
from github.Organization import Organization
from github.PullRequest import PullRequest
from github.PullRequestComment import PullRequestComment
from github.PullRequestReview import PullRequestReview
from github.Repository import Repository

from app.github.values import (
    GHOST,
    AnnotationInfo,
    CheckRunInfo,
    CommentInfo,
    FailedCheck,
    IssueInfo,
    PullInfo,
    RepoInfo,
    ReviewCommentInfo,
    ReviewInfo,
)

ACTIONS = "github-actions"
"""The slug of the App that GitHub Actions reports its jobs as, on every GitHub."""


def to_repo(repo: Repository) -> RepoInfo:
    return RepoInfo(
        id=repo.id,
        owner=repo.owner.login,
        name=repo.name,
        default_branch=repo.default_branch,
        private=repo.private,
        archived=repo.archived,
        fork=repo.fork,
        clone_url=repo.clone_url,
        html_url=repo.html_url,
    )


def to_issue(issue: Issue) -> IssueInfo:
    return IssueInfo(
        number=issue.number,
        title=issue.title,
        body=issue.body or "",
        author=_login(issue.user),
        state=issue.state,
        locked=bool(issue.locked),
        labels=tuple(label.name for label in issue.labels),
        is_pull_request=issue.pull_request is not None,
        html_url=issue.html_url,
    )


def to_comment(comment: IssueComment) -> CommentInfo:
    return CommentInfo(
        id=comment.id,
        author=_login(comment.user),
        author_kind=_kind(comment.user),
        author_association=comment.author_association or "NONE",
        body=comment.body or "",
        html_url=comment.html_url,
        created_at=comment.created_at,
        updated_at=comment.updated_at,
    )


def to_review_comment(comment: PullRequestComment) -> ReviewCommentInfo:
    return ReviewCommentInfo(
        id=comment.id,
        author=_login(comment.user),
        author_kind=_kind(comment.user),
        author_association=comment.author_association or "NONE",
        body=comment.body or "",
        path=comment.path,
        line=comment.line,
        start_line=comment.start_line,
        diff_hunk=comment.diff_hunk or "",
        commit_sha=comment.commit_id,
        in_reply_to=comment.in_reply_to_id,
        html_url=comment.html_url,
        created_at=comment.created_at,
        review_id=comment.pull_request_review_id,
    )


def to_review(review: PullRequestReview) -> ReviewInfo:
    return ReviewInfo(
        id=review.id,
        author=_login(review.user),
        # REST and webhooks differ in case for the same word.
        state=review.state.lower(),
        body=review.body or "",
    )


def to_pull(pull: PullRequest) -> PullInfo:
    head, base = pull.head, pull.base
    return PullInfo(
        number=pull.number,
        html_url=pull.html_url,
        title=pull.title,
        body=pull.body or "",
        author=_login(pull.user),
        state=pull.state,
        # Lists of pull requests do not say `merged`, only when.
        merged=pull.merged_at is not None,
        draft=bool(pull.draft),
        head_ref=head.ref,
        head_sha=head.sha,
        head_repo_id=head.repo.id if head.repo is not None else None,
        base_ref=base.ref,
        base_sha=base.sha,
        node_id=pull.node_id,
    )


def to_check_run(check: CheckRun) -> CheckRunInfo:
    return CheckRunInfo(
        id=check.id,
        name=check.name,
        head_sha=check.head_sha,
        external_id=check.external_id or "",
        status=check.status,
        conclusion=check.conclusion,
        title=check.output.title or "",
        summary=check.output.summary or "",
        html_url=check.html_url or "",
    )


def to_failed_check(check: CheckRun) -> FailedCheck:
    return FailedCheck(
        id=check.id,
        name=check.name,
        conclusion=check.conclusion or "",
        is_actions=check.app is not None and check.app.slug == ACTIONS,
        summary=check.output.summary or "",
        text=check.output.text or "",
    )


def to_annotation(annotation: CheckRunAnnotation) -> AnnotationInfo:
    return AnnotationInfo(
        path=annotation.path,
        start_line=annotation.start_line,
        end_line=annotation.end_line,
        level=annotation.annotation_level or "",
        title=annotation.title or "",
        message=annotation.message or "",
    )


def _login(user: NamedUser | Organization | None) -> str:
    return user.login if user is not None else GHOST


def _kind(user: NamedUser | Organization | None) -> str:
    return user.type if user is not None else "User"
