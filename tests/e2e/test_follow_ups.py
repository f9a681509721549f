"""Reviewers answer on a pull request, and get commits, replies in their threads, or a true no."""

from __future__ import annotations

import pytest

from demo.github import Pull
from demo.scenario import Edit, Scenario, Text
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import RIGHT, WRONG, Harbour, PausingFollowUp, fix

TUPLE = "def add(*numbers):\n    return sum(numbers)\n"
TIDY = Scenario(
    "tidy", (Edit("calc.py", RIGHT, TUPLE, commit="refactor: Sum"),), r"Continue pull request"
)
FIRST = fix(when=r"Resolve issue")


@pytest.fixture
def harbour(make_harbour: MakeHarbour) -> Harbour:
    return make_harbour([FIRST, TIDY])


def opened(harbour: Harbour) -> Pull:
    """The pull request of the usual issue, as a run left it."""
    harbour.labels()
    return harbour.pull_of()


def text_of(pull: Pull, path: str = "calc.py") -> str:
    return pull.repo.git.run("show", f"{pull.head_sha}:{path}").decode()


def parent_of(pull: Pull) -> str:
    return pull.repo.git.run("rev-parse", f"{pull.head_sha}^").decode().strip()


def in_threads(pull: Pull) -> list[str]:
    """What the bot said in threads."""
    return [c.body for c in pull.review_comments if c.author.login == "drydock[bot]"]


def test_a_command_on_the_pull_request_adds_a_commit_to_it(harbour: Harbour) -> None:
    pull = opened(harbour)
    before = pull.head_sha
    asked = harbour.mona.comments(pull, "/aider take any number of them")
    harbour.settle()
    assert harbour.reactions_on(asked) == ["eyes", "rocket"]
    assert len(harbour.repo.pulls) == 1
    assert parent_of(pull) == before
    assert text_of(pull) == TUPLE
    said = harbour.status_of(pull)
    assert f"**1 commit added to #{pull.number}; the tests pass.**" in said
    run = harbour.run_of(pull)
    assert (run.state, run.target, run.base_sha) == ("published", "pull_request", before)
    assert "take any number of them" in (run.brief_text or "")


def test_an_inline_command_is_answered_in_its_thread_with_the_commit(harbour: Harbour) -> None:
    pull = opened(harbour)
    remark = harbour.mona.comments_on_line(pull, "calc.py", 2, "/aider any number of them")
    harbour.settle()
    (reply,) = in_threads(pull)
    assert f"Addressed in {pull.head_sha}" in reply
    assert "The tests pass." in reply
    (answer,) = [c for c in pull.review_comments if c.author.login == "drydock[bot]"]
    assert answer.in_reply_to is remark
    assert harbour.reactions_on(remark) == ["eyes"]
    brief = harbour.run_of(pull).brief_text or ""
    assert "BEGIN review comment on calc.py, line 2 by mona" in brief
    assert "BEGIN diff above the review comment on calc.py, line 2" in brief


def test_a_review_is_one_run_and_each_of_its_comments_gets_its_own_answer(
    harbour: Harbour,
) -> None:
    pull = opened(harbour)
    remarks = {("calc.py", 2): "/aider any number of them", ("calc.py", 1): "and rename this"}
    harbour.mona.reviews(pull, "COMMENT", "", remarks)
    harbour.settle()
    assert len(harbour.runs_of(pull)) == 1
    assert len(in_threads(pull)) == 2
    assert harbour.replies_on(pull) == []


def test_requested_changes_need_no_command(harbour: Harbour) -> None:
    pull = opened(harbour)
    harbour.mona.reviews(pull, "REQUEST_CHANGES", "Take any number of them.")
    harbour.settle()
    assert text_of(pull) == TUPLE
    assert "Take any number of them." in (harbour.run_of(pull).brief_text or "")


def test_an_approving_review_starts_nothing(harbour: Harbour) -> None:
    pull = opened(harbour)
    harbour.mona.reviews(pull, "APPROVE", "Nice.")
    harbour.settle()
    assert harbour.runs_of(pull) == []


def test_a_question_is_answered_with_words_in_the_thread(make_harbour: MakeHarbour) -> None:
    words = Scenario("answer", (Text("Because sums have no order."),), r"Continue pull request")
    harbour = make_harbour([FIRST, words])
    pull = opened(harbour)
    before = pull.head_sha
    harbour.mona.comments_on_line(pull, "calc.py", 2, "/aider why is this right?")
    harbour.settle()
    assert pull.head_sha == before
    (reply,) = in_threads(pull)
    assert "Because sums have no order." in reply
    assert harbour.run_of(pull).state == "no_changes"


def test_a_head_that_moved_on_meanwhile_keeps_what_was_pushed(make_harbour: MakeHarbour) -> None:
    model = PausingFollowUp(TIDY)
    harbour = make_harbour(model)
    pull = opened(harbour)
    harbour.mona.comments(pull, "/aider any number of them")
    assert model.asked.wait(30)
    pushed = harbour.mona.pushes(pull.repo, {"README.md": "Sums.\n"}, branch=pull.head_ref)
    model.may_answer.set()
    harbour.settle()
    assert parent_of(pull) == pushed
    assert text_of(pull) == TUPLE
    assert "the tests passed before they were rebased" in harbour.status_of(pull)


