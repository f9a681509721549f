"""Issues, comments, labels and reactions in JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from demo.github.clock import stamp, stamp_or_none
from demo.github.records import REACTIONS, Comment, Issue, Label, Pull, Reaction, Repo, User
from demo.github.shapes import accounts, apps
from demo.github.shapes.view import Json, View, node_id


def label(view: View, repo: Repo, record: Label) -> Json:
    return {
        "id": record.id,
        "node_id": node_id("LA", record.id),
        "url": view.repo_api(repo, f"/labels/{quote(record.name, safe='')}"),
        "name": record.name,
        "color": record.color,
        "default": record.default,
        "description": record.description,
    }


def reaction(view: View, record: Reaction) -> Json:
    return {
        "id": record.id,
        "node_id": node_id("REA", record.id),
        "user": accounts.user_or_null(view, record.user),
        "content": record.content,
        "created_at": stamp(record.created_at),
    }


def rollup(url: str, reactions: Sequence[Reaction]) -> Json:
    counts = Counter(record.content for record in reactions)
    return {
        "url": url,
        "total_count": len(reactions),
        **{content: counts[content] for content in REACTIONS},
    }


def association(repo: Repo, author: User) -> str:
    """Return how an author stands to a repository: its `author_association`."""
    if author is repo.owner:
        return "OWNER"
    role = repo.collaborators.get(author.login.lower(), "none")
    if role == "none":
        authors = {pull.author for pull in repo.pulls if pull.merged_at}
        return "CONTRIBUTOR" if author in authors else "NONE"
    return "MEMBER" if repo.owner.kind == "Organization" and role == "admin" else "COLLABORATOR"


def page(view: View, record: Issue) -> str:
    kind = "pull" if isinstance(record, Pull) else "issues"
    return view.repo_web(record.repo, f"/{kind}/{record.number}")


def issue(view: View, record: Issue) -> Json:
    """Return GitHub's `issue`; a pull request has a `pull_request` member in it."""
    repo = record.repo
    api = view.repo_api(repo, f"/issues/{record.number}")
    assignees = [accounts.user(view, one) for one in record.assignees]
    shape: Json = {
        "url": api,
        "repository_url": view.repo_api(repo),
        "labels_url": f"{api}/labels{{/name}}",
        "comments_url": f"{api}/comments",
        "events_url": f"{api}/events",
        "html_url": page(view, record),
        "id": record.id,
        "node_id": node_id("I", record.id),
        "number": record.number,
        "title": record.title,
        "user": accounts.user_or_null(view, record.author),
        "labels": [label(view, repo, one) for one in record.labels],
        "state": record.state,
        "locked": record.locked,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "comments": len(record.comments),
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
        "closed_at": stamp_or_none(record.closed_at),
        "author_association": association(repo, record.author),
        "active_lock_reason": record.lock_reason,
        "body": record.body,
        "reactions": rollup(f"{api}/reactions", record.reactions),
        "timeline_url": f"{api}/timeline",
        "performed_via_github_app": apps.app(view, record.via_app) if record.via_app else None,
        "state_reason": record.state_reason,
    }
    if isinstance(record, Pull):
        shape["draft"] = record.draft
        shape["pull_request"] = _pull_links(view, record)
    return shape


def issue_with_closer(view: View, record: Issue) -> Json:
    """Return the issue as a single read gives it: with who closed it."""
    return {**issue(view, record), "closed_by": accounts.user_or_null(view, record.closed_by)}


def _pull_links(view: View, record: Pull) -> Json:
    html = page(view, record)
    return {
        "url": view.repo_api(record.repo, f"/pulls/{record.number}"),
        "html_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "merged_at": stamp_or_none(record.merged_at),
    }


def comment(view: View, record: Comment) -> Json:
    """Return GitHub's `issue-comment`."""
    repo = record.issue.repo
    api = view.repo_api(repo, f"/issues/comments/{record.id}")
    return {
        "url": api,
        "html_url": f"{page(view, record.issue)}#issuecomment-{record.id}",
        "issue_url": view.repo_api(repo, f"/issues/{record.issue.number}"),
        "id": record.id,
        "node_id": node_id("IC", record.id),
        "user": accounts.user_or_null(view, record.author),
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
        "author_association": association(repo, record.author),
        "body": record.body,
        "reactions": rollup(f"{api}/reactions", record.reactions),
        "performed_via_github_app": apps.app(view, record.via_app) if record.via_app else None,
    }
