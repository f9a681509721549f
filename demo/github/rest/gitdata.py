"""Git's own objects: refs, commits, trees, blobs."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from demo.github.acts.issues import require_writable
from demo.github.acts.pushes import identity_of, refs_changed
from demo.github.clock import seconds_from
from demo.github.errors import ApiError, invalid_request, not_found
from demo.github.git import Identity
from demo.github.records import Repo
from demo.github.rest.call import Call
from demo.github.rest.paging import page
from demo.github.rest.routing import Answer, created, no_content, route
from demo.github.shapes import gitdata as shapes
from demo.github.signing import sign_commit, web_flow

_GIT = "/repos/{owner}/{repo}/git"
_SHA = re.compile(r"[0-9a-f]{40}")
_MODES = ("100644", "100755", "040000", "160000", "120000")


def _not_empty(repo: Repo) -> None:
    if not repo.git.heads():
        raise ApiError(409, "Git Repository is empty.")


def _full(name: str) -> str:
    return f"refs/{name.removeprefix('refs/')}"


def _ref_shape(call: Call, ref: str, sha: str) -> Any:
    kind = call.repo.git.object_type(sha) or "commit"
    return shapes.ref(call.view, call.repo, ref, sha, kind)


@route("GET", _GIT + "/ref/{ref}", "contents:read")
def get_ref(call: Call) -> Any:
    _not_empty(call.repo)
    ref = _full(call.args["ref"])
    sha = call.repo.git.refs(ref).get(ref)
    if sha is None:
        raise not_found()
    return _ref_shape(call, ref, sha)


@route("GET", _GIT + "/matching-refs/{ref}", "contents:read")
def list_matching_refs(call: Call) -> Any:
    _not_empty(call.repo)
    start = _full(call.args["ref"])
    found = [pair for pair in call.repo.git.refs().items() if pair[0].startswith(start)]
    return page(call, found, lambda pair: _ref_shape(call, *pair))


@route("POST", _GIT + "/refs", "contents:write")
def create_ref(call: Call) -> Any:
    require_writable(call.repo)
    ref, sha = call.text("ref"), call.text("sha")
    if not ref.startswith("refs/") or ref.count("/") < 2:
        raise ApiError(422, f"Reference name must start with 'refs/': {ref}")
    _check_object(call.repo, sha)
    if not call.repo.git.valid_ref(ref) or _conflicts(call.repo, ref):
        raise ApiError(422, f"Reference cannot be created: {ref} is not a valid ref name.")
    if ref in call.repo.git.refs():
        raise ApiError(422, "Reference already exists")
    _move(call, ref, sha)
    return created(_ref_shape(call, ref, sha))


def _conflicts(repo: Repo, ref: str) -> bool:
    """A ref cannot be both a file and a folder: `a` and `a/b` exclude each other."""
    others = repo.git.refs()
    return any(one.startswith(f"{ref}/") or ref.startswith(f"{one}/") for one in others)


def _check_object(repo: Repo, sha: str) -> None:
    if not _SHA.fullmatch(sha):
        raise ApiError(
            422, "The sha parameter must be exactly 40 characters and contain only [0-9a-f]."
        )
    if repo.git.commit_sha(sha) is None:
        raise ApiError(422, "Object does not exist")


@route("PATCH", _GIT + "/refs/{ref}", "contents:write")
def update_ref(call: Call) -> Any:
    require_writable(call.repo)
    ref, sha = _full(call.args["ref"]), call.text("sha")
    old = call.repo.git.refs(ref).get(ref)
    if old is None:
        raise ApiError(422, "Reference does not exist")
    _check_object(call.repo, sha)
    _check_unprotected(call.repo, ref)
    if not call.flag("force") and not call.repo.git.is_ancestor(old, sha):
        raise ApiError(422, "Update is not a fast forward")
    _move(call, ref, sha)
    return _ref_shape(call, ref, sha)


@route("DELETE", _GIT + "/refs/{ref}", "contents:write")
def delete_ref(call: Call) -> Any:
    require_writable(call.repo)
    ref = _full(call.args["ref"])
    if ref not in call.repo.git.refs(ref):
        raise ApiError(422, "Reference does not exist")
    _check_unprotected(call.repo, ref)
    _move(call, ref, None)
    return no_content()


def _check_unprotected(repo: Repo, ref: str) -> None:
    if ref.removeprefix("refs/heads/") in repo.protected_branches:
        raise ApiError(422, "Protected branch update failed", errors=[f"Cannot change {ref}."])


def _move(call: Call, ref: str, sha: str | None) -> None:
    _check_workflows(call, ref, sha)
    git = call.repo.git
    before = git.refs()
    if sha is None:
        git.delete_ref(ref)
    else:
        git.update_ref(ref, sha)
    refs_changed(call.repo, call.actor, before, git.refs())


def _check_workflows(call: Call, ref: str, sha: str | None) -> None:
    """Apps may not bring new workflow files in without the `workflows` permission."""
    if sha is None or call.principal.holds(call.repo, "workflows", "write"):
        return
    if call.repo.git.run("log", "--format=%H", sha, "--not", "--all", "--", ".github/workflows"):
        raise ApiError(403, "Resource not accessible by integration")


@route("GET", _GIT + "/commits/{commit_sha}", "contents:read")
def get_commit(call: Call) -> Any:
    _not_empty(call.repo)
    sha = call.args["commit_sha"]
    if not _SHA.fullmatch(sha) or call.repo.git.object_type(sha) != "commit":
        raise not_found()
    return shapes.git_commit(call.view, call.repo, call.repo.git.commit(sha))


@route("POST", _GIT + "/commits", "contents:write")
def create_commit(call: Call) -> Any:
    require_writable(call.repo)
    git = call.repo.git
    tree, parents = call.text("tree"), call.texts("parents")
    if not _SHA.fullmatch(tree) or git.tree_sha(tree) is None:
        raise ApiError(422, "Tree SHA does not exist")
    if any(not _SHA.fullmatch(parent) or git.commit_sha(parent) is None for parent in parents):
        raise ApiError(422, "Parent SHA does not exist or is not a commit object")
    own = identity_of(call.actor, call.world.now())
    if call.via_app is not None and not call.body.keys() & {"author", "committer", "signature"}:
        sha = _commit_signed(call, tree, parents, Identity(call.actor.login, own.email, own.at))
        return created(shapes.git_commit(call.view, call.repo, git.commit(sha)))
    author = _identity(call, "author", own)
    committer = _identity(call, "committer", author if "author" in call.body else own)
    sha = git.commit_tree(tree, parents, call.text("message"), author, committer)
    return created(shapes.git_commit(call.view, call.repo, git.commit(sha)))


def _commit_signed(call: Call, tree: str, parents: list[str], author: Identity) -> str:
    """Commits of an App's that say of nobody that he made them are made, and signed, by GitHub."""
    world, git = call.world, call.repo.git
    committer = identity_of(web_flow(world), author.at)
    plain = git.commit_tree(tree, parents, call.text("message"), author, committer)
    if not world.signs_commits:
        return plain
    sha, signed = sign_commit(git, plain, world.now())
    world.signed[sha] = signed
    return sha


