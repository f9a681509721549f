"""Who is in a team: shown to its organization's people, and to Apps that may read members."""

from __future__ import annotations

from typing import Any

from demo.github.acts.teams import find_team
from demo.github.errors import not_accessible, not_found, requires_authentication
from demo.github.records import User
from demo.github.rest.call import Call
from demo.github.rest.routing import route
from demo.github.shapes import teams as shapes
from demo.github.teams import Team

_MEMBERSHIP = "/orgs/{org}/teams/{team_slug}/memberships/{username}"


@route("GET", _MEMBERSHIP)
def get_membership(call: Call) -> Any:
    """GitHub says 404 for a stranger as for a team that is not there."""
    org = call.world.user(call.args["org"])
    _may_read(call, org)
    team = find_team(call.world, org, call.args["team_slug"])
    member = call.world.user(call.args["username"])
    state = team.members.get(member.login.lower()) if team is not None else None
    if team is None or state is None:
        raise not_found()
    return shapes.membership(call.view, team, member, state)


def _may_read(call: Call, org: User) -> None:
    """ApiError 401 for nobody, 404 where the organization's teams must not be known to exist."""
    installation, user = call.principal.installation, call.principal.user
    if user is None:
        raise requires_authentication()
    if installation is None:
        if not any(_is_in(team, user) for team in call.world.teams if team.org is org):
            raise not_found()
    elif installation.account is not org:
        raise not_found()
    elif not call.principal.reads_members:
        raise not_accessible()


def _is_in(team: Team, user: User) -> bool:
    return user.login.lower() in team.members
