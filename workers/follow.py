"""A follow-up goes out: onto the head of the pull request that it continues, and nowhere else.

Where that branch moved on while the run worked, our commits are put on its new head if that is
clean. If not, or if the branch is gone, they are kept on a branch beside it. Nothing of anybody's
is ever overwritten: each push expects the value that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from workers.git import Git, HttpAuth
from workers.inspection import Passed
from workers.landed import landed
from workers.push import Pushed, PushRejected, PushTrouble
from workers.rebase import Conflict, fetch_head, rebase
from workers.send import Send, send_new

# A branch that moves on more often in these seconds is somebody's automaton.
MAX_REBASES = 3


@dataclass(frozen=True)
class Onto:
    """Where a follow-up belongs: `head` is the commit that it was made on."""

    url: str
    auth: HttpAuth | None
    branch: str
    head: str


@dataclass(frozen=True)
class Placed:
    """Where it went. `passed` holds the commits as they were pushed, made on `head`."""

    pushed: Pushed
    passed: Passed
    head: str
    rebased: bool = False
    aside: bool = False


def place(
    git: Git,
    send: Send,
    passed: Passed,
    onto: Onto,
    aside: Sequence[str],
    about_to_push: Callable[[Passed, str], None],
) -> Placed | PushRejected:
    """Send a follow-up out. `aside` are names for a branch beside the pull request's, in order.

    `about_to_push` is told of commits that were rebased, and of their new base, before they can be
    anywhere: a publish that is repeated has to push the same again. Errors: GitFailed.
    """
    result, rebased = _push(send, passed, onto), False
    for _ in range(MAX_REBASES):
        if not isinstance(result, PushRejected) or result.trouble is not PushTrouble.MOVED:
            break
        tip = fetch_head(git, passed.git_dir, onto.url, onto.auth, onto.branch)
        there = _there_already(git, passed, onto, tip) if tip else None
        if there is not None:
            return Placed(there, passed, onto.head, rebased)
        moved = _moved(git, passed, onto, tip) if tip else None
        if moved is None:
            return _beside(send, passed, onto, aside)
        passed, onto = moved
        about_to_push(passed, onto.head)
        result, rebased = _push(send, passed, onto), True
    if isinstance(result, Pushed):
        return Placed(result, passed, onto.head, rebased)
    return _beside(send, passed, onto, aside) if result.trouble is PushTrouble.MOVED else result


def _push(send: Send, passed: Passed, onto: Onto) -> Pushed | PushRejected:
    return send(passed, f"refs/heads/{onto.branch}", onto.head)


def _there_already(git: Git, passed: Passed, onto: Onto, tip: str) -> Pushed | None:
    """Return the push whose answer was lost, if somebody has only pushed on top of it since."""
    found = landed(git, passed.git_dir, tip, onto.head, passed.commits)
    if not found:
        return None
    ours = tuple(commit.sha for commit in passed.commits)
    return Pushed(f"refs/heads/{onto.branch}", found[-1], () if found == ours else found)


def _moved(git: Git, passed: Passed, onto: Onto, tip: str) -> tuple[Passed, Onto] | None:
    """Return our commits on the branch's present tip; None where they cannot stand on it."""
    made = rebase(git, passed.git_dir, onto.head, passed.commits, tip)
    if isinstance(made, Conflict):
        return None
    commits = tuple(replace(each, sha=made[each.sha]) for each in passed.commits)
    return replace(passed, head_sha=commits[-1].sha, commits=commits), replace(onto, head=tip)


def _beside(send: Send, passed: Passed, onto: Onto, names: Sequence[str]) -> Placed | PushRejected:
    sent = send_new(send, passed, names)
    return Placed(sent, passed, onto.head, aside=True) if isinstance(sent, Pushed) else sent
