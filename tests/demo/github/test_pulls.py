"""Pull requests, reviews and checks: GitHub's refusals, and what follows the branches."""

from __future__ import annotations

from typing import Any

import pytest

from demo.github import Executable, NotAllowed, Pull, Submodule, Symlink
from demo.github.errors import ApiError
from demo.github.git import GitRepo
from tests.demo.github.conftest import Client, Scene

REPO = "/repos/acme/widgets"
FIXED = "def add(a, b):\n    return a + b\n"


@pytest.fixture
def api(scene: Scene) -> Client:
    return scene.client()


@pytest.fixture
def pull(scene: Scene) -> Pull:
    scene.repo.commit({"calc.py": FIXED}, branch="fix")
    return scene.alice.opens_pull(scene.repo, head="fix", title="Add", body="Fixes #9", draft=True)


def wanted(**changes: Any) -> dict[str, Any]:
    return {"title": "Add", "head": "fix", "base": "main", **changes}


def refused(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 422, answer.text
    assert answer.json()["message"] == "Validation Failed"
    (error,) = answer.json()["errors"]
    return dict(error)


def test_a_second_pull_request_for_the_same_head_is_refused(
    scene: Scene, api: Client, pull: Pull
) -> None:
    error = refused(api("POST", f"{REPO}/pulls", wanted()))
    assert error["message"] == "A pull request already exists for acme:fix."
    scene.alice.closes(pull)
    assert api("POST", f"{REPO}/pulls", wanted()).status_code == 201


def test_without_commits_between_there_is_no_pull_request(scene: Scene, api: Client) -> None:
    scene.repo.git.update_ref("refs/heads/same", scene.repo.git.heads()["main"])
    error = refused(api("POST", f"{REPO}/pulls", wanted(head="same")))
    assert error["message"] == "No commits between main and same"


def test_missing_branches_and_titles_are_named(api: Client, pull: Pull) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        (wanted(head="nowhere"), "head"),
        (wanted(base="nowhere"), "base"),
        (wanted(head="stranger:fix"), "head"),
    ]
    for body, field in cases:
        error = refused(api("POST", f"{REPO}/pulls", body))
        assert (error["field"], error["code"]) == (field, "invalid")
    error = refused(api("POST", f"{REPO}/pulls", {"head": "fix", "base": "main"}))
    assert (error["field"], error["code"]) == ("title", "missing_field")


def test_drafts_are_refused_where_the_plan_has_none(scene: Scene, api: Client) -> None:
    scene.repo.supports_drafts = False
    scene.repo.commit({"calc.py": FIXED}, branch="fix")
    answer = api("POST", f"{REPO}/pulls", wanted(draft=True))
    assert answer.status_code == 422
    assert answer.json()["message"] == "Draft pull requests are not supported in this repository."
    assert api("POST", f"{REPO}/pulls", wanted()).status_code == 201


def test_mergeable_is_unknown_at_first_and_then_true_or_false(scene: Scene, api: Client) -> None:
    scene.repo.commit({"calc.py": FIXED}, branch="fix")
    made = api("POST", f"{REPO}/pulls", wanted()).json()
    assert made["mergeable"] is None
    assert api("GET", f"{REPO}/pulls/1").json()["mergeable"] is True
    scene.repo.commit({"calc.py": "def add(a, b):\n    return b - a\n"})
    shown = api("GET", f"{REPO}/pulls/1").json()
    assert (shown["mergeable"], shown["mergeable_state"]) == (False, "dirty")


def test_a_push_moves_the_pull_request(scene: Scene, api: Client, pull: Pull) -> None:
    sha = scene.alice.pushes(scene.repo, {"more.py": "x = 1\n"}, branch="fix")
    shown = api("GET", f"{REPO}/pulls/1").json()
    assert (shown["head"]["sha"], shown["commits"], shown["changed_files"]) == (sha, 2, 2)
    assert scene.repo.git.refs("refs/pull/")["refs/pull/1/head"] == sha


def test_deleting_the_branch_closes_it(scene: Scene, pull: Pull) -> None:
    scene.alice.deletes_branch(scene.repo, "fix")
    assert pull.state == "closed"
    with pytest.raises(ApiError, match="Validation Failed"):
        scene.alice.reopens(pull)


