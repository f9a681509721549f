"""How what passed the gate reaches exactly one ref: by git, or made by GitHub, which signs it."""

from __future__ import annotations

from collections.abc import Callable

from workers.git import Git, HttpAuth
from workers.inspection import Passed
from workers.push import PushResult, push

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
