"""Teams of an organization: made, joined, and given a role on repositories."""

from __future__ import annotations

import re
from collections.abc import Iterable

from demo.github.records import User
from demo.github.teams import Team
from demo.github.world import World


def create_team(world: World, org: User, name: str, members: Iterable[User] = ()) -> Team:
    """Make a team. ValueError where there is one of that slug, or no organization."""
    if org.kind != "Organization":
        raise ValueError(f"{org.login} is not an organization, so it has no teams")
    slug = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")
    with world.lock:
        if find_team(world, org, slug) is not None:
            raise ValueError(f"{org.login} has a team {slug} already")
        team = Team(id=world.next_id(), org=org, name=name, slug=slug)
        team.members = {member.login.lower(): "active" for member in members}
        world.teams.append(team)
        return team


def find_team(world: World, org: User, slug: str) -> Team | None:
    found = (team for team in world.teams if team.org is org and team.slug == slug.lower())
    return next(found, None)
