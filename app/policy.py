"""Who may start and steer runs. Pure; no answer is no.

The permission is GitHub's answer for the actor of the event, never the issue's author's and never
text: https://docs.github.com/en/rest/collaborators/collaborators (its `role_name`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from app.events import GHOST, Actor

_RANK: Mapping[str, int] = {
    "none": 0,
    "read": 1,
    "triage": 2,
    "write": 3,
    "maintain": 4,
    "admin": 5,
}


class DenyKind(StrEnum):
    """Why not, as far as it makes a difference: bots are passed over, people are answered."""

    OWN_EVENT = "own_event"
    BOT = "bot"
    GHOST = "ghost"
    PERMISSION = "permission"


@dataclass(frozen=True)
class Allow:
    reason: str


@dataclass(frozen=True)
class Deny:
    kind: DenyKind
    reason: str


def permission_rank(permission: str | None) -> int:
    """Return 0 (nothing) to 5 (admin); 0 for a role that this table does not know."""
    return _RANK.get(permission or "none", 0)


def screen_actor(
    actor: Actor, *, own_login: str | None, allowed_bots: Collection[str] = ()
) -> Deny | None:
    """Say no to those for whom the API need not even be asked; None for everybody else."""
    if own_login is not None and actor.login.lower() == own_login.lower():
        return Deny(DenyKind.OWN_EVENT, "our own event")
    if actor.is_bot and actor.login.lower() not in {bot.lower() for bot in allowed_bots}:
        return Deny(DenyKind.BOT, f"{actor.login} is a bot that the operator has not listed")
    if actor.login.lower() == GHOST:
        return Deny(DenyKind.GHOST, "a deleted account has no permission")
    return None


def may_run(
    actor: Actor,
    permission: str | None,
    *,
    min_permission: str,
    own_login: str | None,
    allowed_bots: Collection[str] = (),
) -> Allow | Deny:
    """Decide whether `actor` may start and steer runs; `permission` is None when GitHub said none.

    A listed bot is allowed by being listed: the API knows no collaborator permission of apps.
    """
    screened = screen_actor(actor, own_login=own_login, allowed_bots=allowed_bots)
    if screened is not None:
        return screened
    if actor.is_bot:
        return Allow(f"{actor.login} is listed by the operator")
    needed = _RANK.get(min_permission, len(_RANK))
    if permission_rank(permission) >= needed > 0:
        return Allow(f"{actor.login} has {permission}")
    return Deny(
        DenyKind.PERMISSION, f"{actor.login} has {permission or 'none'}, needs {min_permission}"
    )