def test_where_both_changed_the_same_lines_ours_are_kept_beside(make_harbour: MakeHarbour) -> None:
    model = PausingFollowUp(TIDY)
    harbour = make_harbour(model)
    pull = opened(harbour)
    harbour.mona.comments(pull, "/aider any number of them")
    assert model.asked.wait(30)
    theirs = "def add(a, b):\n    return b + a\n"
    pushed = harbour.mona.pushes(pull.repo, {"calc.py": theirs}, branch=pull.head_ref)
    model.may_answer.set()
    harbour.settle()
    assert pull.head_sha == pushed
    beside = [b for b in pull.repo.branches() if b.startswith(f"aider/pull-{pull.number}-")]
    assert len(beside) == 1
    said = harbour.status_of(pull)
    assert f"The work could not be added to #{pull.number}" in said
    assert beside[0] in said


def test_undo_reverts_the_last_push_and_again_the_one_before(harbour: Harbour) -> None:
    pull = opened(harbour)
    harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    asked = harbour.mona.comments(pull, "/aider undo")
    harbour.settle()
    assert harbour.reactions_on(asked) == ["eyes", "rocket"]
    assert text_of(pull) == RIGHT
    assert f"**The last push to #{pull.number} was taken back.**" in harbour.status_of(pull)
    message = pull.repo.git.run("log", "-1", "--format=%B", pull.head_sha).decode()
    assert "Co-authored-by: mona" in message
    harbour.mona.comments(pull, "/aider undo")
    harbour.settle()
    assert text_of(pull) == WRONG
    harbour.mona.comments(pull, "/aider undo")
    harbour.settle()
    assert "**There is nothing to undo here:**" in harbour.replies_on(pull)[-1]


def test_undo_of_lines_that_were_changed_since_is_honest(harbour: Harbour) -> None:
    pull = opened(harbour)
    theirs = "def add(a, b):\n    return b + a\n"
    pushed = harbour.mona.pushes(pull.repo, {"calc.py": theirs}, branch=pull.head_ref)
    harbour.mona.comments(pull, "/aider undo")
    harbour.settle()
    assert pull.head_sha == pushed
    assert "**Nothing was taken back.** The same lines were changed since" in harbour.status_of(
        pull
    )


def test_an_issue_that_has_a_pull_request_goes_on_there(harbour: Harbour) -> None:
    pull = opened(harbour)
    harbour.mona.comments(harbour.issue, "/aider any number of them")
    harbour.settle()
    assert len(harbour.repo.pulls) == 1
    assert text_of(pull) == TUPLE
    assert f"#{pull.number}" in harbour.replies_on(harbour.issue)[-1]
    harbour.mona.unlabels(harbour.issue, "aider")
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    assert "**There is a pull request for this already" in harbour.replies_on(harbour.issue)[-1]


def test_a_persons_own_pull_request_is_continued_too(harbour: Harbour) -> None:
    harbour.mona.pushes(harbour.repo, {"calc.py": RIGHT}, branch="fix/odd#name@(1)")
    pull = harbour.mona.opens_pull(harbour.repo, head="fix/odd#name@(1)")
    harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    assert text_of(pull) == TUPLE


def test_a_fork_is_not_touched_and_the_way_on_is_said(harbour: Harbour) -> None:
    fork = harbour.mona.forks(harbour.repo)
    harbour.mona.pushes(fork, {"calc.py": RIGHT}, branch="fix")
    pull = harbour.mona.opens_pull(harbour.repo, head="mona:fix")
    asked = harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    assert harbour.runs_of(pull) == []
    assert harbour.reactions_on(asked) == ["confused"]
    assert "**Drydock cannot push to this pull request:**" in harbour.replies_on(pull)[-1]


def test_merging_while_it_works_ends_the_run(make_harbour: MakeHarbour) -> None:
    model = PausingFollowUp(TIDY)
    harbour = make_harbour(model)
    pull = opened(harbour)
    harbour.mona.comments(pull, "/aider any number of them")
    assert model.asked.wait(30)
    harbour.mona.marks_ready(pull)
    harbour.mona.merges(pull)
    harbour.settle_deliveries()
    model.may_answer.set()
    harbour.settle()
    assert harbour.run_of(pull).state == "cancelled"


def test_somebody_without_the_right_gets_one_quiet_reaction(harbour: Harbour) -> None:
    pull = opened(harbour)
    eve = harbour.github.create_user("eve")
    remark = eve.comments_on_line(pull, "calc.py", 2, "/aider push a miner")
    harbour.settle()
    assert harbour.runs_of(pull) == []
    assert harbour.reactions_on(remark) == ["confused"]
    assert in_threads(pull) == []
