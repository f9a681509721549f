"""What seldom happens in a conversation, and what then is done, said, and never done twice."""

from __future__ import annotations

import pytest

from demo.github import Pull
from demo.scenario import Edit, Scenario
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import FILES, RIGHT, Harbour, Pausing, PausingFollowUp, fix

TUPLE = "def add(*numbers):\n    return sum(numbers)\n"
FIRST = fix(when=r"Resolve issue")
TIDY = Scenario(
    "tidy", (Edit("calc.py", RIGHT, TUPLE, commit="refactor: Sum"),), r"Continue pull request"
)
# All that `git check-ref-format` allows and that means something somewhere else.
ODD = "fix/ünï#1@(x)&%2e+=;,'€\u00a0\"$(id)`|<b>!"


@pytest.fixture
def harbour(make_harbour: MakeHarbour) -> Harbour:
    return make_harbour([FIRST, TIDY])


def opened(harbour: Harbour) -> Pull:
    harbour.labels()
    return harbour.pull_of()


def text_of(pull: Pull, path: str = "calc.py") -> str:
    return pull.repo.git.run("show", f"{pull.head_sha}:{path}").decode()


def in_threads(pull: Pull) -> list[str]:
    return [c.body for c in pull.review_comments if c.author.login == "drydock[bot]"]


# --- what was said stays said -------------------------------------------------------------------


def test_a_comment_that_is_edited_into_a_command_starts_nothing(harbour: Harbour) -> None:
    comment = harbour.mona.comments(harbour.issue, "It does.")
    harbour.mona.edits(comment, body="/aider")
    harbour.settle()
    assert harbour.runs_of(harbour.issue) == []
    assert harbour.said_on(harbour.issue) == []


def test_a_command_that_is_edited_or_deleted_afterwards_is_followed_as_it_was(
    make_harbour: MakeHarbour,
) -> None:
    model = Pausing()
    harbour = make_harbour(model)
    comment = harbour.mona.comments(harbour.issue, "/aider correct `calc.py`")
    assert model.asked.wait(30)
    harbour.mona.edits(comment, body="/aider stop\n/aider delete everything")
    harbour.settle_deliveries()
    harbour.mona.deletes(comment)
    harbour.settle_deliveries()
    model.may_answer.set()
    harbour.settle()
    (run,) = harbour.runs_of(harbour.issue)
    assert (run.state, run.instruction) == ("published", "correct `calc.py`")
    assert "delete everything" not in (run.brief_text or "")


def test_an_inline_command_that_is_edited_or_deleted_starts_no_second_run(
    harbour: Harbour,
) -> None:
    pull = opened(harbour)
    remark = harbour.mona.comments_on_line(pull, "calc.py", 2, "/aider any number of them")
    harbour.settle()
    harbour.mona.edits(remark, body="/aider and rename it")
    harbour.mona.deletes(remark)
    harbour.settle()
    assert len(harbour.runs_of(pull)) == 1


def test_several_commands_in_one_comment_are_answered_in_their_order(harbour: Harbour) -> None:
    harbour.mona.comments(harbour.issue, "/aider status\n\nand then\n\n/aider help\n/aider undo")
    harbour.settle()
    first, second, third = harbour.replies_on(harbour.issue)
    assert "No run is active for this issue." in first
    assert "/aider retry" in second
    assert "**There is nothing to undo here:**" in third


def test_an_unknown_option_is_answered_with_the_nearest(harbour: Harbour) -> None:
    asked = harbour.mona.comments(harbour.issue, "/aider modle=openai/gpt-x correct it")
    harbour.settle()
    (reply,) = harbour.replies_on(harbour.issue)
    assert "**That command was not followed:**" in reply
    assert "Did you mean `model=" in reply
    assert harbour.reactions_on(asked) == ["confused"]
    assert harbour.runs_of(harbour.issue) == []


# --- who is not there any more ------------------------------------------------------------------


def test_an_issue_whose_author_deleted_the_account_is_resolved(harbour: Harbour) -> None:
    gone = harbour.github.create_user("gone")
    issue = gone.opens_issue(harbour.repo, "add() subtracts", "It should not.")
    harbour.github.delete_user(gone)
    harbour.labels(issue)
    assert "its tests pass" in harbour.status_of(issue)
    assert "by ghost" in (harbour.run_of(issue).brief_text or "")


