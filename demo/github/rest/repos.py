"""Repositories, who collaborates on them, and their branches."""

from __future__ import annotations

from typing import Any

from demo.github.errors import not_found
from demo.github.rest.call import Call
from demo.github.rest.paging import page
from demo.github.rest.routing import no_content, route
from demo.github.shapes import accounts, gitdata
from demo.github.shapes import repos as shapes


@route("GET", "/repos/{owner}/{repo}", "metadata:read")
def get_repo(call: Call) -> Any:
    return shapes.full(call.view, call.repo)


@route(
    "GET",
    "/repos/{owner}/{repo}/collaborators/{username}/permission",
    "metadata:read",
    public=False,
)
def get_permission(call: Call) -> Any:
    """Answer for people only: GitHub says 404 for a bot, and for an account that is gone."""
    user = call.world.user(call.args["username"])
    if user.kind == "Bot":
        raise not_found()
    return accounts.permission(call.view, user, call.repo.role_of(user))


@route("GET", "/repos/{owner}/{repo}/collaborators/{username}", "metadata:read", public=False)
def check_collaborator(call: Call) -> Any:
    user = call.world.user(call.args["username"])
    if user is not call.repo.owner and call.repo.own_role_of(user) == "none":
        raise not_found()
    return no_content()


@route("GET", "/repos/{owner}/{repo}/branches", "contents:read")
def list_branches(call: Call) -> Any:
    heads = list(call.repo.git.heads().items())
    return page(call, heads, lambda head: gitdata.branch(call.view, call.repo, *head))


@route("GET", "/repos/{owner}/{repo}/branches/{branch}", "contents:read")
def get_branch(call: Call) -> Any:
    name = call.args["branch"]
    sha = call.repo.git.head(name)
    if sha is None:
        raise not_found()
    commit = call.repo.git.commit(sha)
    return gitdata.branch_with_commit(call.view, call.repo, name, commit)