def test_merging_closes_what_it_fixes(scene: Scene) -> None:
    issue = scene.alice.opens_issue(scene.repo, "It subtracts")
    scene.repo.commit({"calc.py": FIXED}, branch="fix")
    pull = scene.alice.opens_pull(scene.repo, head="fix", body=f"Fixes #{issue.number}")
    scene.alice.merges(pull)
    assert (pull.state, issue.state) == ("closed", "closed")
    assert scene.repo.file("calc.py") == FIXED.encode()


def test_a_base_that_holds_the_head_means_merged(scene: Scene, pull: Pull) -> None:
    from demo.github.acts.pushes import move_branch

    move_branch(scene.repo, scene.alice.user, "main", pull.head_sha)
    assert pull.merged_at is not None


def test_a_draft_or_a_conflict_cannot_be_merged(scene: Scene, api: Client, pull: Pull) -> None:
    assert api("PUT", f"{REPO}/pulls/1/merge", {}).status_code == 405
    scene.alice.marks_ready(pull)
    assert api("PUT", f"{REPO}/pulls/1/merge", {"sha": "0" * 40}).status_code == 409


def test_heads_are_found_by_owner_and_branch(api: Client, pull: Pull) -> None:
    def numbers(query: str) -> list[int]:
        return [one["number"] for one in api("GET", f"{REPO}/pulls?{query}").json()]

    assert numbers("head=acme:fix") == [1]
    assert numbers("head=acme:other") == []
    assert numbers("head=other") == [1]  # without an owner it is no filter, as on GitHub
    assert numbers("state=closed") == []


def test_a_pull_request_from_a_fork_shows_its_commits(scene: Scene, api: Client) -> None:
    bob = scene.gh.create_user("bob")
    scene.repo.grant(bob, "read")
    fork = bob.forks(scene.repo)
    sha = bob.pushes(fork, {"calc.py": FIXED}, branch="mine")
    pull = bob.opens_pull(scene.repo, head="bob:mine")
    shown = api("GET", f"{REPO}/pulls/{pull.number}").json()
    assert shown["head"]["repo"]["full_name"] == "bob/widgets"
    assert (shown["head"]["sha"], shown["maintainer_can_modify"]) == (sha, True)
    later = bob.pushes(fork, {"b.py": "y = 2\n"}, branch="mine")
    assert (pull.head_sha, len(scene.repo.git.commits(pull.base_sha, later))) == (later, 2)


def test_a_thread_is_answered_at_its_first_comment_only(
    scene: Scene, api: Client, pull: Pull
) -> None:
    first = scene.alice.comments_on_line(pull, "calc.py", 2, "/aider use sum")
    path = f"{REPO}/pulls/1/comments"
    reply = api("POST", f"{path}/{first.id}/replies", {"body": "Done"}).json()
    assert (reply["in_reply_to_id"], reply["path"], reply["line"]) == (first.id, "calc.py", 2)
    assert [one.body for one in first.replies] == ["Done"]
    assert api("POST", f"{path}/{reply['id']}/replies", {"body": "no"}).status_code == 404


def test_a_remark_outside_the_diff_is_refused(scene: Scene, api: Client, pull: Pull) -> None:
    place = {"body": "x", "path": "calc.py", "line": 40, "commit_id": pull.head_sha}
    error = refused(api("POST", f"{REPO}/pulls/1/comments", place))
    assert error["message"] == "pull_request_review_thread.line must be part of the diff"
    elsewhere = {**place, "path": "README.md", "line": 1}
    assert refused(api("POST", f"{REPO}/pulls/1/comments", elsewhere))["field"].endswith("path")
    remarks = [{"path": "calc.py", "line": 40, "body": "x"}]
    answer = api("POST", f"{REPO}/pulls/1/reviews", {"event": "COMMENT", "comments": remarks})
    assert answer.status_code == 422
    assert answer.json()["errors"] == ["Line could not be resolved"]
    assert pull.reviews == []


def test_a_comment_is_outdated_once_its_line_changes(scene: Scene, api: Client, pull: Pull) -> None:
    comment = scene.alice.comments_on_line(pull, "calc.py", 2, "hm")
    scene.alice.pushes(scene.repo, {"more.py": "x = 1\n"}, branch="fix")
    assert comment.line == 2
    scene.alice.pushes(
        scene.repo, {"calc.py": "def add(a, b):\n    return sum((a, b))\n"}, branch="fix"
    )
    shown = api("GET", f"{REPO}/pulls/comments/{comment.id}").json()
    assert (shown["line"], shown["position"], shown["original_line"]) == (None, None, 2)


