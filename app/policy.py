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


@dataclass(frozen=True)
class TeamAnswer:
    """What GitHub says of somebody and a team (`org/team`).

    `is_member` is None when it would not say; `why` then has its words.
    """

    team: str
    is_member: bool | None
    why: str = ""


class DenyKind(StrEnum):
    """Why not, as far as it makes a difference: bots are passed over, people are answered."""

    OWN_EVENT = "own_event"
    BOT = "bot"
    GHOST = "ghost"
    PERMISSION = "permission"
    TEAM = "team"


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


def least_permission(allow: str | None, *, operators: str, may_lower: bool) -> str:
    """Return what a person needs to start runs in a repository whose config says `allow`.

    The operator's least permission is the floor, or `triage` where the operator lets repositories
    lower it. The members of a team need that floor too.
    """
    floor = _lower("triage", operators) if may_lower else operators
    if allow is None:
        return operators
    if allow not in _RANK:
        return floor
    return floor if _lower(allow, floor) == allow else allow


def _lower(one: str, other: str) -> str:
    """Return the lesser of two permissions; the first where they are the same."""
    return one if permission_rank(one) <= permission_rank(other) else other


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
    team: TeamAnswer | None = None,
) -> Allow | Deny:
    """Decide whether `actor` may start and steer runs; `permission` is None when GitHub said none.

    With a `team` the actor has to be in it as well; no answer about it is no. A listed bot is
    allowed by being listed: the API knows no collaborator permission of apps.
    """
    screened = screen_actor(actor, own_login=own_login, allowed_bots=allowed_bots)
    if screened is not None:
        return screened
    if actor.is_bot:
        return Allow(f"{actor.login} is listed by the operator")
    needed = _RANK.get(min_permission, len(_RANK))
    if not permission_rank(permission) >= needed > 0:
        reason = f"{actor.login} has {permission or 'none'}, needs {min_permission}"
        return Deny(DenyKind.PERMISSION, reason)
    if team is None:
        return Allow(f"{actor.login} has {permission}")
    return _by_team(actor, team)


def _by_team(actor: Actor, team: TeamAnswer) -> Allow | Deny:
    if team.is_member:
        return Allow(f"{actor.login} is in {team.team}")
    why = f" ({team.why})" if team.why else ""
    known = "is not known to be" if team.is_member is None else "is not"
    return Deny(DenyKind.TEAM, f"{actor.login} {known} in {team.team}{why}")
