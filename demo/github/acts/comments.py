"""Comments on issues and pull requests."""

from __future__ import annotations

from demo.github.acts.issues import require_writable
from demo.github.acts.texts import check_comment
from demo.github.announce import announce
from demo.github.errors import ApiError
from demo.github.records import ROLES, App, Comment, Issue, User
from demo.github.shapes import issues as shapes
from demo.github.shapes.view import Json, View

_LOCKING_DOC = "https://docs.github.com/articles/locking-conversations/"


def require_unlocked(issue: Issue, actor: User) -> None:
    """ApiError 403 when the conversation is locked to this account.

    People with write access may still speak; Apps may not.
    """
    insider = ROLES.index(issue.repo.role_of(actor)) >= ROLES.index("write")
    if issue.locked and (actor.kind == "Bot" or not insider):
        message = "Unable to create comment because issue is locked."
        raise ApiError(403, message, documentation_url=_LOCKING_DOC)


def add_comment(issue: Issue, actor: User, body: str, *, via_app: App | None = None) -> Comment:
    """Comment. ApiError 403 when locked or archived, 422 when blank or too long."""
    require_writable(issue.repo)
    require_unlocked(issue, actor)
    check_comment("IssueComment", body)
    world = issue.repo.world
    with world.lock:
        now = world.now()
        comment = Comment(
            id=world.next_id(),
            issue=issue,
            author=actor,
            body=body,
            created_at=now,
            updated_at=now,
            via_app=via_app,
        )
        issue.comments.append(comment)
        issue.updated_at = now
        _tell(comment, "created", actor)
        return comment


def edit_comment(comment: Comment, actor: User, body: str) -> None:
    require_writable(comment.issue.repo)
    check_comment("IssueComment", body)
    world = comment.issue.repo.world
    with world.lock:
        changes = {"body": {"from": comment.body}}
        comment.body = body
        comment.updated_at = world.now()
        _tell(comment, "edited", actor, changes=changes)


def delete_comment(comment: Comment, actor: User) -> None:
    with comment.issue.repo.world.lock:
        comment.issue.comments.remove(comment)
        _tell(comment, "deleted", actor)


def _tell(comment: Comment, action: str, actor: User, **extra: Json) -> None:
    def payload(view: View) -> Json:
        issue = shapes.issue(view, comment.issue)
        return {"action": action, **extra, "issue": issue, "comment": shapes.comment(view, comment)}

    announce(comment.issue.repo, "issue_comment", actor, payload)
