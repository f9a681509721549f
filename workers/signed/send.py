"""Our commits, made by GitHub itself: same trees, same order, same messages; GitHub signs them.

Every tree and commit that GitHub answers with is compared with ours, one ref is moved with the old
value expected and never forced, and what the server then holds is fetched and compared again. Only
the author, the dates and so the shas are GitHub's.

GitHub's API moves a ref on if that is a fast-forward; it compares no old value itself. The ref is
therefore looked at just before. If somebody sets it back in that moment, it is set forward again;
no commit of anybody's is lost by that.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.github.errors import Gone, Invalid, NotAllowed, NotFound
from app.github.objects import CommitInfo, GitObjects
from workers.git import Git, GitFailed, HttpAuth, printable
from workers.inspection import Passed
from workers.push import PUSH_TIMEOUT_S, Pushed, PushRejected, PushResult, PushTrouble
from workers.send import Send
from workers.signed.make import Unfit, make_commits
from workers.signed.read import OurCommit, read_commits

SIGNED_REF = "refs/drydock/signed"
_NAMES_TAKEN = ("not a valid ref name", "cannot be created")
_PROTECTED = ("protected branch", "rule violations", "gh006", "gh013", "archived")
_MOVED = ("fast forward", "already exists", "does not exist")


def by_github(git: Git, objects: GitObjects, url: str, auth: HttpAuth | None) -> Send:
    """Return the way that has GitHub make the commits. Errors: GitHubUnavailable, RateLimited."""

    def send(passed: Passed, ref: str, expected_old: str | None) -> PushResult:
        try:
            return _Sending(git, objects, passed).to(ref, expected_old, url, auth)
        except Unfit as error:
            return PushRejected(error.trouble, str(error))
        except (Invalid, NotAllowed, NotFound, Gone) as error:
            return name_refusal(error)

    return send


def name_refusal(error: Invalid | NotAllowed | NotFound | Gone) -> PushRejected:
    """Say what GitHub's refusal means. Pure."""
    detail, words = printable(str(error), 1_000), str(error).lower()
    if isinstance(error, NotAllowed):
        return PushRejected(PushTrouble.PERMISSION, detail)
    if not isinstance(error, Invalid):
        return PushRejected(PushTrouble.GONE, detail)
    meanings = (
        (PushTrouble.PROTECTED, _PROTECTED),
        (PushTrouble.REF_CONFLICT, _NAMES_TAKEN),
        (PushTrouble.MOVED, _MOVED),
    )
    for trouble, marks in meanings:
        if any(mark in words for mark in marks):
            return PushRejected(trouble, detail)
    return PushRejected(PushTrouble.REJECTED, detail)


class _Sending:
    """One try to bring one run's commits to one ref."""

    def __init__(self, git: Git, objects: GitObjects, passed: Passed) -> None:
        self._git = git
        self._objects = objects
        self._passed = passed

    def to(
        self, ref: str, expected_old: str | None, url: str, auth: HttpAuth | None
    ) -> Pushed | PushRejected:
        """Look first: an earlier try may have got this far, or further."""
        tip = self._objects.ref_sha(ref)
        if tip == self._passed.head_sha:
            return Pushed(ref, tip)
        ours = read_commits(
            self._git, self._passed.git_dir, [commit.sha for commit in self._passed.commits]
        )
        made = self._made_before(tip, ours) if tip is not None else None
        if made is None:
            if tip != expected_old:
                detail = f"{ref} is at {tip or 'nothing'}, not at {expected_old or 'nothing'}"
                return PushRejected(PushTrouble.MOVED, detail)
            made = make_commits(self._git, self._objects, self._passed.git_dir, ours)
            held = self._move(ref, made[-1].sha, expected_old)
            if held != made[-1].sha:
                return PushRejected(PushTrouble.MOVED, f"{ref} is at {held} now")
        return self._compare(ref, ours, made, url, auth)

    def _made_before(self, tip: str, ours: Sequence[OurCommit]) -> tuple[CommitInfo, ...] | None:
        """Return the commits under a ref if they are ours, made by an earlier try."""
        found: list[CommitInfo] = []
        sha = tip
        for commit in reversed(ours):
            there = self._objects.get_commit(sha)
            if not is_same(there, commit) or len(there.parents) != 1:
                return None
            found.append(there)
            sha = there.parents[0]
        return tuple(reversed(found)) if sha == ours[0].parent else None

    def _move(self, ref: str, sha: str, expected_old: str | None) -> str:
        if expected_old is None:
            return self._objects.create_ref(ref, sha)
        return self._objects.update_ref(ref, sha)

    def _compare(
        self,
        ref: str,
        ours: Sequence[OurCommit],
        made: Sequence[CommitInfo],
        url: str,
        auth: HttpAuth | None,
    ) -> Pushed | PushRejected:
        """Fetch what the server holds, and hold it against ours."""
        head = made[-1].sha
        try:
            self._fetch(url, auth, ref, len(made) + 1)
        except GitFailed as error:
            return PushRejected(PushTrouble.UNREACHABLE, error.stderr)
        held = self._resolve(SIGNED_REF)
        if held != head:
            return PushRejected(PushTrouble.MISMATCH, f"the server holds {held} under {ref}")
        for theirs, commit in zip(made, ours, strict=True):
            if self._resolve(f"{theirs.sha}^{{tree}}") != commit.tree:
                detail = f"{theirs.sha} does not hold the files of {commit.sha}"
                return PushRejected(PushTrouble.MISMATCH, detail)
        unsigned = next((each.reason or "unsigned" for each in made if not each.verified), "")
        return Pushed(ref, head, tuple(each.sha for each in made), printable(unsigned, 100))

    def _fetch(self, url: str, auth: HttpAuth | None, ref: str, depth: int) -> None:
        self._git.run(
            [
                *("fetch", "--quiet", "--no-tags", f"--depth={depth}", "--no-write-fetch-head"),
                *("--force", "--end-of-options", url, f"{ref}:{SIGNED_REF}"),
            ],
            git_dir=self._passed.git_dir,
            auth=auth,
            protocols=("http", "https", "file"),
            timeout_s=PUSH_TIMEOUT_S,
        )

    def _resolve(self, name: str) -> str:
        argv = ["rev-parse", "--verify", name]
        return self._git.run(argv, git_dir=self._passed.git_dir).decode().strip()


def is_same(there: CommitInfo, ours: OurCommit) -> bool:
    """Say whether a commit on GitHub holds what ours does, and says the same. Pure."""
    return there.tree == ours.tree and there.message.rstrip("\n") == ours.message.rstrip("\n")
