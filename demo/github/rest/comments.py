"""Comments on issues and pull requests."""

from __future__ import annotations

from typing import Any

from demo.github.acts import comments as acts
from demo.github.clock import seconds_from
from demo.github.errors import invalid_field, not_found
from demo.github.records import Comment, Repo
from demo.github.rest.call import Call
from demo.github.rest.paging import page
from demo.github.rest.routing import created, no_content, route
from demo.github.shapes import issues as shapes


@route("GET", "/repos/{owner}/{repo}/issues/{issue_number}/comments")
def list_comments(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "read")
    return _page(call, list(issue.comments))


@route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments")
def create_comment(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    comment = acts.add_comment(issue, call.actor, call.text("body"), via_app=call.via_app)
    return created(shapes.comment(call.view, comment))


@route("GET", "/repos/{owner}/{repo}/issues/comments", "issues:read", "pull_requests:read")
def list_repo_comments(call: Call) -> Any:
    found = sorted(_all(call.repo), key=lambda one: one.id)
    return _page(call, found[::-1] if call.query("direction") == "desc" else found)


def _page(call: Call, comments: list[Comment]) -> Any:
    try:
        since = seconds_from(call.query("since")) if call.query("since") else 0
    except ValueError:
        raise invalid_field("IssueComment", "since") from None
    recent = [comment for comment in comments if comment.updated_at >= since]
    return page(call, recent, lambda one: shapes.comment(call.view, one))


def _all(repo: Repo) -> list[Comment]:
    issues = tuple(repo.issues_by_number.values())
    return [comment for issue in issues if not issue.deleted for comment in issue.comments]


def find_comment(call: Call) -> Comment:
    comment: Comment = call.pick(_all(call.repo), "comment_id")
    return comment


@route("GET", "/repos/{owner}/{repo}/issues/comments/{comment_id}")
def get_comment(call: Call) -> Any:
    comment = _visible(call, "read")
    return shapes.comment(call.view, comment)


def _visible(call: Call, level: str) -> Comment:
    if not call.principal.sees(call.repo):
        raise not_found()
    comment = find_comment(call)
    call.need_for_issue(comment.issue, level)
    call.need_issues(comment.issue)
    return comment


@route("PATCH", "/repos/{owner}/{repo}/issues/comments/{comment_id}")
def update_comment(call: Call) -> Any:
    comment = _visible(call, "write")
    acts.edit_comment(comment, call.actor, call.text("body"))
    return shapes.comment(call.view, comment)


@route("DELETE", "/repos/{owner}/{repo}/issues/comments/{comment_id}")
def delete_comment(call: Call) -> Any:
    comment = _visible(call, "write")
    acts.delete_comment(comment, call.actor)
    return no_content()