def test_a_review_is_one_event_with_its_comments(scene: Scene, pull: Pull) -> None:
    scene.gh.set_webhook(scene.app, "http://127.0.0.1:9/", "a test's secret")
    bob = scene.gh.create_user("bob")
    scene.repo.grant(bob, "write")
    bob.reviews(pull, "REQUEST_CHANGES", "", {("calc.py", 1): "a", ("calc.py", 2): "b"})
    told = [(d.event, d.action) for d in scene.gh.deliveries][1:]
    assert told == [
        ("pull_request_review", "submitted"),
        ("pull_request_review_comment", "created"),
        ("pull_request_review_comment", "created"),
    ]


def test_nobody_approves_their_own_work(scene: Scene, api: Client) -> None:
    scene.repo.commit({"calc.py": FIXED}, branch="fix")
    api("POST", f"{REPO}/pulls", wanted())
    answer = api("POST", f"{REPO}/pulls/1/reviews", {"event": "APPROVE"})
    assert answer.status_code == 422
    assert answer.json()["errors"] == ["Can not approve your own pull request"]


def test_a_check_run_holds_fifty_annotations_a_request(api: Client, pull: Pull) -> None:
    note = {
        "path": "a",
        "start_line": 1,
        "end_line": 1,
        "annotation_level": "notice",
        "message": "m",
    }

    def sent(count: int) -> dict[str, Any]:
        return {"output": {"title": "t", "summary": "s", "annotations": [note] * count}}

    new = {"name": "x", "head_sha": pull.head_sha}
    assert api("POST", f"{REPO}/check-runs", {**new, **sent(51)}).status_code == 422
    run = api("POST", f"{REPO}/check-runs", {**new, **sent(50)}).json()
    api("PATCH", f"{REPO}/check-runs/{run['id']}", sent(50))
    shown = api("GET", f"{REPO}/check-runs/{run['id']}").json()
    assert shown["output"]["annotations_count"] == 100


def test_a_check_run_needs_a_real_commit_a_conclusion_and_its_own_app(
    scene: Scene, api: Client, pull: Pull
) -> None:
    assert api("POST", f"{REPO}/check-runs", {"name": "x", "head_sha": "0" * 40}).status_code == 422
    new = {"name": "x", "head_sha": pull.head_sha, "status": "completed"}
    assert api("POST", f"{REPO}/check-runs", new).status_code == 422
    builder = scene.gh.create_app("builder")
    scene.gh.install(builder, scene.repo)
    theirs = scene.gh.report_check(builder, scene.repo, pull.head_sha, name="ci")
    answer = api("PATCH", f"{REPO}/check-runs/{theirs.id}", {"status": "queued"})
    assert answer.status_code == 403
    assert scene.anonymous()("POST", f"{REPO}/check-runs", new).status_code == 404


def test_buttons_and_reruns_reach_the_app_that_made_the_check(scene: Scene, pull: Pull) -> None:
    scene.gh.set_webhook(scene.app, "http://127.0.0.1:9/", "a test's secret")
    builder = scene.gh.create_app("builder", webhook_url="http://127.0.0.1:9/")
    scene.gh.install(builder, scene.repo)
    run = scene.gh.report_check(scene.app, scene.repo, pull.head_sha, name="drydock")
    run.actions = [{"label": "Retry", "description": "Again", "identifier": "retry"}]
    scene.alice.reruns(run)
    scene.alice.presses(run, "retry")
    told = [(d.app.slug, d.action) for d in scene.gh.deliveries if d.event == "check_run"]
    assert told == [
        ("drydock", "created"),
        ("builder", "created"),
        ("drydock", "rerequested"),
        ("drydock", "requested_action"),
    ]
    with pytest.raises(KeyError):
        scene.alice.presses(run, "explode")


