"""`signed_commits: true`: GitHub makes the commits, and shows them as verified."""

from __future__ import annotations

from typing import Any

import pytest

from demo.github import Pull
from demo.github.contract import DESCRIPTION, Contract, find
from demo.scenario import Edit, Scenario
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import CHECKOUT, CONFIG, FILES, RIGHT, WRONG, Harbour, fix
from workers import publish
from workers.journal import LostRun

SIGNED = CONFIG + "signed_commits: true\n"
WORSE = "def add(a, b):\n    return a * b + 1\n"
TUPLE = "def add(*numbers):\n    return sum(numbers)\n"
FIRST = fix(when=r"Resolve issue")
TIDY = Scenario("tidy", (Edit("calc.py", RIGHT, TUPLE),), r"Continue pull request")
PULL = ("POST", "/pulls$")


@pytest.fixture
def harbour(make_harbour: MakeHarbour) -> Harbour:
    return make_harbour([FIRST, TIDY])


def opened(harbour: Harbour, config: str = SIGNED) -> Pull:
    """Return the pull request of a run in a repository that says this."""
    repo = harbour.makes_repo("own", FILES | {".github/drydock.yml": config})
    issue = harbour.labels(harbour.opens(repo))
    return harbour.pull_of(issue)


def commits_of(pull: Pull) -> list[Any]:
    return pull.repo.git.commits(pull.base_sha, pull.head_sha)


def text_of(pull: Pull) -> str:
    return pull.repo.git.run("show", f"{pull.head_sha}:calc.py").decode()


def are_signed(pull: Pull) -> bool:
    signed = pull.repo.world.signed
    return all(commit.sha in signed for commit in commits_of(pull))


def test_commits_are_githubs_and_verified_and_say_who_asked(harbour: Harbour) -> None:
    pull = opened(harbour)
    (commit,) = commits_of(pull)
    assert are_signed(pull)
    assert (commit.author.name, commit.committer.name) == ("drydock[bot]", "GitHub")
    run = harbour.run_of(pull.repo.issues[0])
    assert "Co-authored-by: mona <" in commit.message
    assert f"Drydock-Run: {run.id}\nDrydock-Brief: {run.brief_sha256}" in commit.message
    assert text_of(pull) == RIGHT


def test_everything_that_is_said_speaks_of_githubs_commits(harbour: Harbour) -> None:
    pull = opened(harbour)
    (issue,) = pull.repo.issues
    assert harbour.run_of(issue).head_sha == pull.head_sha
    assert pull.head_sha[:10] in (pull.body or "")
    (check,) = pull.checks
    assert check.conclusion == "success"
    assert "drydock runs verify SHA" in (check.text or "")
    assert "its tests pass" in harbour.status_of(issue)


def test_without_being_asked_for_commits_are_drydocks_own(harbour: Harbour) -> None:
    pull = opened(harbour, CONFIG)
    (commit,) = commits_of(pull)
    assert pull.repo.world.signed == {}
    assert commit.author.name == commit.committer.name != "drydock[bot]"


def test_several_commits_keep_their_order(make_harbour: MakeHarbour) -> None:
    script = Scenario("two", (Edit("calc.py", WRONG, WORSE), Edit("calc.py", WORSE, RIGHT)))
    pull = opened(make_harbour(script))
    texts = [pull.repo.git.run("show", f"{c.sha}:calc.py").decode() for c in commits_of(pull)]
    assert texts == [WORSE, RIGHT]
    assert are_signed(pull)


def test_a_follow_up_is_signed_and_its_thread_speaks_of_githubs_commit(harbour: Harbour) -> None:
    pull = opened(harbour)
    first = pull.head_sha
    harbour.mona.comments_on_line(pull, "calc.py", 2, "/aider any number of them")
    harbour.settle()
    assert pull.repo.git.commit(pull.head_sha).parents == (first,)
    assert text_of(pull) == TUPLE
    assert are_signed(pull)
    (answer,) = [c for c in pull.review_comments if c.author.login == "drydock[bot]"]
    assert f"Addressed in {pull.head_sha}" in answer.body


def test_an_undo_is_signed_and_takes_back_githubs_commit(harbour: Harbour) -> None:
    pull = opened(harbour)
    harbour.mona.comments(pull, "/aider undo")
    harbour.settle()
    assert text_of(pull) == WRONG
    assert len(commits_of(pull)) == 2
    assert are_signed(pull)


def test_a_publish_that_is_repeated_makes_no_other_commits(harbour: Harbour) -> None:
    fault = harbour.github.faults.server_error(*PULL, status=503, times=12)
    pull = opened(harbour)
    assert fault.seen == 12
    assert len(pull.repo.world.signed) == 1
    assert [b for b in pull.repo.branches() if b.startswith("aider")] == [pull.head_ref]
    (issue,) = pull.repo.issues
    assert harbour.run_of(issue).head_sha == pull.head_sha


@pytest.mark.parametrize("step", ["_note_pushed", "_open_pull"])
def test_a_driver_that_dies_in_the_middle_leaves_its_commits_to_the_next(
    harbour: Harbour, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    goes_on = getattr(publish, step)
    died: list[str] = []

    def dies_first(*args: Any) -> Any:
        if died:
            return goes_on(*args)
        died.append(step)
        raise LostRun(step)

    monkeypatch.setattr(publish, step, dies_first)
    repo = harbour.makes_repo("own", FILES | {".github/drydock.yml": SIGNED})
    issue = harbour.labels(harbour.opens(repo))
    assert (died, list(repo.pulls), harbour.run_of(issue).state) == ([step], [], "publish")
    harbour.looks_again(later=600)
    pull = harbour.pull_of(issue)
    assert harbour.run_of(issue).head_sha == pull.head_sha
    assert set(repo.world.signed) == {pull.head_sha}


def test_a_branch_that_was_made_although_the_answer_was_lost_is_taken(harbour: Harbour) -> None:
    harbour.github.faults.connection_reset("POST", "/git/refs$", after=True)
    pull = opened(harbour)
    assert are_signed(pull)
    assert [b for b in pull.repo.branches() if b.startswith("aider")] == [pull.head_ref]


def test_a_github_that_signs_nothing_is_told_in_the_pull_request(harbour: Harbour) -> None:
    harbour.github.world.signs_commits = False
    pull = opened(harbour)
    said = (pull.body or "").replace("\\", "")
    assert "GitHub does not show these commits as verified: unsigned" in said


def test_the_token_that_writes_is_revoked_and_was_for_contents_alone(harbour: Harbour) -> None:
    opened(harbour)
    writing = [
        token
        for token in harbour.github.world.tokens.values()
        if (token.permissions or {}).get("contents") == "write"
    ]
    assert writing
    assert all(token.revoked for token in writing)
    assert all(set(token.permissions or {}) == {"contents", "metadata"} for token in writing)


def test_all_of_it_is_what_github_describes(harbour: Harbour) -> None:
    opened(harbour)
    contract = Contract(find(CHECKOUT, DESCRIPTION))
    assert contract.violations(harbour.github.recorder.exchanges) == []
