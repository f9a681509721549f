"""How what passed the gate reaches exactly one ref: by git, or made by GitHub, which signs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workers.git import Git, HttpAuth
from workers.inspection import Passed
from workers.push import Pushed, PushRejected, PushResult, PushTrouble, push

# What goes out, the full name of the ref, and the old value that is expected: None for no ref.
Send = Callable[[Passed, str, str | None], PushResult]


def by_git(git: Git, url: str, auth: HttpAuth | None) -> Send:
    """Return the push: our own commits, as they are."""

    def send(passed: Passed, ref: str, expected_old: str | None) -> PushResult:
        return push(
            git,
            passed.git_dir,
            url,
            auth,
            sha=passed.head_sha,
            ref=ref,
            expected_old=expected_old,
        )

    return send


def send_new(send: Send, passed: Passed, names: Iterable[str]) -> PushResult:
    """Send to the first of `names` that is free, or that holds exactly this already."""
    rejected = PushRejected(PushTrouble.MOVED, "no name was free")
    for name in names:
        if rejected.trouble is PushTrouble.REF_CONFLICT and "/" in name:
            continue
        result = send(passed, f"refs/heads/{name}", None)
        if isinstance(result, Pushed):
            return result
        rejected = result
        if result.trouble not in {PushTrouble.MOVED, PushTrouble.REF_CONFLICT}:
            break
    return rejected
