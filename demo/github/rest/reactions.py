"""Reactions on issues, comments and review comments."""

from __future__ import annotations

from typing import Any

from demo.github.acts.reactions import react
from demo.github.errors import not_accessible
from demo.github.records import Reaction, ReviewComment
from demo.github.rest.call import Call
from demo.github.rest.comments import find_comment
from demo.github.rest.paging import page
from demo.github.rest.reviews import find_review_comment
from demo.github.rest.routing import Answer, no_content, route
from demo.github.shapes import issues as shapes

_ISSUE = "/repos/{owner}/{repo}/issues/{issue_number}/reactions"
_COMMENT = "/repos/{owner}/{repo}/issues/comments/{comment_id}/reactions"
_REVIEW_COMMENT = "/repos/{owner}/{repo}/pulls/comments/{comment_id}/reactions"


def _list(call: Call, reactions: list[Reaction]) -> Any:
    content = call.query("content")
    wanted = [one for one in reactions if not content or one.content == content]
    return page(call, wanted, lambda one: shapes.reaction(call.view, one))


def _create(call: Call, reactions: list[Reaction]) -> Any:
    reaction, new = react(call.world, reactions, call.actor, call.text("content"))
    return Answer(201 if new else 200, shapes.reaction(call.view, reaction))


def _delete(call: Call, reactions: list[Reaction]) -> Any:
    """Take a reaction back; only its author may."""
    reaction: Reaction = call.pick(reactions, "reaction_id")
    if reaction.user is not call.actor:
        raise not_accessible()
    reactions.remove(reaction)
    return no_content()


def _of_issue(call: Call, level: str) -> list[Reaction]:
    issue = call.issue()
    call.need_for_issue(issue, level)
    return issue.reactions


def _of_comment(call: Call, level: str) -> list[Reaction]:
    comment = find_comment(call)
    call.need_for_issue(comment.issue, level)
    return comment.reactions


def _of_review_comment(call: Call) -> list[Reaction]:
    comment: ReviewComment = find_review_comment(call)
    return comment.reactions


@route("GET", _ISSUE)
def list_for_issue(call: Call) -> Any:
    return _list(call, _of_issue(call, "read"))


@route("POST", _ISSUE)
def create_for_issue(call: Call) -> Any:
    return _create(call, _of_issue(call, "write"))


@route("DELETE", _ISSUE + "/{reaction_id}")
def delete_for_issue(call: Call) -> Any:
    return _delete(call, _of_issue(call, "write"))


@route("GET", _COMMENT)
def list_for_comment(call: Call) -> Any:
    return _list(call, _of_comment(call, "read"))


@route("POST", _COMMENT)
def create_for_comment(call: Call) -> Any:
    return _create(call, _of_comment(call, "write"))


@route("DELETE", _COMMENT + "/{reaction_id}")
def delete_for_comment(call: Call) -> Any:
    return _delete(call, _of_comment(call, "write"))


@route("GET", _REVIEW_COMMENT, "pull_requests:read")
def list_for_review_comment(call: Call) -> Any:
    return _list(call, _of_review_comment(call))


@route("POST", _REVIEW_COMMENT, "pull_requests:write")
def create_for_review_comment(call: Call) -> Any:
    return _create(call, _of_review_comment(call))


@route("DELETE", _REVIEW_COMMENT + "/{reaction_id}", "pull_requests:write")
def delete_for_review_comment(call: Call) -> Any:
    return _delete(call, _of_review_comment(call))
