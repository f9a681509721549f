"""Teams: who is in them, what they may see, and whom GitHub does not ask for a review."""

from __future__ import annotations

from typing import Any

import pytest

from demo.github import Pull
from demo.github.teams import Team
from tests.demo.github.conftest import Client, Scene

REPO = "/repos/acme/widgets"
CREW = "/orgs/acme/teams/crew/memberships"


@pytest.fixture
def crew(scene: Scene) -> Team:
    scene.gh.create_user("bob")
    return scene.gh.create_team("acme", "Crew", "bob")


@pytest.fixture
def reader(scene: Scene, crew: Team) -> Client:
    """The App with a permission that it has to ask for."""
    scene.gh.accept_permissions(scene.app, scene.repo, members="read")
    return scene.client()


def test_a_member_is_active_and_everybody_else_is_not_found(
    scene: Scene, crew: Team, reader: Client
) -> None:
    answer = reader("GET", f"{CREW}/bob")
    assert (answer.status_code, answer.json()["state"]) == (200, "active")
    crew.members["alice"] = "pending"
    assert reader("GET", f"{CREW}/alice").json()["state"] == "pending"
    scene.gh.create_user("carol")
    gone = (f"{CREW}/carol", f"{CREW}/nobody", "/orgs/acme/teams/none/memberships/bob")
    assert [reader("GET", path).status_code for path in gone] == [404, 404, 404]


def test_an_app_without_the_permission_is_shown_no_team(scene: Scene, crew: Team) -> None:
    answer = scene.client()("GET", f"{CREW}/bob")
    assert answer.status_code == 403
    assert answer.json()["message"] == "Resource not accessible by integration"
    assert scene.anonymous()("GET", f"{CREW}/bob").status_code == 401


def test_teams_of_another_organization_are_not_there(scene: Scene, reader: Client) -> None:
    scene.gh.create_organization("other")
    scene.gh.create_team("other", "crew", "bob")
    assert reader("GET", "/orgs/other/teams/crew/memberships/bob").status_code == 404


def test_a_person_sees_the_teams_of_an_organization_that_they_belong_to(
    scene: Scene, crew: Team
) -> None:
    bob = Client(scene.gh.api_url, scene.gh.user("bob").token())
    alice = Client(scene.gh.api_url, scene.alice.token())
    assert bob("GET", f"{CREW}/bob").status_code == 200
    assert alice("GET", f"{CREW}/bob").status_code == 404


def test_a_teams_role_is_its_active_members_role(scene: Scene, crew: Team) -> None:
    bob = scene.gh.user("bob").user
    assert scene.repo.role_of(bob) == "none"
    crew.grant(scene.repo, "maintain")
    assert scene.repo.role_of(bob) == "maintain"
    crew.members["bob"] = "pending"
    assert scene.repo.role_of(bob) == "none"


def test_only_an_organization_has_teams(scene: Scene) -> None:
    with pytest.raises(ValueError, match="is not an organization"):
        scene.gh.create_team("alice", "crew")


# --- reviews ----------------------------------------------------------------------------------


@pytest.fixture
def pull(scene: Scene) -> Pull:
    scene.repo.commit({"calc.py": "x = 1\n"}, branch="topic")
    body = {"title": "Add", "head": "topic", "base": "main"}
    assert scene.client()("POST", f"{REPO}/pulls", body).status_code == 201
    return scene.repo.pulls[0]


def asks(client: Client, **body: Any) -> Any:
    return client("POST", f"{REPO}/pulls/1/requested_reviewers", body)


def test_a_team_with_a_role_is_asked_for_a_review(
    scene: Scene, crew: Team, reader: Client, pull: Pull
) -> None:
    crew.grant(scene.repo, "write")
    answer = asks(reader, reviewers=["alice"], team_reviewers=["crew"])
    assert answer.status_code == 201
    assert [one["slug"] for one in answer.json()["requested_teams"]] == ["crew"]
    assert asks(reader, team_reviewers=["crew"]).status_code == 201
    assert (pull.requested_reviewers, pull.requested_teams) == ([scene.alice.user], [crew])


@pytest.mark.parametrize("slug", ["crew", "none"])
def test_a_team_without_a_role_and_one_that_is_not_there_are_refused_with_all_others(
    scene: Scene, reader: Client, pull: Pull, slug: str
) -> None:
    answer = asks(reader, reviewers=["alice"], team_reviewers=[slug])
    assert answer.status_code == 422
    assert "One or more of the teams you specified is not a collab" in answer.json()["message"]
    assert (pull.requested_reviewers, pull.requested_teams) == ([], [])


def test_an_app_that_may_not_read_members_cannot_ask_a_team(
    scene: Scene, crew: Team, pull: Pull
) -> None:
    crew.grant(scene.repo, "write")
    answer = asks(scene.client(), team_reviewers=["crew"])
    assert answer.status_code == 422
    assert answer.json()["message"] == "Validation Failed"
    assert "Could not resolve to a node with the global id" in answer.json()["errors"][0]
    assert pull.requested_teams == []


def test_a_team_is_no_longer_asked_when_that_is_taken_back(
    scene: Scene, crew: Team, reader: Client, pull: Pull
) -> None:
    crew.grant(scene.repo, "write")
    asks(reader, team_reviewers=["crew"])
    body = {"reviewers": [], "team_reviewers": ["crew"]}
    path = f"{REPO}/pulls/1/requested_reviewers"
    assert reader("DELETE", path, body).status_code == 200
    assert pull.requested_teams == []
