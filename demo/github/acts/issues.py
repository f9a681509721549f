"""Opening, changing, closing, locking and assigning issues (and pull requests, which are such)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from demo.github.acts.labels import add_labels
from demo.github.acts.texts import check_body, check_title
from demo.github.announce import issue_event
from demo.github.errors import ApiError
from demo.github.records import App, Issue, Pull, Repo, TimelineEvent, User
from demo.github.shapes import accounts

MAX_ASSIGNEES = 10


def require_issues(repo: Repo) -> None:
    """ApiError 410 when the repository has issues turned off."""
    if not repo.has_issues:
        raise ApiError(410, "Issues has been disabled in this repository.")


def require_writable(repo: Repo) -> None:
    """ApiError 403 when the repository is archived."""
    if repo.archived:
        raise ApiError(403, "Repository was archived so is read-only.")


def note(issue: Issue, kind: str, actor: User, **details: Any) -> None:
    """Write an entry into the timeline and mark the issue as changed."""
    world = issue.repo.world
    now = world.now()
    event = TimelineEvent(
        id=world.next_id(), kind=kind, actor=actor, created_at=now, details=details
    )
    issue.timeline.append(event)
    issue.updated_at = now


def next_number(repo: Repo) -> int:
    return max(repo.issues_by_number, default=0) + 1


def open_issue(
    repo: Repo,
    actor: User,
    title: str,
    body: str | None,
    *,
    labels: Iterable[str] = (),
    assignees: Iterable[User] = (),
    via_app: App | None = None,
) -> Issue:
    """Open an issue. ApiError 410 when issues are off, 422 for its title or body."""
    require_issues(repo)
    require_writable(repo)
    check_title("Issue", title)
    check_body("Issue", body)
    world = repo.world
    with world.lock:
        now = world.now()
        issue = Issue(
            id=world.next_id(),
            repo=repo,
            number=next_number(repo),
            title=title.strip(),
            body=body or None,
            author=actor,
            created_at=now,
            updated_at=now,
            via_app=via_app,
        )
        repo.issues_by_number[issue.number] = issue
        issue_event(issue, "opened", actor)
        add_labels(issue, actor, labels)
        assign(issue, actor, assignees)
        return issue


def edit_issue(
    issue: Issue, actor: User, *, title: str | None = None, body: str | None = None
) -> None:
    """Change title or body; None leaves it."""
    require_writable(issue.repo)
    changes: dict[str, Any] = {}
    if title is not None and title.strip() != issue.title:
        check_title("Issue", title)
        changes["title"] = {"from": issue.title}
    if body is not None and body != (issue.body or ""):
        check_body("Issue", body)
        changes["body"] = {"from": issue.body or ""}
    with issue.repo.world.lock:
        if "title" in changes:
            note(issue, "renamed", actor, old=issue.title, new=title)
            issue.title = str(title).strip()
        if "body" in changes:
            issue.body = body or None
            issue.updated_at = issue.repo.world.now()
        if changes:
            issue_event(issue, "edited", actor, changes=lambda _view: changes)


def set_state(issue: Issue, actor: User, state: str, reason: str | None = None) -> None:
    """Open or close an issue or pull request; nothing happens when it is so already."""
    require_writable(issue.repo)
    if state == issue.state:
        return
    if isinstance(issue, Pull) and issue.merged_at is not None:
        raise ApiError(422, "Validation Failed", errors=[_merged_error()])
    with issue.repo.world.lock:
        _change_state(issue, actor, state, reason)
        issue_event(issue, "closed" if state == "closed" else "reopened", actor)


def _merged_error() -> dict[str, str]:
    return {
        "resource": "PullRequest",
        "code": "invalid",
        "field": "state",
        "message": "state cannot be changed. The pull request cannot be reopened.",
    }


def _change_state(issue: Issue, actor: User, state: str, reason: str | None) -> None:
    closed = state == "closed"
    issue.state = state
    if not isinstance(issue, Pull):
        issue.state_reason = (reason or "completed") if closed else "reopened"
    issue.closed_at = issue.repo.world.now() if closed else None
    issue.closed_by = actor if closed else None
    note(issue, "closed" if closed else "reopened", actor, reason=reason)


def lock(issue: Issue, actor: User, reason: str | None = None) -> None:
    with issue.repo.world.lock:
        issue.locked, issue.lock_reason = True, reason
        note(issue, "locked", actor)
        issue_event(issue, "locked", actor)


def unlock(issue: Issue, actor: User) -> None:
    with issue.repo.world.lock:
        issue.locked, issue.lock_reason = False, None
        note(issue, "unlocked", actor)
        issue_event(issue, "unlocked", actor)


def assign(issue: Issue, actor: User, users: Iterable[User]) -> None:
    """Add assignees. As on GitHub, those who cannot be assigned are left out without a word."""
    with issue.repo.world.lock:
        for user in users:
            if user in issue.assignees or not _assignable(issue.repo, user):
                continue
            if len(issue.assignees) < MAX_ASSIGNEES:
                issue.assignees.append(user)
                note(issue, "assigned", actor, assignee=user)
                _announce_assignee(issue, "assigned", actor, user)


def unassign(issue: Issue, actor: User, users: Iterable[User]) -> None:
    with issue.repo.world.lock:
        for user in users:
            if user in issue.assignees:
                issue.assignees.remove(user)
                note(issue, "unassigned", actor, assignee=user)
                _announce_assignee(issue, "unassigned", actor, user)


def _assignable(repo: Repo, user: User) -> bool:
    """People with a role of their own can be assigned, and bots of Apps installed here."""
    if user.kind == "Bot":
        world = repo.world
        return any(
            app.bot is user and world.installation_on(app, repo) for app in world.apps.values()
        )
    return user is repo.owner or repo.collaborators.get(user.login.lower(), "none") != "none"


def _announce_assignee(issue: Issue, action: str, actor: User, assignee: User) -> None:
    issue_event(issue, action, actor, assignee=lambda view: accounts.user(view, assignee))


def delete_issue(issue: Issue, actor: User) -> None:
    """Delete an issue: from now on it is 410 Gone."""
    with issue.repo.world.lock:
        issue.deleted = True
        issue_event(issue, "deleted", actor)
