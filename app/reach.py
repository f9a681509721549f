"""What the App can reach changed: an installation came or went, or covers others. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.events import InstallationChanged

_ADDING = {"created", "added"}
_ALL_GONE = {"deleted": "uninstalled from", "suspend": "suspended on"}


@dataclass(frozen=True)
class Reach:
    """What came or went. `repo_ids` is None for all that the installation covers.

    `reason` is a sentence for the runs that end by it, and names who did it.
    """

    installation_id: int
    gone: bool
    repo_ids: frozenset[int] | None
    by: str
    reason: str


def reach_of(event: InstallationChanged) -> Reach | None:
    """Return what came or went; None for what changes no run, such as further permissions."""
    if event.action in _ALL_GONE:
        how = f"The App was {_ALL_GONE[event.action]} {event.account} by {event.actor.login}."
        return Reach(event.installation_id, True, None, event.actor.login, how)
    if event.action == "unsuspend":
        how = f"The App is no longer suspended on {event.account}."
        return Reach(event.installation_id, False, None, event.actor.login, how)
    return _of_repositories(event)


def _of_repositories(event: InstallationChanged) -> Reach | None:
    gone = event.removed if event.action == "removed" else ()
    named = gone or (event.added if event.action in _ADDING else ())
    if not named:
        return None
    what = "taken away from" if gone else "given to"
    names = ", ".join(repo.full_name for repo in named[:3])
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    return Reach(
        installation_id=event.installation_id,
        gone=bool(gone),
        repo_ids=frozenset(repo.id for repo in named),
        by=event.actor.login,
        reason=f"{names}{more} {'were' if len(named) > 1 else 'was'} {what} the App by"
        f" {event.actor.login}.",
    )