def test_refs_are_created_moved_and_deleted_by_githubs_rules(scene: Scene, api: Client) -> None:
    head = scene.repo.git.heads()["main"]
    refs = f"{REPO}/git/refs"
    assert api("POST", refs, {"ref": "refs/heads/a", "sha": head}).status_code == 201
    again = api("POST", refs, {"ref": "refs/heads/a", "sha": head})
    assert again.json()["message"] == "Reference already exists"
    assert api("POST", refs, {"ref": "refs/heads/a/b", "sha": head}).status_code == 422
    assert api("POST", refs, {"ref": "heads/b", "sha": head}).status_code == 422
    assert api("POST", refs, {"ref": "refs/heads/b..c", "sha": head}).status_code == 422
    assert api("POST", refs, {"ref": "refs/heads/b", "sha": "f" * 40}).status_code == 422
    other = scene.repo.commit({"x": "y"}, branch="other")
    scene.repo.commit({"z": "y"}, branch="a")
    answer = api("PATCH", f"{refs}/heads/a", {"sha": other})
    assert answer.json()["message"] == "Update is not a fast forward"
    assert api("PATCH", f"{refs}/heads/a", {"sha": other, "force": True}).status_code == 200
    assert api("DELETE", f"{refs}/heads/a").status_code == 204
    assert api("GET", f"{REPO}/git/ref/heads/a").status_code == 404


def test_workflow_files_need_the_workflows_permission(scene: Scene, api: Client) -> None:
    git = scene.repo.git
    tree = [{"path": ".github/workflows/x.yml", "mode": "100644", "type": "blob", "content": "on:"}]
    made = api("POST", f"{REPO}/git/trees", {"base_tree": git.heads()["main"], "tree": tree}).json()
    commit = {"message": "m", "tree": made["sha"], "parents": [git.heads()["main"]]}
    sha = api("POST", f"{REPO}/git/commits", commit).json()["sha"]
    answer = api("POST", f"{REPO}/git/refs", {"ref": "refs/heads/w", "sha": sha})
    assert answer.status_code == 403


def test_an_empty_repository_says_so(scene: Scene) -> None:
    empty = scene.gh.create_repo("acme", "empty", private=True, default_branch="trunk")
    scene.gh.install(scene.app, empty)
    client, path = scene.client(), "/repos/acme/empty"
    assert client("GET", path).json()["default_branch"] == "trunk"
    assert client("GET", f"{path}/commits").status_code == 409
    assert client("GET", f"{path}/git/ref/heads/trunk").status_code == 409
    assert client("GET", f"{path}/contents/README.md").status_code == 404
    assert client("GET", f"{path}/branches").json() == []


def test_odd_trees_can_be_made(scene: Scene, api: Client) -> None:
    odd = scene.gh.create_repo(
        "acme",
        "odd",
        {
            b"caf\xe9.txt": b"latin\r\n",
            'quote"\\and\nline': "x",
            "run.sh": Executable(b"#!/bin/sh\n"),
            "link": Symlink("run.sh"),
            "dep": Submodule("1" * 40),
        },
        default_branch="trunk",
        private=True,
    )
    names = odd.git.run("ls-tree", "-z", "--name-only", "trunk").split(b"\0")
    assert {b"caf\xe9.txt", b'quote"\\and\nline', b"link"} <= set(names)
    modes = {entry.path: entry.mode for entry in odd.git.ls_tree("trunk")}
    assert (modes["run.sh"], modes["link"], modes["dep"]) == ("100755", "120000", "160000")
    odd.commit({"run.sh": "now a plain file", "link": "a file too"}, branch="fix")
    pull = scene.gh.user("alice")
    odd.grant(pull, "write")
    made = pull.opens_pull(odd, head="fix")
    scene.gh.install(scene.app, odd)
    files = scene.client()("GET", f"/repos/acme/odd/pulls/{made.number}/files").json()
    assert {one["filename"]: one["status"] for one in files} == {
        "link": "changed",
        "run.sh": "modified",
    }


def test_three_thousand_files_take_a_moment_only(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    gits: list[object] = []
    call = GitRepo._call

    def counted(*args: Any) -> Any:
        gits.append(args[1])
        return call(*args)

    monkeypatch.setattr(GitRepo, "_call", counted)
    files = {f"src/{n % 50}/{n}.txt": f"{n}\n" for n in range(3000)}
    big = scene.gh.create_repo("acme", "big", files)
    assert len(gits) < 15
    assert len(big.git.ls_tree("main", recursive=True, trees=False)) == 3000


def test_outsiders_cannot_push_or_merge(scene: Scene, pull: Pull) -> None:
    bob = scene.gh.create_user("bob")
    scene.repo.grant(bob, "triage")
    with pytest.raises(NotAllowed):
        bob.pushes(scene.repo, {"x": "y"})
    with pytest.raises(NotAllowed):
        bob.merges(pull)
