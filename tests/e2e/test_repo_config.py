"""What a repository says in `.github/drydock.yml`, and what becomes of it in a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli.policy import read_manifest
from demo.github import Issue, Repo
from demo.github.contract import DESCRIPTION, Contract, find
from demo.scenario import Edit, Scenario
from egress.policy import manifest_hash
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import CHECKOUT, CONFIG, FILES, RIGHT, WRONG, Harbour, Pausing, fix

WORSE = "def add(a, b):\n    return a * b + 1\n"


def repo_that_says(harbour: Harbour, config: str, **files: str) -> Repo:
    """Make a repository with this config beside the usual test command."""
    named = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    return harbour.makes_repo("own", FILES | {".github/drydock.yml": CONFIG + config} | named)


def labelled(harbour: Harbour, config: str, **files: str) -> Issue:
    return harbour.labels(harbour.opens(repo_that_says(harbour, config, **files)))


def heard(harbour: Harbour) -> str:
    """Return all that the model was told."""
    return json.dumps([request.body for request in harbour.model.requests])


# --- what Drydock checks itself ---------------------------------------------------------------


def test_lint_and_set_up_are_run_by_drydock_and_told_in_the_pull_request(harbour: Harbour) -> None:
    config = "setup: [touch prepared]\nlint: test -f prepared && grep -q return calc.py\n"
    body = harbour.pull_of(labelled(harbour, config)).body or ""
    assert "- ✅ Lint: `test -f prepared && grep -q return calc.py` exited with 0" in body
    assert "- ✅ Set-up: `touch prepared` exited with 0" in body
    assert re.search(r"- Could reach: the model's API \(openai\).*; nothing else\n", body)


def test_lint_that_fails_is_shown_and_stands_in_no_tests_way(harbour: Harbour) -> None:
    body = harbour.pull_of(labelled(harbour, "lint: echo too long; exit 3\n")).body or ""
    assert "✅ **The tests pass.**" in body
    assert "- ❌ Lint: `echo too long; exit 3` exited with 3" in body
    assert "too long" in body.partition("exited with 3")[2]


def test_suggested_reviewers_are_named_but_neither_asked_nor_mentioned(harbour: Harbour) -> None:
    harbour.github.create_user("ada")
    owners = "* @acme/crew\n*.py @ada\n"
    repo = repo_that_says(harbour, "suggest_reviewers: true\n", CODEOWNERS=owners)
    repo.commit({"calc.py": WRONG + "\n"}, author=harbour.github.create_user("zoe"))
    repo.commit({"calc.py": WRONG}, author="ada")
    pull = harbour.pull_of(harbour.labels(harbour.opens(repo)))
    # The repository's first commit is its owner's.
    assert (
        "Suggested reviewers, whom nobody has asked: `ada` (owns 1 of 1 file),"
        " `acme` (changed them once), `zoe` (changed them once)\n"
    ) in (pull.body or "")
    assert "@ada" not in (pull.body or "")
    assert (pull.requested_reviewers, pull.requested_teams) == ([], [])


def test_nobody_is_suggested_where_that_was_not_asked_for(harbour: Harbour) -> None:
    repo = harbour.makes_repo("own", FILES | {"CODEOWNERS": "* @mona\n"})
    body = harbour.pull_of(harbour.labels(harbour.opens(repo))).body or ""
    assert "Suggested reviewers" not in body


# --- who starts a run, and by what ------------------------------------------------------------


def test_a_repositorys_own_label_starts_runs_and_the_operators_no_longer_does(
    harbour: Harbour,
) -> None:
    issue = harbour.opens(repo_that_says(harbour, "label: robot\n"))
    harbour.labels(issue)
    assert harbour.runs_of(issue) == []
    assert harbour.said_on(issue) == []
    harbour.mona.labels(issue, "Robot")
    harbour.settle()
    assert harbour.run_of(issue).state == "published"


def test_taking_the_repositorys_own_label_off_stops_the_run(make_harbour: MakeHarbour) -> None:
    model = Pausing()
    harbour = make_harbour(model)
    issue = harbour.opens(repo_that_says(harbour, "label: robot\n"))
    harbour.mona.labels(issue, "robot")
    assert model.asked.wait(30)
    harbour.mona.unlabels(issue, "robot")
    harbour.waits_for(lambda: harbour.is_in("cancelled", issue), "the run is stopped")
    model.may_answer.set()
    harbour.settle()


def test_whoever_uses_the_own_label_of_a_wrong_config_is_told_what_is_wrong(
    harbour: Harbour,
) -> None:
    issue = harbour.opens(repo_that_says(harbour, "label: robot\ndraft: maybe\n"))
    harbour.mona.labels(issue, "robot")
    harbour.settle()
    assert (
        "**`.github/drydock.yml`, line 3:** draft must be true, false or auto"
        in harbour.status_of(issue)
    )


def test_a_permission_that_the_repository_raises_is_needed(harbour: Harbour) -> None:
    repo = repo_that_says(harbour, "allow: maintain\n")
    issue = harbour.labels(harbour.opens(repo))
    assert harbour.runs_of(issue) == []
    assert harbour.reactions_on(issue) == ["confused"]
    repo.grant(harbour.mona, "maintain")
    harbour.mona.comments(issue, "/aider")
    harbour.settle()
    assert harbour.run_of(issue).state == "published"


def test_a_repository_cannot_lower_what_the_operator_asks_for(harbour: Harbour) -> None:
    repo = repo_that_says(harbour, "allow: triage\n")
    repo.grant(harbour.mona, "triage")
    issue = harbour.labels(harbour.opens(repo))
    assert harbour.runs_of(issue) == []
    repo.grant(harbour.mona, "write")
    harbour.mona.comments(issue, "/aider")
    harbour.settle()
    said = harbour.status_of(issue)
    assert "line 2:** allow can be write or more here (DRYDOCK\\_MIN\\_PERMISSION)" in said
    assert "Did you mean `write`?" in said


def test_it_may_lower_it_to_triage_where_the_operator_lets_it(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(settings={"DRYDOCK_ALLOW_TRIAGE": "true"})
    repo = repo_that_says(harbour, "allow: triage\n")
    repo.grant(harbour.mona, "triage")
    assert harbour.run_of(harbour.labels(harbour.opens(repo))).state == "published"


def test_only_a_teams_members_start_runs_where_the_repository_says_so(harbour: Harbour) -> None:
    repo = repo_that_says(harbour, "allow: acme/crew\n")
    app = harbour.stage.connection.app
    harbour.github.accept_permissions(app, repo, members="read")
    crew = harbour.github.create_team("acme", "Crew")
    issue = harbour.labels(harbour.opens(repo))
    assert harbour.runs_of(issue) == []
    assert harbour.reactions_on(issue) == ["confused"]
    assert harbour.said_on(issue) == []

    crew.members["mona"] = "active"
    harbour.mona.comments(issue, "/aider")
    harbour.settle()
    assert harbour.run_of(issue).state == "published"

    hubot = harbour.github.create_user("hubot")
    crew.members["hubot"] = "active"
    comment = hubot.comments(issue, "/aider stop")
    harbour.settle()
    assert harbour.reactions_on(comment) == ["confused"], "a member who may only read"


def test_a_team_that_nobody_may_ask_about_lets_nobody_in_and_that_is_said(
    harbour: Harbour,
) -> None:
    repo = repo_that_says(harbour, "allow: acme/crew\n")
    harbour.github.create_team("acme", "Crew", "mona")
    issue = harbour.labels(harbour.opens(repo))
    assert harbour.runs_of(issue) == []
    (said,) = harbour.replies_on(issue)
    assert "**I could not ask GitHub who is in `acme/crew`**" in said
    assert "lets this App read *Members*" in said


# --- what the model is told -------------------------------------------------------------------


@pytest.mark.parametrize(("config", "read"), [("", False), ("include_comments: all\n", True)])
def test_strangers_comments_are_read_only_where_the_repository_wants_it(
    harbour: Harbour, config: str, read: bool
) -> None:
    issue = harbour.opens(repo_that_says(harbour, config))
    harbour.github.create_user("eve").comments(issue, "Mind the overflow.")
    harbour.mona.comments(issue, "Mind the sign.")
    harbour.labels(issue)
    brief = harbour.run_of(issue).brief_text or ""
    assert "Mind the sign." in brief
    assert ("Mind the overflow." in brief) == read


def test_instructions_of_the_default_branch_reach_the_model(harbour: Harbour) -> None:
    repo = repo_that_says(harbour, "instructions: STYLE.md\n", STYLE_md="Write haiku.\n")
    harbour.mona.pushes(repo, {"STYLE.md": "Write limericks.\n"}, branch="next")
    issue = harbour.opens(repo)
    harbour.mona.comments(issue, "/aider base=next")
    harbour.settle()
    assert harbour.run_of(issue).state == "published"
    assert "Write haiku." in heard(harbour)
    assert "limericks" not in heard(harbour)


@pytest.mark.e2e
@pytest.mark.machine
def test_the_real_aider_reads_conventions_and_hinted_files(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(provider="bubblewrap")
    config = "instructions: STYLE.md\nfiles: docs/api.md\n"
    texts = {"STYLE_md": "Write haiku.\n", "docs__api_md": "The API of adding.\n"}
    issue = labelled(harbour, config, **texts)
    run = harbour.run_of(issue)
    assert run.state == "published"
    told = heard(harbour)
    assert "../job/conventions.md" in told
    assert "Write haiku." in told
    assert "The API of adding." in told
    assert run.report is not None
    assert [commit["files"] for commit in run.report["commits"]] == [["calc.py"]]


def test_instructions_that_are_not_there_are_told_before_anything_is_started(
    harbour: Harbour,
) -> None:
    issue = labelled(harbour, "instructions: STYLE.md\n")
    said = harbour.status_of(issue)
    assert "line 2:** instructions: there is no STYLE.md on the default branch" in said
    assert harbour.run_of(issue).tier is None
    assert harbour.model.requests == ()


def test_files_are_open_from_the_start_and_a_missing_one_is_told(harbour: Harbour) -> None:
    config = "files: ['docs/*.md', gone.py]\n"
    issue = labelled(harbour, config, docs__api_md="The API of adding.\n")
    assert "The API of adding." in heard(harbour)
    body = harbour.pull_of(issue).body or ""
    assert "names what is not in the repository: gone.py" in body


# --- within the operator's limits -------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("ttl: 2h\n", "ttl can be 60 minutes at most here (DRYDOCK\\_TTL\\_MINUTES)"),
        ("budget_usd: 50\n", "budget\\_usd can be 5 at most here (DRYDOCK\\_BUDGET\\_USD)"),
        ("attempts: 2\n", "attempts can be 1 at most here"),
        ("model: openai/scripted-2\n", "Did you mean `openai/scripted-1`?"),
        ("template: defalt\n", "Did you mean `default`?"),
    ],
)
def test_a_wish_beyond_the_operators_limits_is_told_with_its_line(
    harbour: Harbour, config: str, words: str
) -> None:
    issue = labelled(harbour, config)
    said = harbour.status_of(issue)
    assert "**`.github/drydock.yml`, line 2:**" in said
    assert words in said
    assert harbour.run_of(issue).state == "refused"
    assert harbour.model.requests == ()


def test_a_machine_lives_no_longer_than_the_repository_wants(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(Pausing())
    issue = labelled(harbour, "ttl: 4s\n")
    assert harbour.run_of(issue).state == "timed_out"
    said = harbour.status_of(issue)
    assert "**The run reached its time limit.**" in said
    assert "This repository allows 4 seconds" in said


def test_a_run_spends_no_more_than_the_repository_wants(make_harbour: MakeHarbour) -> None:
    edits = (Edit("calc.py", WRONG, WORSE), Edit("calc.py", WORSE, RIGHT))
    prices = dict.fromkeys(("INPUT", "OUTPUT"), "1000")
    settings = {f"DRYDOCK_MODEL_{name}_USD_PER_MTOK": usd for name, usd in prices.items()}
    harbour = make_harbour(Scenario("two", edits), settings=settings)
    issue = labelled(harbour, "budget_usd: 0.0001\n")
    run = harbour.run_of(issue)
    assert (run.state, run.failure_kind) == ("failed", "budget")
    said = harbour.status_of(issue).replace("\\", "")
    assert "A maintainer can raise budget_usd in .github/drydock.yml." in said
    assert len(harbour.model.requests) == 1


def test_what_policy_show_says_beforehand_is_what_the_run_had(
    harbour: Harbour, tmp_path: Path
) -> None:
    config = f"{CONFIG}ttl: 30m\nbudget_usd: 2\negress: {{hosts: []}}\n"
    path = tmp_path / "drydock.yml"
    path.write_text(config)
    issue = harbour.labels(
        harbour.opens(harbour.makes_repo("own", FILES | {".github/drydock.yml": config}))
    )
    shown = read_manifest(harbour.settings, path, None).manifest
    assert harbour.run_of(issue).manifest_sha256 == manifest_hash(shown)
    assert dict(shown.terms)["ttl_s"] == "1800"


def test_the_repository_chooses_among_the_operators_models(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(settings={"DRYDOCK_MODELS": "openai/scripted-2"})
    issue = labelled(harbour, "model: openai/scripted-2\ntemplate: default\n")
    assert harbour.run_of(issue).model == "openai/scripted-2"
    assert {r.body["model"] for r in harbour.model.requests} == {"scripted-2"}
    other = harbour.opens(issue.repo)
    harbour.mona.comments(other, "/aider model=openai/scripted-1")
    harbour.settle()
    assert harbour.run_of(other).model == "openai/scripted-1"


# --- the pull request -------------------------------------------------------------------------


def test_failing_tests_make_no_pull_request_where_the_repository_wants_none(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(fix(new=WORSE))
    issue = labelled(harbour, "on_failing_tests: none\n")
    assert harbour.run_of(issue).state == "refused"
    assert issue.repo.branches() == ("main",)
    assert issue.repo.pulls == ()
    said = harbour.status_of(issue)
    assert "**The tests fail, so there is no pull request.** `python3 -B check.py`" in said
    assert "AssertionError: 2 + 2 is 5" in said
    assert "Nothing was pushed." in said
    assert harbour.reactions_on(issue) == ["eyes", "confused"]


def test_failing_tests_add_nothing_to_a_pull_request_and_ask_nobody_again(
    make_harbour: MakeHarbour,
) -> None:
    first = fix(when=r"Resolve issue")
    worse = Scenario("worse", (Edit("calc.py", RIGHT, WORSE),), r"Continue pull request")
    harbour = make_harbour([first, worse])
    config = "on_failing_tests: none\nreviewers: ada\nlabels: bot\n"
    repo = repo_that_says(harbour, config)
    repo.grant(harbour.github.create_user("ada"), "read")
    pull = harbour.pull_of(harbour.labels(harbour.opens(repo)))
    assert pull.label_names == ("bot",)
    head, asked = pull.head_sha, harbour.github.recorder.calls("POST", "/requested_reviewers")
    harbour.mona.comments(pull, "/aider make it worse")
    harbour.settle()
    said = harbour.status_of(pull)
    assert "**The tests fail, so nothing was added to the pull request.**" in said
    assert pull.head_sha == head
    assert harbour.github.recorder.calls("POST", "/requested_reviewers") == asked


def test_tests_that_pass_are_published_whatever_would_become_of_failing_ones(
    harbour: Harbour,
) -> None:
    assert harbour.pull_of(labelled(harbour, "on_failing_tests: none\n")).draft


def test_a_draft_by_auto_is_ready_once_its_tests_pass(harbour: Harbour) -> None:
    assert not harbour.pull_of(labelled(harbour, "draft: auto\n")).draft


def test_a_draft_by_auto_stays_one_where_the_tests_fail(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(fix(new=WORSE))
    assert harbour.pull_of(labelled(harbour, "draft: auto\n")).draft


def test_a_draft_by_auto_stays_one_where_nothing_was_tested(harbour: Harbour) -> None:
    repo = harbour.makes_repo("own", {"calc.py": WRONG, ".github/drydock.yml": "draft: auto\n"})
    assert harbour.pull_of(harbour.labels(harbour.opens(repo))).draft


def test_failing_tests_make_a_draft_even_where_others_are_none(make_harbour: MakeHarbour) -> None:
    harbour = make_harbour(fix(new=WORSE))
    assert harbour.pull_of(labelled(harbour, "draft: false\n")).draft


def test_reviewers_are_asked_and_labels_given_once_the_pull_request_is_open(
    harbour: Harbour,
) -> None:
    repo = repo_that_says(harbour, "reviewers: [ada, acme/crew]\nlabels: [bot, aider]\n")
    ada = harbour.github.create_user("ada")
    repo.grant(ada, "read")
    harbour.github.accept_permissions(harbour.stage.connection.app, repo, members="read")
    crew = harbour.github.create_team("acme", "Crew")
    crew.grant(repo, "read")
    issue = harbour.labels(harbour.opens(repo))
    pull = harbour.pull_of(issue)
    assert (pull.requested_reviewers, pull.requested_teams) == ([ada.user], [crew])
    assert pull.label_names == ("bot", "aider")
    assert len(harbour.runs_of(issue)) == 1, "our own label starts nothing"
    contract = Contract(find(CHECKOUT, DESCRIPTION))
    assert contract.violations(harbour.github.recorder.exchanges) == []


def test_a_reviewer_whom_github_refuses_is_told_and_the_others_are_asked(
    harbour: Harbour,
) -> None:
    repo = repo_that_says(harbour, "reviewers: [ada, eve, nobody-here, acme/crew, other/crew]\n")
    ada = harbour.github.create_user("ada")
    repo.grant(ada, "read")
    harbour.github.create_user("eve")
    issue = harbour.labels(harbour.opens(repo))
    pull = harbour.pull_of(issue)
    assert pull.requested_reviewers == [ada.user]
    assert harbour.run_of(issue).state == "published"
    body = (pull.body or "").replace("\\", "")
    assert "GitHub does not let eve be asked for a review: Reviews may only be" in body
    assert "GitHub does not let nobody-here be asked for a review" in body
    assert "GitHub does not let acme/crew be asked for a review" in body
    assert "other/crew be asked for a review: the team is not one of this repository" in body
    assert "let ada be asked" not in body
