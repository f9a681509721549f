"""Labels of a repository and of its issues."""

from __future__ import annotations

from typing import Any

from demo.github.acts import labels as acts
from demo.github.errors import invalid_request, not_found
from demo.github.records import Issue
from demo.github.rest.call import Call
from demo.github.rest.paging import page
from demo.github.rest.routing import created, route
from demo.github.shapes import issues as shapes


def label_names(values: object) -> list[str]:
    """Return names from what a body has: texts, or objects with a `name`."""
    if not isinstance(values, list):
        raise invalid_request("For 'properties/labels', the value is not an array.")
    return [_name(value) for value in values]


def _name(value: object) -> str:
    name = value.get("name") if isinstance(value, dict) else value
    if not isinstance(name, str):
        raise invalid_request("For 'properties/labels', an item is not a string.")
    return name


def _names_in_body(call: Call) -> list[str]:
    """Return the names in `labels`, or in a body that is a list itself (PyGithub sends that)."""
    if isinstance(call.json, list):
        return label_names(call.json)
    if "labels" not in call.body:
        raise invalid_request('"labels" wasn\'t supplied.')
    return label_names(call.body["labels"])


def _shown(call: Call, issue: Issue) -> list[Any]:
    return [shapes.label(call.view, call.repo, label) for label in issue.labels]


@route("GET", "/repos/{owner}/{repo}/labels", "issues:read", "pull_requests:read")
def list_repo_labels(call: Call) -> Any:
    return page(call, call.repo.labels, lambda one: shapes.label(call.view, call.repo, one))


@route("POST", "/repos/{owner}/{repo}/labels", "issues:write", "pull_requests:write")
def create_label(call: Call) -> Any:
    color = (call.text_or_none("color") or "ededed").lstrip("#")
    description = call.text_or_none("description") or ""
    label = acts.define_label(call.repo, call.text("name"), color, description)
    return created(shapes.label(call.view, call.repo, label))


@route("GET", "/repos/{owner}/{repo}/labels/{name}", "issues:read", "pull_requests:read")
def get_label(call: Call) -> Any:
    label = acts.find_label(call.repo, call.args["name"])
    if label is None:
        raise not_found()
    return shapes.label(call.view, call.repo, label)


@route("GET", "/repos/{owner}/{repo}/issues/{issue_number}/labels")
def list_labels(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "read")
    return page(call, issue.labels, lambda one: shapes.label(call.view, call.repo, one))


@route("POST", "/repos/{owner}/{repo}/issues/{issue_number}/labels")
def add_labels(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    acts.add_labels(issue, call.actor, _names_in_body(call))
    return _shown(call, issue)


@route("PUT", "/repos/{owner}/{repo}/issues/{issue_number}/labels")
def replace_labels(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    acts.set_labels(issue, call.actor, _names_in_body(call))
    return _shown(call, issue)


@route("DELETE", "/repos/{owner}/{repo}/issues/{issue_number}/labels/{name}")
def remove_label(call: Call) -> Any:
    issue = call.issue()
    call.need_for_issue(issue, "write")
    acts.remove_label(issue, call.actor, call.args["name"])
    return _shown(call, issue)
