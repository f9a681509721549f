"""Repositories in JSON."""

from __future__ import annotations

from demo.github.clock import stamp
from demo.github.records import Repo
from demo.github.shapes import accounts
from demo.github.shapes.view import Json, View, node_id

# Path templates, in the order that GitHub writes them: key (less `_url`) → path after the repo's.
_LINKS = {
    "archive": "/{archive_format}{/ref}",
    "assignees": "/assignees{/user}",
    "blobs": "/git/blobs{/sha}",
    "branches": "/branches{/branch}",
    "collaborators": "/collaborators{/collaborator}",
    "comments": "/comments{/number}",
    "commits": "/commits{/sha}",
    "compare": "/compare/{base}...{head}",
    "contents": "/contents/{+path}",
    "contributors": "/contributors",
    "deployments": "/deployments",
    "downloads": "/downloads",
    "events": "/events",
    "forks": "/forks",
    "git_commits": "/git/commits{/sha}",
    "git_refs": "/git/refs{/sha}",
    "git_tags": "/git/tags{/sha}",
    "hooks": "/hooks",
    "issue_comment": "/issues/comments{/number}",
    "issue_events": "/issues/events{/number}",
    "issues": "/issues{/number}",
    "keys": "/keys{/key_id}",
    "labels": "/labels{/name}",
    "languages": "/languages",
    "merges": "/merges",
    "milestones": "/milestones{/number}",
    "notifications": "/notifications{?since,all,participating}",
    "pulls": "/pulls{/number}",
    "releases": "/releases{/id}",
    "stargazers": "/stargazers",
    "statuses": "/statuses/{sha}",
    "subscribers": "/subscribers",
    "subscription": "/subscription",
    "tags": "/tags",
    "teams": "/teams",
    "trees": "/git/trees{/sha}",
}


def minimal(view: View, repo: Repo) -> Json:
    """Return the repository as webhooks of installations name it."""
    return {
        "id": repo.id,
        "node_id": node_id("R", repo.id),
        "name": repo.name,
        "full_name": repo.full_name,
        "private": repo.private,
    }


def repository(view: View, repo: Repo) -> Json:
    """Return GitHub's `repository`."""
    return {
        **minimal(view, repo),
        "owner": accounts.user(view, repo.owner),
        "html_url": view.repo_web(repo),
        "description": repo.description,
        "fork": repo.fork_of is not None,
        "url": view.repo_api(repo),
        **{f"{key}_url": view.repo_api(repo, path) for key, path in _LINKS.items()},
        **_clone_urls(view, repo),
        **_figures(repo),
        "created_at": stamp(repo.created_at),
        "updated_at": stamp(repo.pushed_at),
        "pushed_at": stamp(repo.pushed_at),
    }


def _clone_urls(view: View, repo: Repo) -> Json:
    return {
        "git_url": view.repo_web(repo, ".git").replace("http://", "git://", 1),
        "ssh_url": f"git@localhost:{repo.full_name}.git",
        "clone_url": view.repo_web(repo, ".git"),
        "svn_url": view.repo_web(repo),
        "mirror_url": None,
        "homepage": None,
    }


def _figures(repo: Repo) -> Json:
    open_issues = sum(1 for issue in repo.issues_by_number.values() if issue.state == "open")
    return {
        "size": 0,
        "stargazers_count": 0,
        "watchers_count": 0,
        "language": None,
        "has_issues": repo.has_issues,
        "has_projects": False,
        "has_downloads": True,
        "has_wiki": False,
        "has_pages": False,
        "has_discussions": False,
        "forks_count": 0,
        "archived": repo.archived,
        "disabled": False,
        "open_issues_count": open_issues,
        "license": None,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "custom_properties": {},
        "visibility": "private" if repo.private else "public",
        "forks": 0,
        "open_issues": open_issues,
        "watchers": 0,
        "default_branch": repo.default_branch,
    }


def full(view: View, repo: Repo) -> Json:
    """Return GitHub's `full-repository`, as `GET /repos/{owner}/{repo}` gives it."""
    shape = {**repository(view, repo), "subscribers_count": 0, "network_count": 0}
    if repo.owner.kind == "Organization":
        shape["organization"] = accounts.user(view, repo.owner)
    if repo.fork_of is not None:
        shape["parent"] = shape["source"] = repository(view, repo.fork_of)
    return shape
