"""Pull requests in JSON; head, base, mergeability and figures come from the repository itself."""

from __future__ import annotations

from demo.github.clock import stamp_or_none
from demo.github.pullfacts import diff_files, merge_state, pull_commits
from demo.github.records import Pull, Repo
from demo.github.shapes import accounts, issues, repos, teams
from demo.github.shapes.view import Json, View, node_id

_SHARED = (
    "number", "title", "state", "locked", "user", "body", "labels", "milestone",
    "active_lock_reason", "created_at", "updated_at", "closed_at", "assignee", "assignees",
    "author_association",
)  # fmt: skip


def simple(view: View, pull: Pull) -> Json:
    """Return GitHub's `pull-request-simple`, as lists of pull requests have it."""
    as_issue = issues.issue(view, pull)
    reviewers = [accounts.user(view, one) for one in pull.requested_reviewers]
    return {
        **_addresses(view, pull),
        "id": pull.pull_id,
        "node_id": node_id("PR", pull.pull_id),
        **{key: as_issue[key] for key in _SHARED},
        "merged_at": stamp_or_none(pull.merged_at),
        "merge_commit_sha": pull.merge_commit_sha,
        "requested_reviewers": reviewers,
        "requested_teams": [teams.team(view, one) for one in pull.requested_teams],
        "draft": pull.draft,
        "auto_merge": None,
        "head": _side(view, pull.head_repo, pull.head_label, pull.head_ref, pull.head_sha),
        "base": _side(
            view,
            pull.repo,
            f"{pull.repo.owner.login}:{pull.base_ref}",
            pull.base_ref,
            pull.base_sha,
        ),
        "_links": _links(view, pull),
    }


def full(view: View, pull: Pull, *, fresh: bool = False) -> Json:
    """Return GitHub's `pull-request`.

    With `fresh`, mergeability is not known yet (null), as in the answer that creates it.
    """
    files = diff_files(pull)
    mergeable, state = (None, "unknown") if fresh else merge_state(pull)
    return {
        **simple(view, pull),
        "merged": pull.merged_at is not None,
        "mergeable": mergeable,
        "rebaseable": mergeable,
        "mergeable_state": state,
        "merged_by": accounts.user_or_null(view, pull.merged_by),
        "comments": len(pull.comments),
        "review_comments": len(pull.review_comments),
        "maintainer_can_modify": pull.maintainer_can_modify,
        "commits": len(pull_commits(pull)),
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
        "changed_files": len(files),
    }


def minimal(view: View, pull: Pull) -> Json:
    """Return the pull request as check runs name it."""
    return {
        "url": view.repo_api(pull.repo, f"/pulls/{pull.number}"),
        "id": pull.pull_id,
        "number": pull.number,
        "head": _minimal_side(view, pull.head_repo or pull.repo, pull.head_ref, pull.head_sha),
        "base": _minimal_side(view, pull.repo, pull.base_ref, pull.base_sha),
    }


def _minimal_side(view: View, repo: Repo, ref: str, sha: str) -> Json:
    named = {"id": repo.id, "url": view.repo_api(repo), "name": repo.name}
    return {"ref": ref, "sha": sha, "repo": named}


def _side(view: View, repo: Repo | None, label: str, ref: str, sha: str) -> Json:
    return {
        "label": label,
        "ref": ref,
        "sha": sha,
        "user": accounts.user_or_null(view, repo.owner if repo else None),
        "repo": repos.repository(view, repo) if repo else None,
    }


def _addresses(view: View, pull: Pull) -> Json:
    api = view.repo_api(pull.repo, f"/pulls/{pull.number}")
    html = issues.page(view, pull)
    issue = view.repo_api(pull.repo, f"/issues/{pull.number}")
    return {
        "url": api,
        "html_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "issue_url": issue,
        "commits_url": f"{api}/commits",
        "review_comments_url": f"{api}/comments",
        "review_comment_url": view.repo_api(pull.repo, "/pulls/comments{/number}"),
        "comments_url": f"{issue}/comments",
        "statuses_url": view.repo_api(pull.repo, f"/statuses/{pull.head_sha}"),
    }


def _links(view: View, pull: Pull) -> Json:
    addresses = _addresses(view, pull)
    names = {
        "self": "url",
        "html": "html_url",
        "issue": "issue_url",
        "comments": "comments_url",
        "review_comments": "review_comments_url",
        "review_comment": "review_comment_url",
        "commits": "commits_url",
        "statuses": "statuses_url",
    }
    return {name: {"href": addresses[key]} for name, key in names.items()}
