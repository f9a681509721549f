"""Issues, their assignees and who may lock them."""

from __future__ import annotations

from typing import Any

from demo.github.acts import issues as acts
from demo.github.acts.labels import set_labels
from demo.github.acts.pulls import set_pull_state
from demo.github.clock import seconds_from
from demo.github.errors import invalid_field, invalid_request
from demo.github.records import Issue, Pull, User
from demo.github.rest.call import Call
from demo.github.rest.labels import label_names
from demo.github.rest.paging import page
from demo.github.rest.routing import created, no_content, route
from demo.github.shapes import issues as shapes

_STATES = ("open", "closed")
_REASONS = ("completed", "not_planned", "duplicate", "reopened")


@route("GET", "/repos/{owner}/{repo}/issues", "issues:read")
def list_issues(call: Call) -> Any:
    """List issues and pull requests, newest first unless asked otherwise."""
    acts.require_issues(call.repo)
    found = [issue for issue in tuple(call.repo.issues_by_number.values()) if _wanted(call, issue)]
    key = {"updated": "updated_at", "comments": "comments"}.get(call.query("sort"), "created_at")
    found.sort(
        key=lambda one: (_rank(one, key), one.number), reverse=call.query("direction") != "asc"
    )
    return page(call, found, lambda one: shapes.issue(call.view, one))


def _rank(issue: Issue, key: str) -> float:
    return len(issue.comments) if key == "comments" else float(getattr(issue, key))


def _wanted(call: Call, issue: Issue) -> bool:
    state = call.query("state", "open")
    labels = {name.lower() for name in call.query("labels").split(",") if name}
    own = {name.lower() for name in issue.label_names}
    tests = (
        not issue.deleted,
        state in ("all", issue.state),
        labels <= own,
        call.query("creator", issue.author.login).lower() == issue.author.login.lower(),
        _assigned(issue, call.query("assignee")),
        issue.updated_at >= _since(call),
    )
    return all(tests)


def _assigned(issue: Issue, wanted: str) -> bool:
    logins = {one.login.lower() for one in issue.assignees}
    if wanted in ("", "*"):
        return wanted == "" or bool(logins)
    return not logins if wanted == "none" else wanted.lower() in logins


def _since(call: Call) -> float:
    text = call.query("since")
    try:
        return seconds_from(text) if text else 0
    except ValueError:
        raise invalid_field("Issue", "since") from None


@route("POST", "/repos/{owner}/{repo}/issues", "issues:write")
def create_issue(call: Call) -> Any:
    issue = acts.open_issue(
        call.repo,
        call.actor,
        call.text("title"),
        call.text_or_none("body"),
        labels=label_names(call.body.get("labels", [])),
        assignees=people(call, call.texts("assignees")),
        via_app=call.via_app,
    )
    return created(shapes.issue_with_closer(call.view, issue))


@route("GET", "/repos/{owner}/{repo}/issues/{issue_number}")
def get_issue(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "read")
    return shapes.issue_with_closer(call.view, issue)


@route("PATCH", "/repos/{owner}/{repo}/issues/{issue_number}")
def update_issue(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    state, reason = call.choice("state", _STATES), call.choice("state_reason", _REASONS)
    body = (call.text_or_none("body") or "") if "body" in call.body else None
    acts.edit_issue(issue, call.actor, title=call.text_or_none("title"), body=body)
    if "labels" in call.body:
        set_labels(issue, call.actor, label_names(call.body["labels"]))
    if "assignees" in call.body:
        _set_assignees(call, issue, people(call, call.texts("assignees")))
    if isinstance(issue, Pull) and state is not None:
        set_pull_state(issue, call.actor, state)
    elif state is not None:
        acts.set_state(issue, call.actor, state, reason)
    return shapes.issue_with_closer(call.view, issue)


def _set_assignees(call: Call, issue: Issue, wanted: list[User]) -> None:
    acts.unassign(issue, call.actor, [one for one in issue.assignees if one not in wanted])
    acts.assign(issue, call.actor, wanted)


def people(call: Call, logins: list[str]) -> list[User]:
    """Return accounts by login. ApiError 422 when one is unknown."""
    found = [(login, call.world.find_user(login)) for login in logins]
    for login, user in found:
        if user is None:
            raise invalid_field("Issue", "assignees", "invalid", login)
    return [user for _, user in found if user is not None]


@route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/assignees")
def add_assignees(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    acts.assign(issue, call.actor, people(call, call.texts("assignees")))
    return created(shapes.issue(call.view, issue))


@route("DELETE", "/repos/{owner}/{repo}/issues/{issue_number}/assignees")
def remove_assignees(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    if "assignees" not in call.body:
        raise invalid_request('"assignees" wasn\'t supplied.')
    acts.unassign(issue, call.actor, people(call, call.texts("assignees")))
    return shapes.issue(call.view, issue)


@route("PUT", "/repos/{owner}/{repo}/issues/{issue_number}/lock")
def lock_issue(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    reasons = ("off-topic", "too heated", "resolved", "spam")
    acts.lock(issue, call.actor, call.choice("lock_reason", reasons))
    return no_content()


@route("DELETE", "/repos/{owner}/{repo}/issues/{issue_number}/lock")
def unlock_issue(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    acts.unlock(issue, call.actor)
    return no_content()
