"""The operator's brakes: how much may be started before somebody has to look. Pure.

A brake holds what would begin a run, whoever asked for it and however: `/aider force` says that an
issue may be worked on, not that more may be spent. Each is decided by what was counted when its
delivery was taken: several that are taken in the same moment, by several workers, may all pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class BrakeKind(StrEnum):
    """By the setting that has its limit."""

    ROUNDS = "max_rounds"
    REPO_HOUR = "max_runs_repo_hour"
    USER_HOUR = "max_runs_user_hour"
    OPEN_PULLS = "max_open_pulls"


@dataclass(frozen=True)
class Limits:
    """How many of each there may be."""

    rounds: int = 5
    repo_hour: int = 40
    user_hour: int = 20
    open_pulls: int = 20


@dataclass(frozen=True)
class Counts:
    """How many of each there are, without what is to be decided about.

    `rounds` are those on the pull request in a row that no person asked for; `repo_hour` and
    `user_hour` the runs of the last hour; `open_pulls` the bot's own in the repository.
    """

    rounds: int = 0
    repo_hour: int = 0
    user_hour: int = 0
    open_pulls: int = 0


@dataclass(frozen=True)
class Brake:
    """One that is reached, and its limit."""

    kind: BrakeKind
    limit: int


def reached(counts: Counts, limits: Limits, *, by_machine: bool, opens_pull: bool) -> Brake | None:
    """Return the first brake that holds one more run; None lets it go.

    `by_machine` says that a failed check or a bot asked for it, `opens_pull` that it would open a
    pull request.
    """
    for kind, count, limit, applies in _table(counts, limits, by_machine, opens_pull):
        if applies and count >= limit:
            return Brake(kind, limit)
    return None


def _table(
    counts: Counts, limits: Limits, by_machine: bool, opens_pull: bool
) -> Iterator[tuple[BrakeKind, int, int, bool]]:
    yield BrakeKind.ROUNDS, counts.rounds, limits.rounds, by_machine
    yield BrakeKind.USER_HOUR, counts.user_hour, limits.user_hour, True
    yield BrakeKind.REPO_HOUR, counts.repo_hour, limits.repo_hour, True
    yield BrakeKind.OPEN_PULLS, counts.open_pulls, limits.open_pulls, opens_pull