def _identity(call: Call, name: str, default: Identity) -> Identity:
    given = call.body.get(name)
    if given is None:
        return default
    if not isinstance(given, dict):
        raise invalid_request(f"For 'properties/{name}', the value is not an object.")
    at = int(seconds_from(given["date"])) if "date" in given else default.at
    return Identity(given.get("name", default.name), given.get("email", default.email), at)


@route("GET", _GIT + "/trees/{tree_sha}", "contents:read")
def get_tree(call: Call) -> Any:
    _not_empty(call.repo)
    sha = call.repo.git.tree_sha(call.args["tree_sha"])
    if sha is None:
        raise not_found()
    entries = call.repo.git.ls_tree(sha, recursive=bool(call.query("recursive")))
    return shapes.tree(call.view, call.repo, sha, entries)


@route("POST", _GIT + "/trees", "contents:write")
def create_tree(call: Call) -> Any:
    require_writable(call.repo)
    entries = call.body.get("tree")
    if not isinstance(entries, list) or not entries:
        raise invalid_request('"tree" wasn\'t supplied.')
    base = call.text_or_none("base_tree")
    if base is not None and call.repo.git.tree_sha(base) is None:
        raise ApiError(422, "base_tree is not a valid tree oid")
    changes = [_tree_change(call.repo, entry) for entry in entries]
    sha = call.repo.git.write_tree(base, changes)
    return created(shapes.tree(call.view, call.repo, sha, call.repo.git.ls_tree(sha)))


def _tree_change(repo: Repo, entry: Any) -> tuple[str, str | None, str]:
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise invalid_request("tree.path wasn't supplied.")
    path, mode = entry["path"], entry.get("mode")
    if mode not in _MODES:
        raise ApiError(422, "Must supply a valid tree.mode")
    if path.startswith("/") or ".." in path.split("/") or ".git" in path.lower().split("/"):
        raise ApiError(422, "tree.path contains a malformed path component")
    if "content" in entry:
        return mode, repo.git.write_blob(str(entry["content"]).encode()), path
    sha = entry.get("sha")
    if sha is not None and mode != "160000" and repo.git.object_type(str(sha)) is None:
        raise ApiError(422, f"tree.sha {sha} is not a valid blob")
    return mode, sha, path


@route("GET", _GIT + "/blobs/{file_sha}", "contents:read")
def get_blob(call: Call) -> Any:
    _not_empty(call.repo)
    sha = call.args["file_sha"]
    if not _SHA.fullmatch(sha) or call.repo.git.object_type(sha) != "blob":
        raise not_found()
    data = call.repo.git.read_blob(sha)
    if "raw" in call.request.headers.get("Accept", ""):
        return Answer(200, data, {"Content-Type": "application/vnd.github.raw"})
    return shapes.blob(call.view, call.repo, sha, data)


@route("POST", _GIT + "/blobs", "contents:write")
def create_blob(call: Call) -> Any:
    require_writable(call.repo)
    encoding = call.choice("encoding", ("utf-8", "base64")) or "utf-8"
    content = call.text("content")
    try:
        data = (
            base64.b64decode(content, validate=False) if encoding == "base64" else content.encode()
        )
    except binascii.Error:
        raise ApiError(422, "content is not valid Base64") from None
    sha = call.repo.git.write_blob(data)
    url = call.view.repo_api(call.repo, f"/git/blobs/{sha}")
    return created({"sha": sha, "url": url})
