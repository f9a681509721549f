"""Git's objects and refs through the REST API, for commits that GitHub itself is to sign.

GitHub signs a commit of an App's only if the request names neither author, committer nor
signature. Objects may be made twice: they are found by their content, and a commit that nothing
refers to is nobody's. A ref is looked for before it is made a second time.

https://docs.github.com/en/rest/git
https://docs.github.com/en/authentication/managing-commit-signature-verification/about-commit-signature-verification#signature-verification-for-bots
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from app.github.errors import Invalid, NotFound
from app.github.transport import StrictRequester

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TreeChange:
    """One path of a tree to be made: `content` is new text, else `sha` names what is there.

    Without either the path is taken away; `mode` is then that of what was there.
    """

    path: str
    mode: str
    sha: str | None = None
    content: str | None = None


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit object. `verified` says that GitHub vouches for its signature, `reason` why not."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    message: str
    verified: bool
    reason: str


class Ask(Protocol):
    """Ask again while GitHub is away."""

    def __call__(self, ask: Callable[[], T], /) -> T: ...


class Ensure(Protocol):
    """Create what is not found; look again before it is created a second time."""

    def __call__(self, look: Callable[[], T | None], create: Callable[[], T]) -> T: ...


class GitObjects:
    """The Git database of one repository. Every call may raise any of `app.github.errors`."""

    def __init__(self, talk: StrictRequester, repo_path: str, ask: Ask, ensure: Ensure) -> None:
        self._talk = talk
        self._path = f"{repo_path}/git"
        self._ask = ask
        self._ensure = ensure

    def ref_sha(self, ref: str) -> str | None:
        """Return what a full ref name points to; None when there is no such ref."""
        path = f"{self._path}/ref/{quote(ref.removeprefix('refs/'))}"
        try:
            return self._ask(lambda: _target(self._send("GET", path)))
        except NotFound:
            return None

    def create_ref(self, ref: str, sha: str) -> str:
        """Make a ref, and return what it points to: something else if it was there already."""

        def create() -> str:
            return _target(self._post("refs", {"ref": ref, "sha": sha}))

        return self._ensure(look=lambda: self.ref_sha(ref), create=create)

    def update_ref(self, ref: str, sha: str) -> str:
        """Move a ref on to a commit that descends from where it is; Invalid when none does."""
        path = f"{self._path}/{quote(ref)}"
        wish = {"sha": sha, "force": False}
        return self._ask(lambda: _target(self._send("PATCH", path, wish)))

    def create_blob(self, data: bytes) -> str:
        """Bring a file's content in and return its sha. GitHub takes less than 40 MiB."""
        wish = {"content": base64.b64encode(data).decode("ascii"), "encoding": "base64"}
        return self._sha_of("blobs", wish)

    def create_tree(self, base: str | None, changes: Sequence[TreeChange]) -> str:
        """Make a tree from another one, or from nothing, and return its sha."""
        wish: dict[str, Any] = {"tree": [_entry(change) for change in changes]}
        if base is not None:
            wish["base_tree"] = base
        return self._sha_of("trees", wish)

    def create_commit(self, message: str, tree: str, parent: str) -> CommitInfo:
        """Make a commit of the App's own, which GitHub dates and signs."""
        wish = {"message": message, "tree": tree, "parents": [parent]}
        return self._ask(lambda: _commit(self._post("commits", wish)))

    def get_commit(self, sha: str) -> CommitInfo:
        path = f"{self._path}/commits/{quote(sha)}"
        return self._ask(lambda: _commit(self._send("GET", path)))

    def _sha_of(self, kind: str, wish: Mapping[str, Any]) -> str:
        return self._ask(lambda: str(self._post(kind, wish)["sha"]))

    def _post(self, kind: str, wish: Mapping[str, Any]) -> dict[str, Any]:
        return self._send("POST", f"{self._path}/{kind}", wish)

    def _send(self, verb: str, path: str, wish: Mapping[str, Any] | None = None) -> dict[str, Any]:
        _, answer = self._talk.requestJsonAndCheck(verb, path, input=wish)
        if not isinstance(answer, dict):
            raise Invalid((f"GitHub's answer to {verb} is not what was asked for",))
        return answer


def _entry(change: TreeChange) -> dict[str, Any]:
    kind = "commit" if change.mode == "160000" else "blob"
    entry: dict[str, Any] = {"path": change.path, "mode": change.mode, "type": kind}
    if change.content is not None:
        return {**entry, "content": change.content}
    return {**entry, "sha": change.sha}


def _target(answer: Mapping[str, Any]) -> str:
    return str(answer["object"]["sha"])


def _commit(answer: Mapping[str, Any]) -> CommitInfo:
    verification = answer.get("verification") or {}
    return CommitInfo(
        sha=str(answer["sha"]),
        tree=str(answer["tree"]["sha"]),
        parents=tuple(str(parent["sha"]) for parent in answer["parents"]),
        message=str(answer["message"]),
        verified=bool(verification.get("verified")),
        reason=str(verification.get("reason", "")),
    )
