"""Reviews, comments on lines of the diff, and replies in their threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demo.github.acts.comments import require_unlocked
from demo.github.acts.issues import require_writable
from demo.github.acts.texts import check_comment
from demo.github.announce import announce
from demo.github.diffs import DiffFile, DiffLine, Hunk
from demo.github.errors import ApiError, custom_error, not_found, unprocessable
from demo.github.pullfacts import diff_files
from demo.github.records import App, Pull, Review, ReviewComment, User
from demo.github.shapes import pulls as pull_shapes
from demo.github.shapes import reviews as shapes
from demo.github.shapes.view import Json, View

EVENTS = {
    "APPROVE": "APPROVED",
    "REQUEST_CHANGES": "CHANGES_REQUESTED",
    "COMMENT": "COMMENTED",
    None: "PENDING",
}


@dataclass(frozen=True)
class Remark:
    """A comment on a place in the diff: a line of a side, a position, or the whole file."""

    path: str
    body: str
    line: int | None = None
    side: str = "RIGHT"
    start_line: int | None = None
    start_side: str | None = None
    position: int | None = None
    subject_type: str = "line"


@dataclass(frozen=True)
class _Place:
    line: int | None
    side: str
    position: int
    hunk: str


def create_review(
    pull: Pull,
    actor: User,
    event: str | None,
    body: str = "",
    remarks: Sequence[Remark] = (),
    *,
    via_app: App | None = None,
) -> Review:
    """Review a pull request; all or nothing. ApiError 422 when a remark is outside the diff."""
    require_writable(pull.repo)
    _check_verdict(pull, actor, event, body, remarks)
    with pull.repo.world.lock:
        places = [_place_in_review(pull, remark) for remark in remarks]
        review = _new_review(pull, actor, EVENTS[event], body)
        for remark, place in zip(remarks, places, strict=True):
            _add(review, actor, remark, place, via_app)
        if event is not None:
            _submitted(review, actor)
        return review


def submit_review(review: Review, actor: User, event: str, body: str | None) -> None:
    """Send a pending review off. ApiError 422 when it is not pending."""
    if review.state != "PENDING":
        raise unprocessable("Could not submit review: it has already been submitted.")
    text = review.body if body is None else body
    _check_verdict(review.pull, actor, event, text, [])
    with review.pull.repo.world.lock:
        review.body, review.state = text, EVENTS[event]
        review.submitted_at = review.pull.repo.world.now()
        _submitted(review, actor)


def comment_on_line(
    pull: Pull,
    actor: User,
    remark: Remark,
    commit_id: str | None = None,
    *,
    via_app: App | None = None,
) -> ReviewComment:
    """Leave a single comment; like on GitHub it makes a review of its own."""
    require_writable(pull.repo)
    require_unlocked(pull, actor)
    check_comment("PullRequestReviewComment", remark.body)
    if commit_id is not None and pull.repo.git.commit_sha(commit_id) != commit_id:
        raise custom_error(_COMMENT, "commit_id is not part of the pull request", "commit_id")
    with pull.repo.world.lock:
        place = _place(pull, remark)
        if isinstance(place, str):
            field = "pull_request_review_thread.path" if place == "path" else _LINE
            reason = "is invalid" if place == "path" else "must be part of the diff"
            raise custom_error(_COMMENT, f"{field} {reason}", field)
        review = _new_review(pull, actor, "COMMENTED", "")
        comment = _add(review, actor, remark, place, via_app)
        _submitted(review, actor)
        return comment


_COMMENT = "PullRequestReviewComment"
_LINE = "pull_request_review_thread.line"


def reply(
    first: ReviewComment, actor: User, body: str, *, via_app: App | None = None
) -> ReviewComment:
    """Answer in a thread. ApiError 404 when `first` is itself a reply."""
    if first.in_reply_to is not None:
        raise not_found()
    pull = first.pull
    require_writable(pull.repo)
    require_unlocked(pull, actor)
    check_comment(_COMMENT, body)
    with pull.repo.world.lock:
        review = _new_review(pull, actor, "COMMENTED", "")
        remark = Remark(first.path, body, first.original_line, first.side, first.start_line,
                        first.start_side, subject_type=first.subject_type)  # fmt: skip
        place = _Place(first.line, first.side, first.original_position, first.diff_hunk)
        comment = _add(review, actor, remark, place, via_app)
        comment.in_reply_to, comment.position = first, first.position
        comment.original_commit_id = first.original_commit_id
        _submitted(review, actor)
        return comment


def edit_review_comment(comment: ReviewComment, actor: User, body: str) -> None:
    check_comment(_COMMENT, body)
    world = comment.pull.repo.world
    with world.lock:
        changes = {"body": {"from": comment.body}}
        comment.body, comment.updated_at = body, world.now()
        _tell_comment(comment, "edited", actor, changes=changes)


def delete_review_comment(comment: ReviewComment, actor: User) -> None:
    with comment.pull.repo.world.lock:
        comment.pull.review_comments.remove(comment)
        _tell_comment(comment, "deleted", actor)


def refresh_places(pull: Pull) -> None:
    """After a push: find each comment's line again by its text, or mark the comment outdated."""
    files = {file.path: file for file in diff_files(pull)}
    for comment in pull.review_comments:
        comment.commit_id = pull.head_sha
        if comment.line is not None:
            found = _find_again(files.get(comment.path), comment)
            comment.line = comment.line if found else None
            comment.position = found[1].position if found else None


