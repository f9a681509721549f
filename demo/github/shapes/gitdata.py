"""Commits, trees, refs and diffs in JSON."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from urllib.parse import quote

from demo.github.clock import stamp
from demo.github.diffs import DiffFile
from demo.github.git import Commit, Identity, TreeEntry
from demo.github.records import Repo, User
from demo.github.shapes import accounts
from demo.github.shapes.view import Json, View, node_id

_UNSIGNED: Json = {
    "verified": False,
    "reason": "unsigned",
    "signature": None,
    "payload": None,
    "verified_at": None,
}
_MODES = {"tree": "dir", "blob": "file", "commit": "submodule"}


def identity(who: Identity) -> Json:
    return {"name": who.name, "email": who.email, "date": stamp(who.at)}


def commit(view: View, repo: Repo, record: Commit) -> Json:
    """Return GitHub's `commit`, without files."""
    api = view.repo_api(repo, f"/commits/{record.sha}")
    return {
        "sha": record.sha,
        "node_id": node_id("C", repo.id) + record.sha[:8],
        "commit": {
            "author": identity(record.author),
            "committer": identity(record.committer),
            "message": record.message,
            "tree": _tree_link(view, repo, record.tree),
            "url": view.repo_api(repo, f"/git/commits/{record.sha}"),
            "comment_count": 0,
            "verification": verification(view, record),
        },
        "url": api,
        "html_url": view.repo_web(repo, f"/commit/{record.sha}"),
        "comments_url": f"{api}/comments",
        "author": _account(view, record.author),
        "committer": _account(view, record.committer),
        "parents": [_parent(view, repo, sha, "commits") for sha in record.parents],
    }


def verification(view: View, record: Commit) -> Json:
    """Return whether GitHub vouches for a commit: only for those that it signed itself."""
    signed = view.world.signed.get(record.sha)
    if signed is None:
        return _UNSIGNED
    return {
        "verified": True,
        "reason": "valid",
        "signature": signed.signature,
        "payload": signed.payload,
        "verified_at": stamp(signed.at),
    }


def _account(view: View, who: Identity) -> Json | None:
    """Return the account that a commit's address belongs to."""
    return accounts.user_or_null(view, account_of(view, who))


def account_of(view: View, who: Identity) -> User | None:
    """Find an account by its own address or by GitHub's `ID+LOGIN@users.noreply…` form."""
    login = who.email.split("@")[0].split("+")[-1] if "@users.noreply." in who.email else None
    everyone = tuple(view.world.users.values())
    return next((user for user in everyone if user.email == who.email or user.login == login), None)


def _parent(view: View, repo: Repo, sha: str, kind: str) -> Json:
    return {
        "sha": sha,
        "url": view.repo_api(repo, f"/{kind}/{sha}"),
        "html_url": view.repo_web(repo, f"/commit/{sha}"),
    }


def _tree_link(view: View, repo: Repo, sha: str) -> Json:
    return {"sha": sha, "url": view.repo_api(repo, f"/git/trees/{sha}")}


def git_commit(view: View, repo: Repo, record: Commit) -> Json:
    """Return GitHub's `git-commit`: the object alone."""
    return {
        "sha": record.sha,
        "node_id": node_id("C", repo.id) + record.sha[:8],
        "url": view.repo_api(repo, f"/git/commits/{record.sha}"),
        "html_url": view.repo_web(repo, f"/commit/{record.sha}"),
        "author": identity(record.author),
        "committer": identity(record.committer),
        "tree": _tree_link(view, repo, record.tree),
        "message": record.message,
        "parents": [_parent(view, repo, sha, "git/commits") for sha in record.parents],
        "verification": verification(view, record),
    }


def simple_commit(record: Commit) -> Json:
    """Return a check suite's `head_commit`."""
    return {
        "id": record.sha,
        "tree_id": record.tree,
        "message": record.message,
        "timestamp": _offset_time(record.committer),
        "author": {"name": record.author.name, "email": record.author.email},
        "committer": {"name": record.committer.name, "email": record.committer.email},
    }


def pushed_commit(view: View, repo: Repo, record: Commit, files: tuple[DiffFile, ...]) -> Json:
    """Return a commit as the `push` event has it."""
    paths = {
        kind: [f.path for f in files if f.status in kinds] for kind, kinds in _PUSH_KINDS.items()
    }
    return {
        **simple_commit(record),
        "distinct": True,
        "url": view.repo_web(repo, f"/commit/{record.sha}"),
        "author": _pusher(view, record.author),
        "committer": _pusher(view, record.committer),
        **paths,
    }


_PUSH_KINDS = {
    "added": ("added", "copied"),
    "removed": ("removed",),
    "modified": ("modified", "renamed", "changed"),
}


