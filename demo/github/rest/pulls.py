"""Pull requests: opened, listed, changed, merged; their files, commits and reviewers."""

from __future__ import annotations

from typing import Any

from demo.github.acts import pulls as acts
from demo.github.acts.teams import find_team
from demo.github.diffs import diff_text
from demo.github.errors import ApiError, invalid_request, validation_failed
from demo.github.pullfacts import diff_files, fork_point, pull_commits
from demo.github.records import Pull, User
from demo.github.rest.call import Call
from demo.github.rest.paging import page
from demo.github.rest.routing import Answer, created, route
from demo.github.shapes import accounts, gitdata, teams
from demo.github.shapes import pulls as shapes
from demo.github.shapes.view import node_id
from demo.github.teams import Team

_PULLS = "/repos/{owner}/{repo}/pulls"
_PULL = "/repos/{owner}/{repo}/pulls/{pull_number}"
_STATES = ("open", "closed")


@route("GET", _PULLS, "pull_requests:read")
def list_pulls(call: Call) -> Any:
    found = [pull for pull in call.repo.pulls if _wanted(call, pull)]
    key = "updated_at" if call.query("sort") == "updated" else "created_at"
    default = "desc" if call.query("sort", "created") == "created" else "asc"
    newest_first = call.query("direction", default) == "desc"
    found.sort(key=lambda one: (getattr(one, key), one.number), reverse=newest_first)
    return page(call, found, lambda one: shapes.simple(call.view, one))


def _wanted(call: Call, pull: Pull) -> bool:
    """As on GitHub, a `head` without `owner:` is not a filter at all."""
    head, base = call.query("head"), call.query("base")
    state = call.query("state", "open")
    by_head = ":" not in head or pull.head_label.lower() == head.lower()
    return by_head and base in ("", pull.base_ref) and state in ("all", pull.state)


@route("POST", _PULLS, "pull_requests:write")
def create_pull(call: Call) -> Any:
    if "title" not in call.body:
        missing = {"resource": "PullRequest", "code": "missing_field", "field": "title"}
        raise validation_failed(missing)
    wanted = acts.Proposal(
        title=call.text("title"),
        head=call.text("head"),
        base=call.text("base"),
        body=call.text_or_none("body"),
        draft=call.flag("draft"),
        maintainer_can_modify=call.flag("maintainer_can_modify", True),
    )
    pull = acts.open_pull(call.repo, call.actor, wanted, via_app=call.via_app)
    return created(shapes.full(call.view, pull, fresh=True))


@route("GET", _PULL, "pull_requests:read")
def get_pull(call: Call) -> Any:
    """Return the pull request, or with the diff media type its diff."""
    pull = call.pull()
    accept = call.request.headers.get("Accept", "")
    if "diff" in accept:
        text = diff_text(pull.repo.git, fork_point(pull), pull.head_sha)
        return Answer(
            200, text.encode(), {"Content-Type": "application/vnd.github.diff; charset=utf-8"}
        )
    return shapes.full(call.view, pull)


@route("PATCH", _PULL, "pull_requests:write")
def update_pull(call: Call) -> Any:
    pull = call.pull()
    state = call.choice("state", _STATES)
    body = (call.text_or_none("body") or "") if "body" in call.body else None
    acts.edit_pull(pull, call.actor, title=call.text_or_none("title"), body=body)
    base = call.text_or_none("base")
    if base is not None and base != pull.base_ref:
        acts.change_base(pull, call.actor, base)
    if state is not None:
        acts.set_pull_state(pull, call.actor, state)
    return shapes.full(call.view, pull)


@route("GET", _PULL + "/files", "pull_requests:read")
def list_files(call: Call) -> Any:
    pull = call.pull()
    files = diff_files(pull)
    sha = pull.head_sha
    return page(call, files, lambda one: gitdata.diff_entry(call.view, call.repo, sha, one))


@route("GET", _PULL + "/commits", "pull_requests:read")
def list_commits(call: Call) -> Any:
    commits = pull_commits(call.pull())
    return page(call, commits, lambda one: gitdata.commit(call.view, call.repo, one))


@route("PUT", _PULL + "/merge", "contents:write")
def merge(call: Call) -> Any:
    pull = call.pull()
    method = call.choice("merge_method", ("merge", "squash", "rebase")) or "merge"
    if method != "merge":
        raise ApiError(405, f"{method.capitalize()} merges are not allowed on this repository.")
    title, message = call.text_or_none("commit_title"), call.text_or_none("commit_message")
    text = "\n\n".join(part for part in (title, message) if part)
    sha = acts.merge_pull(pull, call.actor, sha=call.text_or_none("sha"), message=text)
    return {"sha": sha, "merged": True, "message": "Pull Request successfully merged"}


@route("GET", _PULL + "/requested_reviewers", "pull_requests:read")
def list_reviewers(call: Call) -> Any:
    pull = call.pull()
    users = [accounts.user(call.view, one) for one in pull.requested_reviewers]
    return {"users": users, "teams": [teams.team(call.view, one) for one in pull.requested_teams]}


@route("POST", _PULL + "/requested_reviewers", "pull_requests:write")
def request_reviewers(call: Call) -> Any:
    pull = call.pull()
    acts.request_reviewers(pull, call.actor, _reviewers(call), _teams(call))
    return created(shapes.simple(call.view, pull))


@route("DELETE", _PULL + "/requested_reviewers", "pull_requests:write")
def remove_reviewers(call: Call) -> Any:
    pull = call.pull()
    if "reviewers" not in call.body:
        raise invalid_request('"reviewers" wasn\'t supplied.')
    acts.withdraw_reviewers(pull, call.actor, _reviewers(call), _teams(call))
    return shapes.simple(call.view, pull)


def _reviewers(call: Call) -> list[User]:
    """ApiError 422 for an unknown login, as for anybody who is no collaborator."""
    found = [call.world.find_user(login) for login in call.texts("reviewers")]
    if None in found:
        raise ApiError(
            422,
            "Reviews may only be requested from collaborators. One or more of the users or teams "
            f"you specified is not a collaborator of the {call.repo.full_name} repository.",
        )
    return [user for user in found if user is not None]


def _teams(call: Call) -> list[Team]:
    """ApiError 422 for a team that is not there, and where the token shows no teams.

    An App that may not read members gets the words that its own validation fails with:
    https://github.com/github/docs/issues/35057
    """
    slugs = call.texts("team_reviewers")
    found = [find_team(call.world, call.repo.owner, slug) for slug in slugs]
    if None in found:
        raise acts.no_collaborating_team(call.repo)
    known = [team for team in found if team is not None]
    if known and call.principal.installation is not None and not call.principal.reads_members:
        node = node_id("T", known[0].id)
        raise validation_failed(f"Could not resolve to a node with the global id of '{node}'.")
    return known
