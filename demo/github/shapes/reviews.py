"""Reviews and review comments in JSON."""

from __future__ import annotations

from demo.github.clock import stamp, stamp_or_none
from demo.github.records import Review, ReviewComment
from demo.github.shapes import accounts, issues
from demo.github.shapes.view import Json, View, node_id


def review(view: View, record: Review) -> Json:
    """Return GitHub's `pull-request-review`."""
    pull = record.pull
    html = f"{issues.page(view, pull)}#pullrequestreview-{record.id}"
    api = view.repo_api(pull.repo, f"/pulls/{pull.number}")
    shape = {
        "id": record.id,
        "node_id": node_id("PRR", record.id),
        "user": accounts.user_or_null(view, record.author),
        "body": record.body,
        "state": record.state,
        "html_url": html,
        "pull_request_url": api,
        "author_association": issues.association(pull.repo, record.author),
        "_links": {"html": {"href": html}, "pull_request": {"href": api}},
        "commit_id": record.commit_id,
    }
    submitted = stamp_or_none(record.submitted_at)
    return {**shape, "submitted_at": submitted} if submitted else shape


def comment(view: View, record: ReviewComment) -> Json:
    """Return GitHub's `pull-request-review-comment`."""
    pull = record.pull
    api = view.repo_api(pull.repo, f"/pulls/comments/{record.id}")
    html = f"{issues.page(view, pull)}#discussion_r{record.id}"
    pull_api = view.repo_api(pull.repo, f"/pulls/{pull.number}")
    shape: Json = {
        "url": api,
        "pull_request_review_id": record.review.id,
        "id": record.id,
        "node_id": node_id("PRRC", record.id),
        "diff_hunk": record.diff_hunk,
        "path": record.path,
        "commit_id": record.commit_id,
        "original_commit_id": record.original_commit_id,
        "user": accounts.user_or_null(view, record.author),
        "body": record.body,
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
        "html_url": html,
        "pull_request_url": pull_api,
        "author_association": issues.association(pull.repo, record.author),
        "_links": {
            "self": {"href": api},
            "html": {"href": html},
            "pull_request": {"href": pull_api},
        },
        "reactions": issues.rollup(f"{api}/reactions", record.reactions),
        **_place(record),
    }
    if record.in_reply_to is not None:
        shape["in_reply_to_id"] = record.in_reply_to.id
    return shape


def _place(record: ReviewComment) -> Json:
    """Return where in the diff it stands; an outdated comment has no line any more."""
    return {
        "start_line": record.start_line if record.line else None,
        "original_start_line": record.start_line,
        "start_side": record.start_side,
        "line": record.line,
        "original_line": record.original_line,
        "side": record.side,
        "position": record.position,
        "original_position": record.original_position,
        "subject_type": record.subject_type,
    }