def _pusher(view: View, who: Identity) -> Json:
    shape: Json = {"name": who.name, "email": who.email}
    account = account_of(view, who)
    return {**shape, "username": account.login} if account else shape


def _offset_time(who: Identity) -> str:
    return datetime.fromtimestamp(who.at, UTC).isoformat(timespec="seconds")


def diff_entry(view: View, repo: Repo, sha: str, file: DiffFile) -> Json:
    """Return GitHub's `diff-entry`; a binary file has no `patch`."""
    path = quote(file.path)
    shape: Json = {
        "sha": file.sha,
        "filename": file.path,
        "status": file.status,
        "additions": file.additions,
        "deletions": file.deletions,
        "changes": file.additions + file.deletions,
        "blob_url": view.repo_web(repo, f"/blob/{sha}/{path}"),
        "raw_url": view.repo_web(repo, f"/raw/{sha}/{path}"),
        "contents_url": view.repo_api(repo, f"/contents/{path}?ref={sha}"),
    }
    if file.patch is not None:
        shape["patch"] = file.patch
    if file.status == "renamed" and file.old_path:
        shape["previous_filename"] = file.old_path
    return shape


def ref(view: View, repo: Repo, name: str, sha: str, kind: str = "commit") -> Json:
    """Return GitHub's `git-ref` of a full ref name."""
    kinds = f"{kind}s"
    return {
        "ref": name,
        "node_id": node_id("REF", repo.id) + name,
        "url": view.repo_api(repo, f"/git/{name}"),
        "object": {
            "type": kind,
            "sha": sha,
            "url": view.repo_api(repo, f"/git/{kinds}/{sha}"),
        },
    }


def tree(view: View, repo: Repo, sha: str, entries: list[TreeEntry]) -> Json:
    return {**_tree_link(view, repo, sha), "tree": [_tree_entry(view, repo, e) for e in entries],
            "truncated": False}  # fmt: skip


def _tree_entry(view: View, repo: Repo, entry: TreeEntry) -> Json:
    shape: Json = {
        "path": entry.path,
        "mode": entry.mode,
        "type": entry.kind,
        "sha": entry.sha,
    }
    if entry.size is not None:
        shape["size"] = entry.size
    if entry.kind != "commit":
        shape["url"] = view.repo_api(repo, f"/git/{entry.kind}s/{entry.sha}")
    return shape


def blob(view: View, repo: Repo, sha: str, data: bytes) -> Json:
    return {
        "sha": sha,
        "node_id": node_id("B", repo.id) + sha[:8],
        "size": len(data),
        "url": view.repo_api(repo, f"/git/blobs/{sha}"),
        "content": base64.encodebytes(data).decode(),
        "encoding": "base64",
    }


def branch(view: View, repo: Repo, name: str, sha: str) -> Json:
    """Return GitHub's `short-branch`."""
    return {
        "name": name,
        "commit": {"sha": sha, "url": view.repo_api(repo, f"/commits/{sha}")},
        "protected": name in repo.protected_branches,
    }


def branch_with_commit(view: View, repo: Repo, name: str, record: Commit) -> Json:
    """Return GitHub's `branch-with-protection`."""
    api = view.repo_api(repo, f"/branches/{name}")
    protected = name in repo.protected_branches
    return {
        **branch(view, repo, name, record.sha),
        "commit": commit(view, repo, record),
        "_links": {"self": api, "html": view.repo_web(repo, f"/tree/{name}")},
        "protection": {"enabled": protected},
        "protection_url": f"{api}/protection",
    }


def content_entry(view: View, repo: Repo, ref: str, entry: TreeEntry, path: str) -> Json:
    """Return a `content-file` or an entry of a directory, without the content itself."""
    api = view.repo_api(repo, f"/contents/{quote(path)}?ref={quote(ref, safe='')}")
    git = view.repo_api(repo, f"/git/{'trees' if entry.kind == 'tree' else 'blobs'}/{entry.sha}")
    html = view.repo_web(repo, f"/{'tree' if entry.kind == 'tree' else 'blob'}/{ref}/{quote(path)}")
    kind = "symlink" if entry.mode == "120000" else _MODES[entry.kind]
    raw = view.repo_web(repo, f"/raw/{ref}/{quote(path)}") if kind == "file" else None
    return {
        "name": path.rsplit("/", 1)[-1],
        "path": path,
        "sha": entry.sha,
        "size": entry.size or 0,
        "url": api,
        "html_url": html,
        "git_url": git,
        "download_url": raw,
        "type": kind,
        "_links": {"self": api, "git": git, "html": html},
    }