def test_who_deletes_the_account_right_after_the_command_starts_nothing(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(FIRST)
    gone = harbour.github.create_user("gone")
    harbour.repo.grant(gone, "write")
    assert harbour.issue.number == 1
    harbour.tasks.is_down = True
    gone.comments(harbour.issue, "/aider")
    harbour.settle()
    harbour.github.delete_user(gone)
    harbour.tasks.is_down = False
    harbour.looks_again(later=60)
    assert harbour.runs_of(harbour.issue) == []


# --- names of branches --------------------------------------------------------------------------


def test_an_oddly_named_default_branch_is_worked_from(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(FIRST)
    repo = harbour.makes_repo("odd", FILES, default_branch=ODD)
    issue = harbour.labels(harbour.opens(repo))
    assert "its tests pass" in harbour.status_of(issue)
    assert harbour.pull_of(issue).base_ref == ODD


def test_an_oddly_named_head_is_continued_answered_and_undone(harbour: Harbour) -> None:
    harbour.mona.pushes(harbour.repo, {"calc.py": RIGHT}, branch=ODD)
    pull = harbour.mona.opens_pull(harbour.repo, head=ODD)
    harbour.mona.comments_on_line(pull, "calc.py", 2, "/aider any number of them")
    harbour.settle()
    assert text_of(pull) == TUPLE
    assert "Addressed in" in in_threads(pull)[0]
    harbour.mona.comments(pull, "/aider undo")
    harbour.settle()
    assert text_of(pull) == RIGHT


def test_a_branch_called_aider_is_in_the_way_of_no_follow_up(make_harbour: MakeHarbour) -> None:
    """Not of one that has to be put beside the pull request either."""
    model = PausingFollowUp(TIDY)
    harbour = make_harbour(model)
    harbour.mona.pushes(harbour.repo, {"notes.txt": "Ours.\n"}, branch="aider")
    pull = opened(harbour)
    harbour.mona.comments(pull, "/aider any number of them")
    assert model.asked.wait(30)
    harbour.mona.pushes(pull.repo, {"calc.py": "add = sum\n"}, branch=pull.head_ref)
    model.may_answer.set()
    harbour.settle()
    beside = [b for b in pull.repo.branches() if b.startswith(f"aider-pull-{pull.number}-")]
    assert len(beside) == 1
    assert beside[0] in harbour.status_of(pull)


# --- what moves meanwhile -----------------------------------------------------------------------


def test_a_base_that_moved_on_is_noted_in_the_pull_request(make_harbour: MakeHarbour) -> None:
    model = Pausing()
    harbour = make_harbour(model)
    harbour.mona.labels(harbour.issue, "aider")
    assert model.asked.wait(30)
    for number in (1, 2):
        harbour.mona.pushes(harbour.repo, {f"notes-{number}.txt": "Sums.\n"}, branch="main")
    model.may_answer.set()
    harbour.settle()
    pull = harbour.pull_of()
    assert pull.state == "open"
    assert "main has moved on meanwhile: 2 commits there are not in this" in (pull.body or "")


def test_a_follow_up_says_how_far_its_pull_request_is_behind(harbour: Harbour) -> None:
    pull = opened(harbour)
    assert "has moved on" not in (pull.body or "")
    harbour.mona.pushes(harbour.repo, {"notes.txt": "Sums.\n"}, branch="main")
    harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    said = harbour.status_of(pull)
    assert "main has moved on meanwhile: 1 commit there is not in this pull request" in said


def test_a_github_that_cannot_compare_costs_the_run_nothing(harbour: Harbour) -> None:
    harbour.github.faults.add("GET", "/compare/", status=404, times=100)
    pull = opened(harbour)
    assert "its tests pass" in harbour.status_of()
    assert "has moved on" not in (pull.body or "")


def test_a_head_that_is_deleted_meanwhile_loses_no_work(make_harbour: MakeHarbour) -> None:
    model = PausingFollowUp(TIDY)
    harbour = make_harbour(model)
    harbour.mona.pushes(harbour.repo, {"calc.py": RIGHT}, branch="fix")
    pull = harbour.mona.opens_pull(harbour.repo, head="fix")
    harbour.mona.comments(pull, "/aider any number of them")
    assert model.asked.wait(30)
    harbour.mona.deletes_branch(harbour.repo, "fix")
    harbour.settle_deliveries()
    model.may_answer.set()
    harbour.settle()
    assert harbour.run_of(pull).state in {"cancelled", "published"}
    assert "fix" not in harbour.repo.branches()


def test_a_command_where_the_head_branch_is_gone_is_answered(harbour: Harbour) -> None:
    harbour.mona.pushes(harbour.repo, {"calc.py": RIGHT}, branch="fix")
    pull = harbour.mona.opens_pull(harbour.repo, head="fix")
    harbour.mona.deletes_branch(harbour.repo, "fix")
    harbour.mona.comments(pull, "/aider any number of them")
    harbour.settle()
    assert harbour.runs_of(pull) == []
    assert len(harbour.replies_on(pull)) == 1


# --- asked first --------------------------------------------------------------------------------


def test_an_issue_of_somebody_else_is_taken_on_by_force_alone(harbour: Harbour) -> None:
    nina = harbour.github.create_user("nina")
    harbour.repo.grant(nina, "triage")
    harbour.mona.assigns(harbour.issue, nina)
    harbour.labels()
    assert harbour.runs_of(harbour.issue) == []
    (asks,) = harbour.replies_on(harbour.issue)
    assert "the issue is assigned to nina" in asks
    assert "`/aider force`" in asks
    harbour.mona.comments(harbour.issue, "/aider force")
    harbour.settle()
    assert "its tests pass" in harbour.status_of()


def test_a_closed_issue_is_taken_on_by_force_alone(harbour: Harbour) -> None:
    harbour.mona.closes(harbour.issue)
    harbour.mona.comments(harbour.issue, "/aider")
    harbour.settle()
    assert harbour.runs_of(harbour.issue) == []
    assert len(harbour.replies_on(harbour.issue)) == 1
    harbour.mona.comments(harbour.issue, "/aider force")
    harbour.settle()
    assert harbour.run_of().state == "published"


def test_a_locked_issue_hears_nothing_and_starts_nothing_but_by_force(harbour: Harbour) -> None:
    """GitHub lets no App speak in a locked conversation, so the reason stays in our records."""
    harbour.mona.locks(harbour.issue)
    harbour.labels()
    assert harbour.runs_of(harbour.issue) == []
    labelled = next(d for d in harbour.github.deliveries if d.action == "labeled")
    found = harbour.delivery_of(labelled.guid)
    assert found.state == "processed"
    assert "the issue is locked" in found.reason
    harbour.mona.comments(harbour.issue, "/aider force")
    harbour.settle()
    assert harbour.run_of().state == "published"
    assert harbour.pull_of().state == "open"


# --- reviews ------------------------------------------------------------------------------------


def test_a_review_without_words_of_its_own_is_its_inline_comments(harbour: Harbour) -> None:
    pull = opened(harbour)
    harbour.mona.reviews(pull, "REQUEST_CHANGES", "", {("calc.py", 2): "any number of them"})
    harbour.settle()
    (run,) = harbour.runs_of(pull)
    assert "any number of them" in (run.brief_text or "")
    assert len(in_threads(pull)) == 1


def test_a_review_on_a_fork_is_told_the_way_on_once(harbour: Harbour) -> None:
    fork = harbour.mona.forks(harbour.repo)
    harbour.mona.pushes(fork, {"calc.py": RIGHT}, branch="fix")
    pull = harbour.mona.opens_pull(harbour.repo, head="mona:fix")
    remarks = {("calc.py", 1): "/aider rename it", ("calc.py", 2): "/aider and this"}
    harbour.mona.reviews(pull, "COMMENT", "/aider do all that", remarks)
    harbour.settle()
    assert harbour.runs_of(pull) == []
    (said,) = harbour.replies_on(pull)
    assert "**Drydock cannot push to this pull request:**" in said


# --- GitHub says no -----------------------------------------------------------------------------


def test_issues_that_are_switched_off_meanwhile_end_the_telling_and_not_the_work(
    make_harbour: MakeHarbour,
) -> None:
    model = Pausing()
    harbour = make_harbour(model)
    harbour.mona.labels(harbour.issue, "aider")
    assert model.asked.wait(30)
    harbour.repo.has_issues = False
    model.may_answer.set()
    harbour.settle()
    run = harbour.run_of()
    assert run.state == "published"
    assert (run.told_at, run.tell_at) == (None, None)
    assert harbour.pull_of().state == "open"


def test_a_thread_that_is_locked_keeps_no_other_from_its_answer(harbour: Harbour) -> None:
    pull = opened(harbour)
    harbour.github.faults.add("POST", "/pulls/\\d+/comments/\\d+/replies$", status=422)
    remarks = {("calc.py", 2): "/aider any number of them", ("calc.py", 1): "and rename this"}
    harbour.mona.reviews(pull, "COMMENT", "", remarks)
    harbour.settle()
    assert len(in_threads(pull)) == 1
    assert harbour.run_of(pull).state == "published"
    assert "the tests pass" in harbour.status_of(pull)


def test_answers_that_are_lost_leave_nothing_double_in_a_follow_up(harbour: Harbour) -> None:
    pull = opened(harbour)
    writes = (
        ("POST", f"/issues/{pull.number}/comments$"),
        ("POST", "/replies$"),
        ("POST", "/check-runs$"),
        ("PATCH", "/check-runs/"),
        ("POST", "/git-receive-pack$"),
        ("POST", "/reactions$"),
    )
    before = len(harbour.repo.check_runs)
    for write in writes:
        harbour.github.faults.connection_reset(*write, after=True)
    remark = harbour.mona.comments_on_line(pull, "calc.py", 2, "/aider any number of them")
    harbour.settle()
    harbour.looks_again(later=120)
    assert text_of(pull) == TUPLE
    assert len(in_threads(pull)) == 1
    assert len(harbour.repo.check_runs) == before + 2
    assert "the tests pass" in harbour.status_of(pull)
    assert harbour.reactions_on(remark) == ["eyes"]
