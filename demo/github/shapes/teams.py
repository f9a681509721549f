"""Teams in JSON."""

from __future__ import annotations

from demo.github.records import User
from demo.github.shapes.view import Json, View, node_id
from demo.github.teams import Team


def team(view: View, shown: Team) -> Json:
    """Return GitHub's `team`."""
    api = view.api(f"/organizations/{shown.org.id}/team/{shown.id}")
    return {
        "id": shown.id,
        "node_id": node_id("T", shown.id),
        "name": shown.name,
        "slug": shown.slug,
        "description": "",
        "privacy": "closed",
        "notification_setting": "notifications_enabled",
        "permission": "pull",
        "type": "organization",
        "organization_id": shown.org.id,
        "url": api,
        "html_url": view.web(f"/orgs/{shown.org.login}/teams/{shown.slug}"),
        "members_url": f"{api}/members{{/member}}",
        "repositories_url": f"{api}/repos",
        "parent": None,
    }


def membership(view: View, of: Team, member: User, state: str) -> Json:
    """Return GitHub's `team-membership`."""
    path = f"/organizations/{of.org.id}/team/{of.id}/memberships/{member.login}"
    return {"state": state, "role": "member", "url": view.api(path)}
