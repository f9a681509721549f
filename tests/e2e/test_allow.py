"""A run that the gate refused, and a maintainer who lets a file through."""

from __future__ import annotations

import os

from demo.scenario import Edit, Scenario
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import FILES, Harbour
from workers.gate import Allowance
from workers.kept import drop_old_bundles, read_kept


def refused(make_harbour: MakeHarbour, role: str = "maintain", path: str = ".npmrc") -> Harbour:
    harbour = make_harbour(Scenario("sneaky", (Edit(path, "", "save-exact=true\n"),)))
    harbour.repo.grant(harbour.mona, role)
    harbour.labels()
    assert harbour.run_of().state == "refused"
    return harbour


def says(harbour: Harbour, text: str) -> None:
    harbour.mona.comments(harbour.issue, text)
    harbour.settle()


def test_an_allowed_file_is_published_from_the_kept_bundle_without_another_machine(
    make_harbour: MakeHarbour,
) -> None:
    harbour = refused(make_harbour)
    assert "`/aider allow .npmrc`" in harbour.status_of()
    asked = len(harbour.model.requests)
    first = harbour.run_of()
    says(harbour, "/aider allow .npmrc")
    run = harbour.run_of()
    assert (run.state, run.id != first.id) == ("published", True)
    assert len(harbour.model.requests) == asked
    assert (run.input_tokens, run.cost_usd) == (0, 0.0)
    body = harbour.pull_of().body or ""
    assert body.index("allowed by mona") < body.index("### What changed")
    assert harbour.repo.file(".npmrc", run.branch).startswith(b"save-exact=true\n")
    commits = harbour.repo.git.commits("main", run.branch or "")
    assert all(f"Drydock-Brief: {run.brief_sha256}" in commit.message for commit in commits)


def test_who_only_may_write_lets_nothing_through(make_harbour: MakeHarbour) -> None:
    harbour = refused(make_harbour, role="write")
    says(harbour, "/aider allow .npmrc")
    assert "your permission here does not reach so far" in harbour.replies_on(harbour.issue)[-1]
    assert len(harbour.runs_of(harbour.issue)) == 1
    assert harbour.repo.pulls == ()


def test_another_path_than_the_refused_one_is_answered_with_the_right_one(
    make_harbour: MakeHarbour,
) -> None:
    harbour = refused(make_harbour)
    says(harbour, "/aider allow .npm")
    assert "Did you mean `/aider allow .npmrc`?" in harbour.replies_on(harbour.issue)[-1]
    assert len(harbour.runs_of(harbour.issue)) == 1


def test_where_nothing_was_refused_there_is_nothing_to_allow(harbour: Harbour) -> None:
    says(harbour, "/aider allow .npmrc")
    assert "There is nothing to allow" in harbour.replies_on(harbour.issue)[-1]


def test_allowances_add_up_until_all_that_was_refused_is_let_through(
    make_harbour: MakeHarbour,
) -> None:
    # The tests fail after the first edit, so the model is asked for the second.
    edits = (Edit(".npmrc", "", "a=1\n"), Edit(".envrc", "", "id\n"))
    harbour = make_harbour(Scenario("two", edits))
    harbour.repo.grant(harbour.mona, "admin")
    harbour.labels()
    says(harbour, "/aider allow .npmrc")
    assert harbour.run_of().state == "refused"
    assert "`.envrc`" in harbour.status_of()
    says(harbour, "/aider allow `.envrc`")
    run = harbour.run_of()
    assert run.state == "published"
    kept = read_kept(harbour.folder_of(run))
    assert kept is not None
    assert kept.allowances == (Allowance(".npmrc", "mona"), Allowance(".envrc", "mona"))


def test_a_bundle_that_is_not_kept_any_more_is_spoken_of(make_harbour: MakeHarbour) -> None:
    harbour = refused(make_harbour)
    bundle = harbour.folder_of(harbour.run_of()) / "out.bundle"
    os.utime(bundle, (0, 0))
    drop_old_bundles(harbour.services.settings.state_dir, 14)
    assert not bundle.exists()
    says(harbour, "/aider allow .npmrc")
    assert "no longer kept here" in harbour.replies_on(harbour.issue)[-1]
    assert len(harbour.runs_of(harbour.issue)) == 1


def test_the_repository_protects_paths_of_its_own(make_harbour: MakeHarbour) -> None:
    config = "test: python3 -B check.py\nprotected_paths: [calc.py]\n"
    harbour = make_harbour()
    repo = harbour.makes_repo("guarded", FILES | {".github/drydock.yml": config})
    issue = harbour.labels(harbour.opens(repo))
    assert harbour.run_of(issue).state == "refused"
    assert "`calc.py`: calc.py is not changed by a run" in harbour.status_of(issue)


def test_a_warning_of_the_gate_is_the_first_thing_in_the_pull_request(
    make_harbour: MakeHarbour,
) -> None:
    config = "test: python3 -B check.py\nprotected_paths: {calc.py: warn}\n"
    harbour = make_harbour()
    repo = harbour.makes_repo("careful", FILES | {".github/drydock.yml": config})
    issue = harbour.labels(harbour.opens(repo))
    body = harbour.pull_of(issue).body or ""
    assert body.index("**Look at this first:**") < body.index("The tests pass")
    assert "⚠️ `calc.py`: calc.py is changed with care" in body
