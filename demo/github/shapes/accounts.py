"""Accounts in JSON."""

from __future__ import annotations

from demo.github.clock import stamp
from demo.github.records import User
from demo.github.shapes.view import Json, View, node_id


def user(view: View, account: User) -> Json:
    """Return GitHub's `simple-user`."""
    api = view.api(f"/users/{account.login}")
    page = f"/apps/{account.login.removesuffix('[bot]')}" if account.kind == "Bot" else None
    return {
        "login": account.login,
        "id": account.id,
        "node_id": node_id("U", account.id),
        "avatar_url": view.web(f"/avatars/u/{account.id}"),
        "gravatar_id": "",
        "url": api,
        "html_url": view.web(page or f"/{account.login}"),
        "followers_url": f"{api}/followers",
        "following_url": f"{api}/following{{/other_user}}",
        "gists_url": f"{api}/gists{{/gist_id}}",
        "starred_url": f"{api}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{api}/subscriptions",
        "organizations_url": f"{api}/orgs",
        "repos_url": f"{api}/repos",
        "events_url": f"{api}/events{{/privacy}}",
        "received_events_url": f"{api}/received_events",
        "type": account.kind,
        "user_view_type": "public",
        "site_admin": False,
    }


def user_or_null(view: View, account: User | None) -> Json | None:
    """Return a `simple-user`, or null for an account that was deleted or never was."""
    return None if account is None or account.deleted else user(view, account)


def public_user(view: View, account: User) -> Json:
    """Return GitHub's `public-user`: the profile."""
    repos = [repo for repo in view.world.repos.values() if repo.owner is account]
    return {
        **user(view, account),
        "name": account.name,
        "company": None,
        "blog": "",
        "location": None,
        "email": account.email,
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": sum(1 for repo in repos if not repo.private),
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": stamp(account.created_at),
        "updated_at": stamp(account.created_at),
    }


def organization(view: View, account: User) -> Json:
    """Return the `organization` of a webhook payload."""
    api = view.api(f"/orgs/{account.login}")
    return {
        "login": account.login,
        "id": account.id,
        "node_id": node_id("O", account.id),
        "url": api,
        "repos_url": f"{api}/repos",
        "events_url": f"{api}/events",
        "hooks_url": f"{api}/hooks",
        "issues_url": f"{api}/issues",
        "members_url": f"{api}/members{{/member}}",
        "public_members_url": f"{api}/public_members{{/member}}",
        "avatar_url": view.web(f"/avatars/u/{account.id}"),
        "description": "",
    }


def permission(view: View, account: User, role: str) -> Json:
    """Return a `repository-collaborator-permission`.

    `permission` knows only the four old names (maintain counts as write, triage as read);
    `role_name` says which role it is.
    """
    legacy = {"maintain": "write", "triage": "read"}.get(role, role)
    return {
        "permission": legacy,
        "role_name": role,
        "user": {**user(view, account), "role_name": role, "permissions": role_flags(role)},
    }


def role_flags(role: str) -> dict[str, bool]:
    """Return GitHub's `permissions` object: each right that a role includes."""
    rank = ("none", "read", "triage", "write", "maintain", "admin").index(role)
    return {
        "pull": rank >= 1,
        "triage": rank >= 2,
        "push": rank >= 3,
        "maintain": rank >= 4,
        "admin": rank >= 5,
    }
