"""What starts a run, who may start one, and what else may be asked: each a short conversation.

The rows that have files of their own: follow-ups, checks and their buttons, fix_ci, installations.
"""

from __future__ import annotations

import pytest

from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import Harbour, fix


def test_only_the_label_of_this_very_event_counts(harbour: Harbour) -> None:
    harbour.labels()
    for label in ("bug", "aider-later", "not aider"):
        harbour.mona.labels(harbour.issue, label)
    harbour.settle()
    assert len(harbour.runs_of(harbour.issue)) == 1
    assert harbour.replies_on(harbour.issue) == []


def test_assigning_the_bot_is_like_the_label(harbour: Harbour) -> None:
    harbour.mona.assigns(harbour.issue, "drydock[bot]")
    harbour.settle()
    assert "its tests pass" in harbour.status_of()
    assert harbour.reactions_on(harbour.issue) == ["eyes", "rocket"]
    assert harbour.run_of().asked_by == "mona"


def test_assigning_somebody_else_starts_nothing(harbour: Harbour) -> None:
    harbour.mona.assigns(harbour.issue, harbour.mona)
    harbour.settle()
    assert harbour.runs_of(harbour.issue) == []


def test_a_command_is_a_run_with_its_words(harbour: Harbour) -> None:
    asked = harbour.mona.comments(harbour.issue, "Well.\n\n/aider correct `calc.py`\nand no more")
    harbour.settle()
    assert harbour.run_of().instruction == "correct `calc.py`\nand no more"
    assert harbour.reactions_on(asked) == ["eyes", "rocket"]


@pytest.mark.parametrize(
    "body",
    [
        "please /aider",
        "> /aider",
        "```\n/aider\n```",
        "`/aider`",
        "<!-- /aider -->",
        "<!--\n/aider\n-->",
        "    /aider",
        "/aiders",
        "[/aider](https://example.org)",
    ],
)
def test_what_only_looks_like_a_command_is_none(harbour: Harbour, body: str) -> None:
    harbour.mona.comments(harbour.issue, body)
    harbour.settle()
    assert harbour.runs_of(harbour.issue) == []
    assert harbour.said_on(harbour.issue) == []


def test_other_peoples_attempts_get_one_quiet_reaction(harbour: Harbour) -> None:
    """Also of who wrote the issue: its author has no say by that."""
    eve = harbour.github.create_user("eve")
    issue = eve.opens_issue(harbour.repo, "add() subtracts", "/aider")
    asked = eve.comments(issue, "/aider correct it\n/aider status\n/aider help")
    harbour.settle()
    assert harbour.runs_of(issue) == []
    assert harbour.said_on(issue) == []
    assert harbour.reactions_on(asked) == ["confused"]


@pytest.mark.parametrize(("listed", "runs"), [("", 0), ("helper[bot]", 1)])
def test_a_bot_counts_only_if_the_operator_lists_it(
    make_harbour: MakeHarbour, listed: str, runs: int
) -> None:
    harbour = make_harbour(fix(), settings={"DRYDOCK_ALLOWED_BOTS": listed})
    helper = harbour.github.user(str(harbour.github.create_app("helper").bot))
    asked = helper.comments(harbour.issue, "/aider correct it")
    harbour.settle()
    assert len(harbour.runs_of(harbour.issue)) == runs
    assert harbour.reactions_on(asked) == (["eyes", "rocket"] if runs else [])


def test_status_tells_the_place_in_the_queue(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(drivers=0)
    first, second = harbour.issue, harbour.opens(harbour.repo)
    for issue in (first, second):
        harbour.mona.labels(issue, "aider")
        harbour.settle_deliveries()
    harbour.mona.comments(second, "/aider status")
    harbour.settle_deliveries()
    (said,) = harbour.replies_on(second)
    assert "1 run is before it" in said
    assert "- [ ] Fetch the repository" in said


def test_status_tells_how_the_last_run_ended(harbour: Harbour) -> None:
    harbour.labels()
    harbour.mona.comments(harbour.issue, "/aider status")
    harbour.settle()
    (said,) = harbour.replies_on(harbour.issue)
    assert "The last run ended." in said
    assert "its tests pass" in said


def test_help_is_one_screen(harbour: Harbour) -> None:
    harbour.mona.comments(harbour.issue, "/aider help")
    harbour.settle()
    (said,) = harbour.replies_on(harbour.issue)
    assert all(f"/aider {word}" in said for word in ("stop", "retry", "status", "undo", "help"))
    assert len(said.splitlines()) <= 40


def test_a_retry_starts_from_a_fresh_base_with_what_was_asked(harbour: Harbour) -> None:
    harbour.mona.comments(harbour.issue, "/aider correct `calc.py`")
    harbour.settle()
    harbour.mona.closes(harbour.pull_of())
    moved = harbour.mona.pushes(harbour.repo, {"notes.txt": "Sums.\n"}, branch="main")
    harbour.mona.comments(harbour.issue, "/aider retry")
    harbour.settle()
    run = harbour.run_of()
    assert (run.instruction, run.base_sha) == ("correct `calc.py`", moved)
