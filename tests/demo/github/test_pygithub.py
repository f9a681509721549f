"""The real PyGithub, as it is used against the real GitHub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import github
import pytest
from github import Auth, Github

from demo.github.contract import Contract
from tests.demo.github.conftest import Scene

UNTHROTTLED: dict[str, Any] = {
    "seconds_between_requests": None,
    "seconds_between_writes": None,
    "retry": None,
}


@pytest.fixture
def hub(scene: Scene) -> Github:
    return Github(auth=Auth.Token(scene.token()), base_url=scene.gh.api_url, **UNTHROTTLED)


@pytest.fixture(autouse=True)
def held_to_the_contract(scene: Scene, contract: Contract) -> Iterator[None]:
    """What PyGithub sends, and what it is answered, is what GitHub's description allows."""
    yield
    found = contract.violations(scene.gh.recorder.exchanges)
    assert not found, "\n".join(found)


def test_from_the_private_key_to_an_installation_token(scene: Scene) -> None:
    import time

    scene.clock.now = time.time()  # PyGithub takes the JWT's times from the machine
    auth = Auth.AppAuth(scene.app.app_id, scene.app.private_key_pem)
    integration = github.GithubIntegration(auth=auth, base_url=scene.gh.api_url, **UNTHROTTLED)
    installation = integration.get_repo_installation("acme", "widgets")
    token = integration.get_access_token(installation.id).token
    hub = Github(auth=Auth.Token(token), base_url=scene.gh.api_url, **UNTHROTTLED)
    assert hub.get_repo("acme/widgets").private


def test_an_issue_from_the_first_reaction_to_the_last_comment(scene: Scene, hub: Github) -> None:
    record = scene.alice.opens_issue(scene.repo, "It subtracts", "add(1, 1) is 0")
    issue = hub.get_repo("acme/widgets").get_issue(1)
    issue.create_reaction("eyes")
    comment = issue.create_comment("Working")
    comment.edit("Done")
    issue.add_to_labels("in progress")
    assert [one.body for one in issue.get_comments()] == ["Done"]
    assert record.label_names == ("in progress",)
    assert [reaction.content for reaction in issue.get_reactions()] == ["eyes"]


def test_a_pull_request_from_draft_to_ready(scene: Scene, hub: Github) -> None:
    scene.repo.commit({"calc.py": "def add(a, b):\n    return a + b\n"}, branch="fix")
    repo = hub.get_repo("acme/widgets")
    pull = repo.create_pull(base="main", head="fix", title="Add", body="Fixes #1", draft=True)
    assert [file.filename for file in pull.get_files()] == ["calc.py"]
    assert [commit.sha for commit in pull.get_commits()] == [pull.head.sha]
    pull.mark_ready_for_review()
    assert not scene.repo.pulls[0].draft
    first = pull.create_review_comment("why?", repo.get_commit(pull.head.sha), "calc.py", line=2)
    pull.create_review_comment_reply(first.id, "because")
    assert [one.body for one in scene.repo.pulls[0].review_comments] == ["why?", "because"]
    check = repo.create_check_run("drydock", pull.head.sha, status="in_progress")
    check.edit(status="completed", conclusion="success")
    assert scene.repo.pulls[0].checks[0].conclusion == "success"


def test_refusals_arrive_as_pygithubs_errors(scene: Scene, hub: Github) -> None:
    repo = hub.get_repo("acme/widgets")
    with pytest.raises(github.UnknownObjectException):
        repo.get_issue(7)
    with pytest.raises(github.GithubException) as refused:
        repo.create_pull(base="main", head="nowhere", title="x")
    assert refused.value.status == 422
    scene.clock.passes(3600)
    with pytest.raises(github.BadCredentialsException):
        repo.get_issues().totalCount  # noqa: B018


def test_the_permission_and_the_files_of_a_repository(scene: Scene, hub: Github) -> None:
    repo = hub.get_repo("acme/widgets")
    assert repo.get_collaborator_permission("alice") == "write"
    readme = repo.get_contents("README.md")
    assert not isinstance(readme, list)
    assert readme.decoded_content == b"# Widgets\n"
    root = repo.get_contents("")
    assert isinstance(root, list)
    assert [entry.name for entry in root] == ["README.md", "calc.py"]


@pytest.mark.parametrize("missing", ["contents", "pull_requests"])
def test_a_draft_is_made_ready_by_who_may_write_both(scene: Scene, missing: str) -> None:
    scene.repo.commit({"calc.py": "x = 1\n"}, branch="fix")
    pull = scene.client()(
        "POST",
        "/repos/acme/widgets/pulls",
        {"base": "main", "head": "fix", "title": "Add", "draft": True},
    ).json()
    given = {"contents": "write", "pull_requests": "write"}
    client = scene.client(permissions={**given, missing: "read"})
    wish = {"query": "mutation M($input: X!) { markPullRequestReadyForReview(input: $input) }"}
    about = {"variables": {"input": {"pullRequestId": pull["node_id"]}}}
    answer = client("POST", f"{scene.gh.url}/api/graphql", {**wish, **about})
    assert answer.json()["errors"][0]["type"] == "FORBIDDEN"
    assert scene.repo.pulls[0].draft


def test_unknown_graphql_is_an_error(scene: Scene) -> None:
    client = scene.client()
    url = f"{scene.gh.url}/api/graphql"
    answer = client("POST", url, {"query": "{ viewer { login } }"})
    assert (answer.status_code, answer.json()["data"]) == (200, None)
    assert answer.json()["errors"]
    assert scene.anonymous()("POST", url, {"query": "{}"}).status_code == 401
