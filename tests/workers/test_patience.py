from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from app.github.errors import GitHubUnavailable, NotAllowed, RateLimited
from workers import patience
from workers.checkout import CheckoutFailed, CheckoutTrouble
from workers.patience import until_database_answers, until_github_answers, wait_for

NOW = 1_000.0


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (GitHubUnavailable("down"), 5.0),
        (GitHubUnavailable("busy", 30), 30.0),
        (GitHubUnavailable("busy", 1), 5.0),
        (RateLimited("slowly", NOW + 60), 60.0),
        (RateLimited("slowly", NOW - 60), 5.0),
        (CheckoutFailed(CheckoutTrouble.UNREACHABLE, "x"), 5.0),
        (CheckoutFailed(CheckoutTrouble.NOT_FOUND, "x"), None),
        (CheckoutFailed(CheckoutTrouble.DISK_FULL, "x"), None),
        (NotAllowed("no"), None),
    ],
)
def test_what_is_waited_for_and_how_long(error: Exception, seconds: float | None) -> None:
    assert wait_for(error, 5.0, NOW) == seconds


class Github:
    """Fails so many times, then answers."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.left, self.error = failures, error

    def __call__(self) -> str:
        if self.left:
            self.left -= 1
            raise self.error
        return "answer"


def ask(github: Github, longest_s: float) -> tuple[str, list[float]]:
    pauses: list[float] = []
    return until_github_answers(github, pauses.append, longest_s, lambda: NOW), pauses


def test_pauses_grow_to_a_minute() -> None:
    answer, pauses = ask(Github(6, GitHubUnavailable("down")), 1_000)
    assert answer == "answer"
    assert pauses == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_patience_ends_before_it_is_overdrawn() -> None:
    github = Github(100, GitHubUnavailable("down"))
    with pytest.raises(GitHubUnavailable):
        ask(github, 40)
    assert github.left == 100 - 4


def test_a_limit_that_resets_too_late_is_not_waited_for() -> None:
    github = Github(1, RateLimited("slowly", NOW + 3_000))
    with pytest.raises(RateLimited):
        ask(github, 1_200)


def test_what_will_not_change_is_raised_at_once() -> None:
    github = Github(1, NotAllowed("no"))
    with pytest.raises(NotAllowed):
        ask(github, 1_000)


def test_a_pause_may_end_the_waiting() -> None:
    class Stopped(Exception):
        pass

    def stop(_: float) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        until_github_answers(Github(1, GitHubUnavailable("x")), stop, 1_000, lambda: NOW)


def away() -> OperationalError:
    return OperationalError("INSERT", {}, sqlite3.OperationalError("database is locked"))


def failing(times: int, error: Exception) -> Callable[[], str]:
    return Github(times, error)


def test_a_database_that_comes_back_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "DATABASE_PAUSE_S", 0.001)
    assert until_database_answers(failing(3, away()), 5.0) == "answer"


def test_a_database_that_stays_away_is_given_up() -> None:
    with pytest.raises(OperationalError):
        until_database_answers(failing(3, away()), -1.0)


def test_a_write_that_is_wrong_is_not_repeated() -> None:
    wrong = failing(1, IntegrityError("INSERT", {}, Exception("unique")))
    with pytest.raises(IntegrityError):
        until_database_answers(wrong, 5.0)
