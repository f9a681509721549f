"""Runs on one pull request that followed one another without a person: counted from the rows. Pure.

A run that a failed check asked for is known by its trigger word, which names the head: however many
checks of one head fail, they ask for one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

_PREFIX = "ci-"


@dataclass(frozen=True)
class Round:
    """One run on a pull request. `pushed_sha` is the head that it made, None for none."""

    by_check: bool
    by_bot: bool
    base_sha: str | None
    pushed_sha: str | None = None


def ci_trigger(head_sha: str, repo_id: int) -> str:
    """Return the word for what the failed checks of one commit in one repository ask."""
    return f"{_PREFIX}{head_sha}-{repo_id}"


def is_ci(trigger: str | None) -> bool:
    """Say whether a run was asked for by a failed check."""
    return trigger is not None and trigger.startswith(_PREFIX)


def in_a_row(rounds: Iterable[Round], head_sha: str, counts: Callable[[Round], bool]) -> int:
    """Count the newest rounds for which `counts` holds, up to the last act of a person.

    `rounds` come newest first. Such an act is a run of another kind, or a head that is neither what
    the round before pushed nor what it began with: somebody else pushed.
    """
    count, head = 0, head_sha
    for each in rounds:
        if (each.pushed_sha or each.base_sha) != head or not counts(each):
            break
        count, head = count + 1, each.base_sha or ""
    return count
