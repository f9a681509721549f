"""Too much at once: it is said once, then only shown, and force does not help."""

from __future__ import annotations

from demo.github import Issue
from demo.scenario import Edit, Scenario
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import RIGHT, Harbour, fix

TUPLE = "def add(*numbers):\n    return sum(numbers)\n"
LIST = "def add(*numbers: int) -> int:\n    return sum(numbers)\n"
FIRST = fix(when=r"Resolve issue")
TIDY = Scenario("tidy", (Edit("calc.py", RIGHT, TUPLE),), r"instruction by.*\n.*tuple")
TYPES = Scenario("types", (Edit("calc.py", TUPLE, LIST),), r"instruction by.*\n.*types")


def harbour_with(make_harbour: MakeHarbour, **limits: int) -> Harbour:
    settings = {f"DRYDOCK_{name.upper()}": str(limit) for name, limit in limits.items()}
    return make_harbour([TIDY, TYPES, FIRST], settings=settings)


def asks(harbour: Harbour, issue: Issue, words: str = "/aider") -> list[str]:
    """Say so as Mona, and return how the bot reacts to it."""
    comment = harbour.mona.comments(issue, words)
    harbour.settle()
    return harbour.reactions_on(comment)


def test_one_persons_runs_in_an_hour(make_harbour: MakeHarbour) -> None:
    harbour = harbour_with(make_harbour, max_runs_user_hour=1)
    harbour.labels()
    other = harbour.opens(harbour.repo, "Another one")
    assert asks(harbour, other) == ["confused"]
    (reply,) = harbour.replies_on(other)
    assert "**Nothing was started: 1 runs were asked for by the same account" in reply
    assert "`DRYDOCK_MAX_RUNS_USER_HOUR`" in reply
    assert asks(harbour, other, "/aider force") == ["confused"]
    assert len(harbour.replies_on(other)) == 1
    assert harbour.runs_of(other) == []

    noa = harbour.github.create_user("noa")
    harbour.repo.grant(noa, "write")
    noa.comments(other, "/aider")
    harbour.settle()
    assert len(harbour.runs_of(other)) == 1


def test_a_repositorys_runs_in_an_hour(make_harbour: MakeHarbour) -> None:
    harbour = harbour_with(make_harbour, max_runs_repo_hour=1)
    harbour.labels()
    other = harbour.opens(harbour.repo, "Another one")
    assert asks(harbour, other) == ["confused"]
    assert "were started in this repository" in harbour.replies_on(other)[-1]
    elsewhere = harbour.labels(harbour.opens(harbour.makes_repo("boat")))
    assert len(harbour.runs_of(elsewhere)) == 1


def test_open_pull_requests_until_one_is_closed(make_harbour: MakeHarbour) -> None:
    harbour = harbour_with(make_harbour, max_open_pulls=1)
    harbour.labels()
    pull = harbour.pull_of()
    other = harbour.opens(harbour.repo, "Another one")
    assert asks(harbour, other) == ["confused"]
    assert "pull requests are open in this repository" in harbour.replies_on(other)[-1]
    # What is there may be continued.
    assert asks(harbour, pull, "/aider take a tuple") == ["eyes", "rocket"]
    harbour.mona.closes(pull)
    assert asks(harbour, other)[0] == "eyes"


def test_rounds_that_a_bot_asks_for_until_a_person_does(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(
        [TIDY, TYPES, FIRST],
        settings={"DRYDOCK_MAX_ROUNDS": "1", "DRYDOCK_ALLOWED_BOTS": "critic[bot]"},
    )
    harbour.labels()
    pull = harbour.pull_of()
    critic = harbour.github.user(str(harbour.github.create_app("critic").bot))
    critic.comments(pull, "/aider take a tuple")
    harbour.settle()
    assert len(harbour.runs_of(pull)) == 1
    critic.comments(pull, "/aider add types")
    harbour.settle()
    assert len(harbour.runs_of(pull)) == 1
    assert "were asked for by no person" in harbour.replies_on(pull)[-1]
    assert asks(harbour, pull, "/aider add types") == ["eyes", "rocket"]
