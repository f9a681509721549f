"""What happened on an issue or pull request, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from demo.github.records import Issue, Pull, ReviewComment, TimelineEvent, User


@dataclass(frozen=True)
class Entry:
    """One item: a `comment`, a `review`, an `event` (a sentence) or `commits`."""

    kind: str
    at: float
    actor: User
    record: Any = None
    sentence: str = ""
    threads: tuple[tuple[ReviewComment, ...], ...] = field(default=())


def entries(issue: Issue) -> list[Entry]:
    found = [Entry("comment", c.created_at, c.author, c) for c in issue.comments]
    found += [_event(event) for event in issue.timeline]
    if isinstance(issue, Pull):
        found += _reviews(issue)
    return sorted(found, key=lambda entry: entry.at)


def _reviews(pull: Pull) -> list[Entry]:
    """Return the reviews with the threads they began; a lone reply is shown in its thread only."""
    found = []
    for review in pull.reviews:
        firsts = [comment for comment in review.comments if comment.in_reply_to is None]
        threads = tuple((first, *first.replies) for first in firsts)
        if review.state != "PENDING" and (threads or review.body or not review.comments):
            at = review.submitted_at or pull.created_at
            found.append(
                Entry("review", at, review.author, review, _VERDICTS[review.state], threads)
            )
    return found


_VERDICTS = {
    "APPROVED": "approved these changes",
    "CHANGES_REQUESTED": "requested changes",
    "COMMENTED": "reviewed",
    "DISMISSED": "reviewed (dismissed)",
}


def _event(event: TimelineEvent) -> Entry:
    kind = "commits" if event.kind == "pushed" else "event"
    sentence = _SENTENCES[event.kind](event)
    return Entry(kind, event.created_at, event.actor, event, sentence)


def _named(key: str) -> Callable[[TimelineEvent], str]:
    return lambda event: str(event.details[key])


_SENTENCES: dict[str, Callable[[TimelineEvent], str]] = {
    "labeled": lambda event: "added the label",
    "unlabeled": lambda event: "removed the label",
    "closed": lambda event: "closed this",
    "reopened": lambda event: "reopened this",
    "locked": lambda event: "locked the conversation",
    "unlocked": lambda event: "unlocked the conversation",
    "renamed": lambda event: f"changed the title from “{event.details['old']}”",
    "assigned": lambda event: f"assigned {_named('assignee')(event)}",
    "unassigned": lambda event: f"unassigned {_named('assignee')(event)}",
    "cross-referenced": lambda event: "linked a pull request that will close this:",
    "pushed": lambda event: "added commits",
    "head_ref_force_pushed": lambda event: "force-pushed the branch",
    "head_ref_deleted": lambda event: "deleted the branch",
    "ready_for_review": lambda event: "marked this as ready for review",
    "convert_to_draft": lambda event: "converted this to a draft",
    "review_requested": lambda event: f"requested a review from {_named('reviewer')(event)}",
    "review_request_removed": lambda event: f"removed the request for {_named('reviewer')(event)}",
    "merged": lambda event: f"merged this as {event.details['sha'][:7]}",
}
