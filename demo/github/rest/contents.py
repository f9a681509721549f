"""Files and directories at a ref."""

from __future__ import annotations

import base64
from typing import Any

from demo.github.errors import ApiError, not_found
from demo.github.git import TreeEntry
from demo.github.rest.call import Call
from demo.github.rest.routing import Answer, route
from demo.github.shapes import gitdata

_MAX_INLINE = 1024 * 1024


@route("GET", "/repos/{owner}/{repo}/contents/{path}", "contents:read")
def get_contents(call: Call) -> Any:
    """Return a file (content in base64 up to 1 MB, or raw), a symlink, or a directory's entries."""
    return _contents(call, call.args["path"].strip("/"))


@route("GET", "/repos/{owner}/{repo}/contents", "contents:read", documented=False)
@route("GET", "/repos/{owner}/{repo}/contents/", "contents:read", documented=False)
def get_root(call: Call) -> Any:
    return _contents(call, "")


def _contents(call: Call, path: str) -> Any:
    ref = call.query("ref") or call.repo.default_branch
    if not call.repo.git.heads():
        raise ApiError(404, "This repository is empty.")
    sha = call.repo.git.commit_sha(ref)
    if sha is None:
        raise ApiError(404, f"No commit found for the ref {ref}")
    entry = call.repo.git.entry(sha, path) if path else None
    if path and entry is None:
        raise not_found()
    if entry is None or entry.kind == "tree":
        return _directory(call, ref, entry.sha if entry else sha, path)
    return _file(call, ref, entry, path)


def _directory(call: Call, ref: str, tree: str, path: str) -> list[Any]:
    prefix = f"{path}/" if path else ""
    entries = call.repo.git.ls_tree(tree)
    return [
        gitdata.content_entry(call.view, call.repo, ref, entry, prefix + entry.path)
        for entry in entries
    ]


def _file(call: Call, ref: str, entry: TreeEntry, path: str) -> Any:
    shape = gitdata.content_entry(call.view, call.repo, ref, entry, path)
    if entry.kind == "commit":
        return {**shape, "submodule_git_url": None}
    data = call.repo.git.read_blob(entry.sha)
    if "raw" in call.request.headers.get("Accept", ""):
        return Answer(200, data, {"Content-Type": "application/vnd.github.raw; charset=utf-8"})
    if entry.mode == "120000":
        return {**shape, "target": data.decode("utf-8", "replace")}
    if len(data) > _MAX_INLINE:
        return {**shape, "content": "", "encoding": "none"}
    return {**shape, "content": base64.encodebytes(data).decode(), "encoding": "base64"}
