"""Reviews of pull requests, and the comments in their threads."""

from __future__ import annotations

from typing import Any

from demo.github.acts import reviews as acts
from demo.github.errors import invalid_request
from demo.github.records import Review, ReviewComment
from demo.github.rest.call import Call
from demo.github.rest.paging import page
from demo.github.rest.routing import created, no_content, route
from demo.github.shapes import reviews as shapes

_PULL = "/repos/{owner}/{repo}/pulls/{pull_number}"
_REVIEW = _PULL + "/reviews/{review_id}"
_COMMENT = "/repos/{owner}/{repo}/pulls/comments/{comment_id}"
_VERDICTS = ("APPROVE", "REQUEST_CHANGES", "COMMENT")
_SIDES = ("LEFT", "RIGHT")


def _visible(call: Call) -> list[Review]:
    """A pending review is seen by its author alone."""
    reviews = tuple(call.pull().reviews)
    return [one for one in reviews if one.state != "PENDING" or one.author is call.principal.user]


def _comments(call: Call, comments: list[ReviewComment]) -> list[ReviewComment]:
    me = call.principal.user
    return [one for one in comments if one.review.state != "PENDING" or one.author is me]


@route("GET", _PULL + "/reviews", "pull_requests:read")
def list_reviews(call: Call) -> Any:
    return page(call, _visible(call), lambda one: shapes.review(call.view, one))


@route("POST", _PULL + "/reviews", "pull_requests:write")
def create_review(call: Call) -> Any:
    remarks = call.body.get("comments") or []
    if not isinstance(remarks, list):
        raise invalid_request("For 'properties/comments', the value is not an array.")
    review = acts.create_review(
        call.pull(),
        call.actor,
        call.choice("event", _VERDICTS),
        call.text_or_none("body") or "",
        [_remark(entry) for entry in remarks],
        via_app=call.via_app,
    )
    return shapes.review(call.view, review)


def _remark(entry: Any) -> acts.Remark:
    if not isinstance(entry, dict):
        raise invalid_request("For 'properties/comments', an item is not an object.")
    for key in ("path", "body"):
        if not isinstance(entry.get(key), str):
            raise invalid_request(f'"{key}" wasn\'t supplied.')
    return acts.Remark(
        path=entry["path"],
        body=entry["body"],
        line=entry.get("line"),
        side=entry.get("side") or "RIGHT",
        start_line=entry.get("start_line"),
        start_side=entry.get("start_side"),
        position=entry.get("position"),
        subject_type=entry.get("subject_type") or "line",
    )


@route("GET", _REVIEW, "pull_requests:read")
def get_review(call: Call) -> Any:
    return shapes.review(call.view, call.pick(_visible(call), "review_id"))


@route("POST", _REVIEW + "/events", "pull_requests:write")
def submit_review(call: Call) -> Any:
    review: Review = call.pick(_visible(call), "review_id")
    event = call.choice("event", _VERDICTS)
    if event is None:
        raise invalid_request('"event" wasn\'t supplied.')
    acts.submit_review(review, call.actor, event, call.text_or_none("body"))
    return shapes.review(call.view, review)


@route("PUT", _REVIEW + "/dismissals", "pull_requests:write")
def dismiss_review(call: Call) -> Any:
    review: Review = call.pick(_visible(call), "review_id")
    acts.dismiss_review(review, call.actor, call.text("message"))
    return shapes.review(call.view, review)


@route("GET", _REVIEW + "/comments", "pull_requests:read")
def list_comments_of_review(call: Call) -> Any:
    review: Review = call.pick(_visible(call), "review_id")
    return page(call, review.comments, lambda one: shapes.comment(call.view, one))


@route("GET", _PULL + "/comments", "pull_requests:read")
def list_comments(call: Call) -> Any:
    found = _comments(call, call.pull().review_comments)
    found.sort(key=lambda one: one.id, reverse=call.query("direction") == "desc")
    return page(call, found, lambda one: shapes.comment(call.view, one))


@route("POST", _PULL + "/comments", "pull_requests:write")
def create_comment(call: Call) -> Any:
    """Comment on a line; with `in_reply_to` everything but the body is ignored."""
    first = call.number_or_none("in_reply_to")
    if first is not None:
        return _reply(call, first)
    remark = acts.Remark(
        path=call.text("path"),
        body=call.text("body"),
        line=call.number_or_none("line"),
        side=call.choice("side", _SIDES) or "RIGHT",
        start_line=call.number_or_none("start_line"),
        start_side=call.choice("start_side", _SIDES),
        position=call.number_or_none("position"),
        subject_type=call.choice("subject_type", ("line", "file")) or "line",
    )
    comment = acts.comment_on_line(
        call.pull(), call.actor, remark, call.text("commit_id"), via_app=call.via_app
    )
    return created(shapes.comment(call.view, comment))


@route("POST", _PULL + "/comments/{comment_id}/replies", "pull_requests:write")
def create_reply(call: Call) -> Any:
    return _reply(call, call.args["comment_id"])


def _reply(call: Call, first_id: int) -> Any:
    found = {one.id: one for one in call.pull().review_comments}
    if first_id not in found:
        raise invalid_request("in_reply_to is not a comment of this pull request.")
    comment = acts.reply(found[first_id], call.actor, call.text("body"), via_app=call.via_app)
    return created(shapes.comment(call.view, comment))


def find_review_comment(call: Call) -> ReviewComment:
    everything = [one for pull in call.repo.pulls for one in pull.review_comments]
    found: ReviewComment = call.pick(_comments(call, everything), "comment_id")
    return found


@route("GET", "/repos/{owner}/{repo}/pulls/comments", "pull_requests:read")
def list_repo_comments(call: Call) -> Any:
    everything = [one for pull in call.repo.pulls for one in pull.review_comments]
    found = sorted(_comments(call, everything), key=lambda one: one.id)
    return page(call, found, lambda one: shapes.comment(call.view, one))


@route("GET", _COMMENT, "pull_requests:read")
def get_comment(call: Call) -> Any:
    return shapes.comment(call.view, find_review_comment(call))


@route("PATCH", _COMMENT, "pull_requests:write")
def update_comment(call: Call) -> Any:
    comment = find_review_comment(call)
    acts.edit_review_comment(comment, call.actor, call.text("body"))
    return shapes.comment(call.view, comment)


@route("DELETE", _COMMENT, "pull_requests:write")
def delete_comment(call: Call) -> Any:
    acts.delete_review_comment(find_review_comment(call), call.actor)
    return no_content()
