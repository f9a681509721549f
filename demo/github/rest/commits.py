"""Commits, what is between them, and the pull requests they belong to."""

from __future__ import annotations

from typing import Any

from demo.github.diffs import diff, diff_text
from demo.github.errors import ApiError, not_found
from demo.github.git import EMPTY_TREE, Commit
from demo.github.records import Repo
from demo.github.rest.call import Call
from demo.github.rest.checks import commit_named
from demo.github.rest.paging import page
from demo.github.rest.routing import Answer, route
from demo.github.shapes import gitdata
from demo.github.shapes import pulls as pull_shapes


@route("GET", "/repos/{owner}/{repo}/commits", "contents:read")
def list_commits(call: Call) -> Any:
    """List a branch's history, newest first. 409 when the repository is empty."""
    if not call.repo.git.heads():
        raise ApiError(409, "Git Repository is empty.")
    sha = call.repo.git.commit_sha(call.query("sha") or call.repo.default_branch)
    if sha is None:
        raise not_found()
    history = call.repo.git.history(sha, call.query("path") or None)
    return page(call, history, lambda one: gitdata.commit(call.view, call.repo, one))


@route("GET", "/repos/{owner}/{repo}/commits/{ref}", "contents:read")
def get_commit(call: Call) -> Any:
    if not call.repo.git.heads():
        raise ApiError(409, "Git Repository is empty.")
    repo, commit = call.repo, call.repo.git.commit(commit_named(call))
    accept = call.request.headers.get("Accept", "")
    if "sha" in accept:
        return Answer(200, commit.sha.encode(), {"Content-Type": "application/vnd.github.sha"})
    files = diff(repo.git, _parent(commit), commit.sha)
    entries = [gitdata.diff_entry(call.view, repo, commit.sha, file) for file in files]
    additions, deletions = sum(f.additions for f in files), sum(f.deletions for f in files)
    return {
        **gitdata.commit(call.view, repo, commit),
        "stats": {"total": additions + deletions, "additions": additions, "deletions": deletions},
        "files": entries,
    }


def _parent(commit: Commit) -> str:
    return commit.parents[0] if commit.parents else EMPTY_TREE


@route("GET", "/repos/{owner}/{repo}/commits/{commit_sha}/pulls", "pull_requests:read")
def list_pulls_of_commit(call: Call) -> Any:
    git = call.repo.git
    sha = git.commit_sha(call.args["commit_sha"])
    if sha is None:
        raise ApiError(422, f"No commit found for SHA: {call.args['commit_sha']}")
    found = [
        pull
        for pull in call.repo.pulls
        if git.is_ancestor(sha, pull.head_sha) and not git.is_ancestor(sha, pull.base_sha)
    ]
    return page(call, found, lambda one: pull_shapes.simple(call.view, one))


@route("GET", "/repos/{owner}/{repo}/compare/{basehead}", "contents:read")
def compare(call: Call) -> Any:
    """Compare `base...head`; the files are those from where the two parted."""
    base, separator, head = call.args["basehead"].partition("...")
    shas = [_commit(call.repo, name) for name in (base, head)]
    if not separator:
        raise not_found()
    merge_base = call.repo.git.merge_base(*shas)
    if merge_base is None:
        raise ApiError(404, f"No common ancestor between {base} and {head}.")
    if "diff" in call.request.headers.get("Accept", ""):
        text = diff_text(call.repo.git, merge_base, shas[1])
        return Answer(200, text.encode(), {"Content-Type": "application/vnd.github.diff"})
    return _comparison(call, shas[0], shas[1], merge_base)


def _commit(repo: Repo, name: str) -> str:
    sha = repo.git.commit_sha(name.rsplit(":", 1)[-1])
    if sha is None:
        raise not_found()
    return sha


def _comparison(call: Call, base: str, head: str, merge_base: str) -> dict[str, Any]:
    repo, git, view = call.repo, call.repo.git, call.view
    commits = git.commits(base, head)
    behind = git.count(f"{head}..{base}")
    span = f"{base}...{head}"
    web = view.repo_web(repo, f"/compare/{span}")
    files = diff(git, merge_base, head)
    return {
        "url": view.repo_api(repo, f"/compare/{span}"),
        "html_url": web,
        "permalink_url": web,
        "diff_url": f"{web}.diff",
        "patch_url": f"{web}.patch",
        "base_commit": gitdata.commit(view, repo, git.commit(base)),
        "merge_base_commit": gitdata.commit(view, repo, git.commit(merge_base)),
        "status": _STATUS[(bool(commits), bool(behind))],
        "ahead_by": git.count(f"{base}..{head}"),
        "behind_by": behind,
        "total_commits": len(commits),
        "commits": [gitdata.commit(view, repo, commit) for commit in commits],
        "files": [gitdata.diff_entry(view, repo, head, file) for file in files[:300]],
    }


_STATUS = {
    (False, False): "identical",
    (True, False): "ahead",
    (False, True): "behind",
    (True, True): "diverged",
}
