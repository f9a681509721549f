"""Who hears of what: an event becomes one signed payload per App that may and wants to know.

An App is told when it is installed on the repository, not suspended, subscribed to the event, and
has the read permission that the event belongs to. See
https://docs.github.com/webhooks/webhook-events-and-payloads
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from demo.github.clock import stamp
from demo.github.deliveries import Notice
from demo.github.records import App, Installation, Issue, Pull, Repo, User
from demo.github.shapes import accounts, apps, issues, pulls, repos
from demo.github.shapes.view import Json, View, node_id

if TYPE_CHECKING:
    from demo.github.world import World

EVENT_PERMISSIONS: dict[str, tuple[str, ...]] = {
    "issues": ("issues",),
    "issue_comment": ("issues", "pull_requests"),
    "pull_request": ("pull_requests",),
    "pull_request_review": ("pull_requests",),
    "pull_request_review_comment": ("pull_requests",),
    "push": ("contents",),
    "create": ("contents",),
    "delete": ("contents",),
    "check_run": ("checks",),
    "check_suite": ("checks",),
}


def announce(
    repo: Repo,
    event: str,
    actor: User,
    parts: Callable[[View], Json],
    *,
    only: App | None = None,
    repository: Json | None = None,
) -> None:
    """Tell every App that should hear it. `only` limits an event to the App it is meant for."""
    world = repo.world
    view = View(world, world.base_url)
    for app in tuple(world.apps.values()):
        installation = world.installation_on(app, repo)
        if installation is None or (only is not None and app is not only):
            continue
        if _hears(installation, event):
            payload = {
                **parts(view),
                "repository": repository or repos.repository(view, repo),
                **_organization(view, repo.owner),
                "sender": accounts.user(view, actor),
                "installation": _reference(installation),
            }
            world.courier.post(app, Notice(event, payload, installation.id, repo.id))


def _hears(installation: Installation, event: str) -> bool:
    needed = EVENT_PERMISSIONS[event]
    permitted = any(permission in installation.permissions for permission in needed)
    return installation.suspended_at is None and event in installation.events and permitted


def _organization(view: View, owner: User) -> Json:
    if owner.kind != "Organization":
        return {}
    return {"organization": accounts.organization(view, owner)}


def _reference(installation: Installation) -> Json:
    return {"id": installation.id, "node_id": node_id("IN", installation.id)}


def issue_event(issue: Issue, action: str, actor: User, **parts: Callable[[View], Any]) -> None:
    """Announce `issues` or, when the issue is a pull request, `pull_request`."""
    if isinstance(issue, Pull):
        pull_event(issue, action, actor, **parts)
        return

    def payload(view: View) -> Json:
        extra = {key: part(view) for key, part in parts.items()}
        return {"action": action, "issue": issues.issue(view, issue), **extra}

    announce(issue.repo, "issues", actor, payload)


def pull_event(pull: Pull, action: str, actor: User, **parts: Callable[[View], Any]) -> None:
    def payload(view: View) -> Json:
        extra = {key: part(view) for key, part in parts.items()}
        shape = pulls.full(view, pull, fresh=True)
        return {"action": action, "number": pull.number, "pull_request": shape, **extra}

    announce(pull.repo, "pull_request", actor, payload)


def ping(world: World, app: App) -> None:
    """Tell an App that its webhook was set up, as GitHub does first of all."""
    view = View(world, world.base_url)
    hook = {
        "type": "App",
        "id": app.hook_id,
        "name": "web",
        "active": True,
        "events": list(app.events),
        "config": apps.hook_config(app),
        "updated_at": stamp(world.now()),
        "created_at": stamp(app.created_at),
        "app_id": app.id,
        "deliveries_url": view.api("/app/hook/deliveries"),
    }
    payload = {"zen": "Keep it logically awesome.", "hook_id": app.hook_id, "hook": hook}
    world.courier.post(app, Notice("ping", payload))


def installation_event(
    world: World, installation: Installation, action: str, actor: User, covered: Sequence[Repo]
) -> None:
    """Announce `installation`, which every App hears of itself."""
    view = View(world, world.base_url)
    payload = {
        "action": action,
        "installation": _installation(view, installation, action),
        "repositories": [repos.minimal(view, repo) for repo in covered],
        "requester": None,
        "sender": accounts.user(view, actor),
    }
    world.courier.post(installation.app, Notice("installation", payload, installation.id))


def _installation(view: View, installation: Installation, action: str) -> Json:
    """Return the installation as its events have it: most write the times as numbers."""
    shape = apps.installation(view, installation)
    if action in ("suspend", "unsuspend"):
        return shape
    times = {"created_at": int(installation.created_at), "updated_at": int(installation.updated_at)}
    return {**shape, **times}


def installation_repositories_event(
    world: World,
    installation: Installation,
    actor: User,
    *,
    added: Sequence[Repo] = (),
    removed: Sequence[Repo] = (),
) -> None:
    """Announce `installation_repositories`."""
    view = View(world, world.base_url)
    payload = {
        "action": "added" if added else "removed",
        "installation": _installation(view, installation, "added"),
        "repository_selection": "all" if installation.repository_ids is None else "selected",
        "repositories_added": [repos.minimal(view, repo) for repo in added],
        "repositories_removed": [repos.minimal(view, repo) for repo in removed],
        "requester": None,
        "sender": accounts.user(view, actor),
    }
    notice = Notice("installation_repositories", payload, installation.id)
    world.courier.post(installation.app, notice)
