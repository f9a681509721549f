"""Labels of a repository, and on its issues."""

from __future__ import annotations

import re
from collections.abc import Iterable

from demo.github.announce import issue_event
from demo.github.errors import ApiError, custom_error, invalid_field
from demo.github.records import Issue, Label, Repo, TimelineEvent, User
from demo.github.shapes import issues as shapes

MAX_LABELS = 100
_NAME_LENGTH = 50
_COLOR = re.compile(r"[0-9a-fA-F]{6}")


def find_label(repo: Repo, name: str) -> Label | None:
    """Return a repository's label; names are the same whatever their case."""
    return next((one for one in repo.labels if one.name.lower() == name.lower()), None)


def define_label(repo: Repo, name: str, color: str = "ededed", description: str = "") -> Label:
    """Create a label. ApiError 422 when the name is taken, blank or too long."""
    if not name.strip():
        raise invalid_field("Label", "name", "missing_field")
    if len(name) > _NAME_LENGTH:
        raise custom_error(
            "Label", f"name is too long (maximum is {_NAME_LENGTH} characters)", "name"
        )
    if not _COLOR.fullmatch(color):
        raise invalid_field("Label", "color")
    with repo.world.lock:
        if find_label(repo, name):
            raise invalid_field("Label", "name", "already_exists")
        label = Label(id=repo.world.next_id(), name=name, color=color, description=description)
        repo.labels.append(label)
        return label


def add_labels(issue: Issue, actor: User, names: Iterable[str]) -> None:
    """Add labels, defining those that the repository does not know yet."""
    repo = issue.repo
    with repo.world.lock:
        for name in names:
            label = find_label(repo, name) or define_label(repo, name)
            if label not in issue.labels and len(issue.labels) < MAX_LABELS:
                issue.labels.append(label)
                _tell(issue, actor, label, "labeled")


def remove_label(issue: Issue, actor: User, name: str) -> None:
    """Take a label off. ApiError 404 when the issue does not have it."""
    with issue.repo.world.lock:
        label = next((one for one in issue.labels if one.name.lower() == name.lower()), None)
        if label is None:
            raise ApiError(404, "Label does not exist")
        issue.labels.remove(label)
        _tell(issue, actor, label, "unlabeled")


def set_labels(issue: Issue, actor: User, names: Iterable[str]) -> None:
    """Make these the issue's labels, and no others."""
    wanted = list(names)
    lowered = {name.lower() for name in wanted}
    with issue.repo.world.lock:
        for label in tuple(issue.labels):
            if label.name.lower() not in lowered:
                remove_label(issue, actor, label.name)
        add_labels(issue, actor, wanted)


def _tell(issue: Issue, actor: User, label: Label, action: str) -> None:
    world = issue.repo.world
    now = world.now()
    details = {"label": label}
    event = TimelineEvent(
        id=world.next_id(), kind=action, actor=actor, created_at=now, details=details
    )
    issue.timeline.append(event)
    issue.updated_at = now
    issue_event(issue, action, actor, label=lambda view: shapes.label(view, issue.repo, label))