def _find_again(file: DiffFile | None, comment: ReviewComment) -> tuple[Hunk, DiffLine] | None:
    found = file.find(comment.line or 0, comment.side) if file else None
    last = comment.diff_hunk.rsplit("\n", 1)[-1][1:]
    return found if found and found[1].text == last else None


def _check_verdict(
    pull: Pull, actor: User, event: str | None, body: str, remarks: Sequence[Remark]
) -> None:
    if event == "APPROVE" and actor is pull.author:
        raise unprocessable("Can not approve your own pull request")
    if event == "REQUEST_CHANGES" and actor is pull.author:
        raise unprocessable("Can not request changes on your own pull request")
    if event in ("COMMENT", "REQUEST_CHANGES") and not body.strip() and not remarks:
        raise unprocessable("Body can't be blank")
    require_unlocked(pull, actor)


def _new_review(pull: Pull, actor: User, state: str, body: str) -> Review:
    world = pull.repo.world
    review = Review(
        id=world.next_id(),
        pull=pull,
        author=actor,
        body=body,
        state=state,
        commit_id=pull.head_sha,
        submitted_at=None if state == "PENDING" else world.now(),
    )
    pull.reviews.append(review)
    pull.updated_at = world.now()
    return review


def _place(pull: Pull, remark: Remark) -> _Place | str:
    """Return where a remark stands, or which part of its address is wrong: `path` or `line`."""
    file = next((one for one in diff_files(pull) if one.path == remark.path), None)
    if file is None:
        return "path"
    if remark.subject_type == "file":
        return _Place(None, remark.side, 1, "")
    found = _locate(file, remark)
    if found is None:
        return "line"
    hunk, line = found
    side = remark.side if remark.line is not None else _side_of(line)
    number = line.new if side == "RIGHT" else line.old
    return _Place(number, side, line.position, hunk.up_to(line))


def _side_of(line: DiffLine) -> str:
    """A position says by itself which side it is on: only deleted lines are on the left."""
    return "LEFT" if line.new is None else "RIGHT"


def _locate(file: DiffFile, remark: Remark) -> tuple[Hunk, DiffLine] | None:
    if remark.line is None:
        return file.at_position(remark.position) if remark.position is not None else None
    found = file.find(remark.line, remark.side)
    if found and remark.start_line is not None:
        start = file.find(remark.start_line, remark.start_side or remark.side)
        same_hunk = start is not None and start[0] is found[0]
        return found if same_hunk and remark.start_line < remark.line else None
    return found


def _place_in_review(pull: Pull, remark: Remark) -> _Place:
    check_comment(_COMMENT, remark.body)
    place = _place(pull, remark)
    if isinstance(place, str):
        raise unprocessable(f"{place.capitalize()} could not be resolved")
    return place


def _add(
    review: Review, actor: User, remark: Remark, place: _Place, via_app: App | None
) -> ReviewComment:
    pull, world = review.pull, review.pull.repo.world
    comment = ReviewComment(
        id=world.next_id(),
        pull=pull,
        review=review,
        author=actor,
        body=remark.body,
        path=remark.path,
        side=place.side,
        line=place.line,
        original_line=remark.line if remark.line is not None else place.line,
        start_line=remark.start_line,
        start_side=remark.start_side or (place.side if remark.start_line else None),
        position=place.position,
        original_position=place.position,
        commit_id=pull.head_sha,
        original_commit_id=pull.head_sha,
        diff_hunk=place.hunk,
        subject_type=remark.subject_type,
        created_at=world.now(),
        updated_at=world.now(),
        via_app=via_app,
    )
    pull.review_comments.append(comment)
    return comment


def dismiss_review(review: Review, actor: User, message: str) -> None:
    """Set a verdict aside. ApiError 422 for a review that gave none."""
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise ApiError(422, f"Can not dismiss a {review.state.lower()} pull request review")
    with review.pull.repo.world.lock:
        review.state = "DISMISSED"
        _tell_review(review, "dismissed", actor)


def _submitted(review: Review, actor: User) -> None:
    if actor in review.pull.requested_reviewers:
        review.pull.requested_reviewers.remove(actor)
    _tell_review(review, "submitted", actor)
    for comment in review.comments:
        _tell_comment(comment, "created", actor)


def _tell_review(review: Review, action: str, actor: User) -> None:
    def payload(view: View) -> Json:
        shape = shapes.review(view, review)
        hook = {**shape, "state": review.state.lower(), "body": review.body or None}
        pull = pull_shapes.simple(view, review.pull)
        return {"action": action, "review": hook, "pull_request": pull}

    announce(review.pull.repo, "pull_request_review", actor, payload)


def _tell_comment(comment: ReviewComment, action: str, actor: User, **extra: Json) -> None:
    def payload(view: View) -> Json:
        pull = pull_shapes.simple(view, comment.pull)
        shape = shapes.comment(view, comment)
        return {"action": action, **extra, "comment": shape, "pull_request": pull}

    announce(comment.pull.repo, "pull_request_review_comment", actor, payload)
