"""Repositories that are not as one would wish, without starting a real machine."""

from __future__ import annotations

from demo.scenario import Edit, Scenario, prose_only
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import FILES, WRONG, Harbour, fix


def test_an_empty_repository_is_told_to_push_a_first_commit(harbour: Harbour) -> None:
    repo = harbour.makes_repo("empty", None)
    issue = harbour.labels(harbour.opens(repo))
    said = harbour.status_of(issue)
    assert "**This repository has no commits yet**" in said
    assert "push a first commit" in said
    assert harbour.run_of(issue).state == "refused"
    assert harbour.reactions_on(issue) == ["eyes", "confused"]


def test_a_default_branch_that_is_not_main_is_what_a_run_starts_from(harbour: Harbour) -> None:
    repo = harbour.makes_repo("trunked", default_branch="trunk")
    issue = harbour.labels(harbour.opens(repo))
    pull = harbour.pull_of(issue)
    assert pull.base_ref == "trunk"
    assert "- Base: `trunk` at" in (pull.body or "")
    assert harbour.run_of(issue).base_ref == "trunk"


def test_a_repository_without_tests_gets_a_pull_request_that_says_so(harbour: Harbour) -> None:
    repo = harbour.makes_repo("untested", {"calc.py": WRONG})
    issue = harbour.labels(harbour.opens(repo))
    pull = harbour.pull_of(issue)
    for said in (pull.body or "", harbour.status_of(issue)):
        assert "**No tests were run:** no test command is known" in said
        assert "for example `test: make test`" in said
    assert "no tests were run" in harbour.status_of(issue)
    (check,) = pull.checks
    assert check.conclusion == "neutral"


def test_a_config_with_an_unknown_key_names_the_line_and_the_right_one(harbour: Harbour) -> None:
    files = FILES | {".github/drydock.yml": "# ours\ntests: make test\n"}
    issue = harbour.labels(harbour.opens(harbour.makes_repo("misspelt", files)))
    said = harbour.status_of(issue)
    assert "**`.github/drydock.yml`, line 2:** unknown key tests." in said
    assert "Did you mean `test`?" in said
    assert "no run was started" in said
    assert harbour.run_of(issue).state == "refused"
    assert harbour.model.requests == ()


def test_a_base_that_does_not_exist_is_named(harbour: Harbour) -> None:
    issue = harbour.issue
    harbour.mona.comments(issue, "/aider base=release/9 please")
    harbour.settle()
    said = harbour.status_of(issue)
    assert "**There is no branch `release/9` here**" in said
    assert "`/aider base=BRANCH`" in said
    assert harbour.run_of(issue).state == "refused"


def test_a_base_that_exists_is_started_from_and_merged_into(harbour: Harbour) -> None:
    harbour.mona.pushes(harbour.repo, {"notes.txt": "old"}, branch="release/9")
    harbour.mona.comments(harbour.issue, "/aider base=release/9 correct `calc.py`")
    harbour.settle()
    assert harbour.pull_of().base_ref == "release/9"


def test_a_set_up_that_fails_shows_its_output_and_starts_no_aider(harbour: Harbour) -> None:
    config = "setup: [echo first, 'echo no compiler here >&2; exit 3']\n"
    issue = harbour.labels(
        harbour.opens(harbour.makes_repo("broken", FILES | {".github/drydock.yml": config}))
    )
    said = harbour.status_of(issue)
    assert "**The repository's set-up failed.**" in said
    assert "ended with exit status 3" in said
    assert "no compiler here" in said
    assert "corrects `setup` in `.github/drydock.yml`" in said
    assert harbour.model.requests == ()
    assert harbour.run_of(issue).test_exit_code is None


def test_tests_that_fail_to_the_end_are_published_and_called_failing(
    make_harbour: MakeHarbour,
) -> None:
    worse = "def add(a, b):\n    return a * b + 1\n"
    harbour = make_harbour(fix(new=worse))
    harbour.labels()
    pull = harbour.pull_of()
    body = pull.body or ""
    assert "❌ **The tests fail.** `python3 -B check.py`" in body
    assert "exited with 1" in body
    assert "AssertionError: 2 + 2 is 5" in body
    assert "its tests fail" in harbour.status_of()
    assert harbour.run_of().state == "published"
    assert harbour.run_of().test_exit_code == 1
    (check,) = pull.checks
    assert check.conclusion == "neutral"


def test_an_edit_that_the_gate_refuses_is_named_and_nothing_is_pushed(
    make_harbour: MakeHarbour,
) -> None:
    path = ".github/workflows/release.yml"
    harbour = make_harbour(Scenario("sneaky", (Edit(path, "", "on: push\n"),)))
    harbour.labels()
    said = harbour.status_of()
    assert "**Drydock refused the result.**" in said
    assert f"`{path}`" in said
    assert harbour.repo.branches() == ("main",)
    assert harbour.repo.pulls == ()
    # Kept for whoever looks into it.
    assert (harbour.folder_of(harbour.run_of()) / "out.bundle").exists()


def test_an_edit_that_changes_nothing_is_no_answer_in_words(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(Scenario("idle", (Edit("calc.py", WRONG, WRONG),)))
    harbour.labels()
    assert "**Aider changed nothing.**" in harbour.status_of()
    assert "SEARCH" not in harbour.status_of()
    assert harbour.repo.branches() == ("main",)
    assert harbour.reactions_on(harbour.issue) == ["eyes"]


def test_an_answer_in_words_is_passed_on_and_nothing_is_pushed(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(prose_only("Subtracting is what @octocat asked for in #3."))
    harbour.labels()
    said = harbour.status_of()
    assert "**Aider answered in words and changed nothing.**" in said
    assert "Subtracting is what" in said
    assert "nobody checked it" in said
    assert "@octocat" not in said
    assert harbour.repo.branches() == ("main",)


def test_a_pull_request_is_no_draft_where_the_config_says_so(harbour: Harbour) -> None:
    files = FILES | {".github/drydock.yml": f"{FILES['.github/drydock.yml']}draft: false\n"}
    issue = harbour.labels(harbour.opens(harbour.makes_repo("ready", files)))
    assert not harbour.pull_of(issue).draft


def test_a_repository_whose_plan_has_no_drafts_gets_an_ordinary_pull_request(
    harbour: Harbour,
) -> None:
    harbour.repo.supports_drafts = False
    harbour.labels()
    assert not harbour.pull_of().draft


def test_a_branch_of_our_name_that_is_somebody_elses_is_left_alone(harbour: Harbour) -> None:
    theirs = harbour.mona.pushes(
        harbour.repo, {"calc.py": "mine"}, branch="aider/issue-1-add-subtracts"
    )
    harbour.labels()
    assert harbour.pull_of().head_ref == "aider/issue-1-add-subtracts-2"
    assert harbour.repo.git.heads()["aider/issue-1-add-subtracts"] == theirs


def test_a_branch_named_aider_stands_in_the_way_and_is_gone_around(harbour: Harbour) -> None:
    harbour.mona.pushes(harbour.repo, {"calc.py": "mine"}, branch="aider")
    harbour.labels()
    assert "/" not in harbour.pull_of().head_ref


def test_a_protected_branch_is_named_as_the_reason(harbour: Harbour) -> None:
    harbour.repo.protect("aider/issue-1-add-subtracts")
    harbour.labels()
    said = harbour.status_of()
    assert "**GitHub did not take the result.**" in said
    assert "Protected branch update failed for refs/heads/aider/issue-1-add-subtracts" in said
    assert "an owner checks" in said
    assert harbour.repo.pulls == ()
