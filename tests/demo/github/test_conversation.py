"""Issues, comments, labels, reactions: what GitHub refuses and remembers."""

from __future__ import annotations

from typing import Any

import pytest

from demo.github import NotAllowed
from tests.demo.github.conftest import Client, Scene

REPO = "/repos/acme/widgets"


@pytest.fixture
def api(scene: Scene) -> Client:
    return scene.client()


def errors(answer: Any) -> list[dict[str, Any]]:
    assert answer.status_code == 422, answer.text
    body = answer.json()
    assert body["message"] == "Validation Failed"
    assert body["documentation_url"]
    return list(body["errors"])


def test_people_and_programs_see_the_same_issue(scene: Scene, api: Client) -> None:
    issue = scene.alice.opens_issue(scene.repo, "It breaks", "When pressed")
    scene.alice.labels(issue, "aider")
    api("POST", f"{REPO}/issues/1/comments", {"body": "On it"})
    api("POST", f"{REPO}/issues/1/reactions", {"content": "eyes"})
    assert issue.label_names == ("aider",)
    assert [(c.author.login, c.body) for c in issue.comments] == [("drydock[bot]", "On it")]
    assert [r.content for r in issue.reactions] == ["eyes"]
    shown = api("GET", f"{REPO}/issues/1").json()
    assert (shown["comments"], shown["reactions"]["eyes"]) == (1, 1)


def test_a_body_may_have_65536_characters_and_not_one_more(scene: Scene, api: Client) -> None:
    scene.alice.opens_issue(scene.repo, "Long")
    path = f"{REPO}/issues/1/comments"
    assert api("POST", path, {"body": "ü" * 65_536}).status_code == 201
    (error,) = errors(api("POST", path, {"body": "ü" * 65_537}))
    assert error["message"] == "body is too long (maximum is 65536 characters)"
    assert errors(api("POST", f"{REPO}/issues", {"title": "x", "body": "y" * 65_537}))


def test_blank_things_are_refused(scene: Scene, api: Client) -> None:
    scene.alice.opens_issue(scene.repo, "Fine")
    assert errors(api("POST", f"{REPO}/issues/1/comments", {"body": " \n"}))
    assert errors(api("POST", f"{REPO}/issues", {"title": ""}))[0]["code"] == "missing_field"


@pytest.mark.parametrize("body", [{}, {"body": 5}, {"body": None}])
def test_a_body_of_the_wrong_shape_is_an_invalid_request(
    scene: Scene, api: Client, body: dict[str, Any]
) -> None:
    scene.alice.opens_issue(scene.repo, "Fine")
    answer = api("POST", f"{REPO}/issues/1/comments", body)
    assert answer.status_code == 422
    assert answer.json()["message"].startswith("Invalid request.")


def test_what_is_no_json_is_a_bad_request(scene: Scene) -> None:
    import requests

    headers = {"Authorization": f"Bearer {scene.token()}"}
    url = f"{scene.gh.api_url}{REPO}/issues"
    answer = requests.post(url, data=b"{", headers=headers, timeout=10)
    assert (answer.status_code, answer.json()["message"]) == (400, "Problems parsing JSON")


def test_unknown_things_are_not_found(api: Client) -> None:
    for path in ("/issues/9", "/issues/comments/9", "/pulls/9", "/nonsense", "/issues/x"):
        assert api("GET", REPO + path).status_code == 404
    assert api("GET", "/repos/acme/nothing").status_code == 404


def test_a_locked_issue_takes_no_comment_from_an_app(scene: Scene, api: Client) -> None:
    issue = scene.alice.opens_issue(scene.repo, "Heated")
    scene.alice.locks(issue)
    answer = api("POST", f"{REPO}/issues/1/comments", {"body": "but"})
    assert answer.status_code == 403
    assert answer.json()["message"] == "Unable to create comment because issue is locked."
    scene.alice.comments(issue, "Maintainers may")


def test_issues_turned_off_and_deleted_issues_are_gone(scene: Scene, api: Client) -> None:
    admin = scene.gh.create_user("root")
    scene.repo.grant(admin, "admin")
    issue = scene.alice.opens_issue(scene.repo, "Old")
    admin.deletes(issue)
    assert api("GET", f"{REPO}/issues/1").status_code == 410
    comment = scene.alice.comments(scene.alice.opens_issue(scene.repo, "New"), "Well")
    scene.repo.has_issues = False
    about_a_comment = f"/issues/comments/{comment.id}"
    for method, path, body in (
        ("GET", "/issues/2", None),
        ("GET", "/issues", None),
        ("POST", "/issues", {"title": "x"}),
        ("GET", about_a_comment, None),
        ("PATCH", about_a_comment, {"body": "x"}),
    ):
        answer = api(method, REPO + path, body)
        assert answer.status_code == 410
        assert answer.json()["message"] == "Issues has been disabled in this repository."


def test_an_archived_repository_can_only_be_read(scene: Scene, api: Client) -> None:
    scene.alice.opens_issue(scene.repo, "Old")
    scene.repo.archived = True
    assert api("GET", f"{REPO}/issues/1").status_code == 200
    answer = api("POST", f"{REPO}/issues/1/comments", {"body": "hi"})
    assert answer.status_code == 403


def test_an_unknown_reaction_is_refused(scene: Scene, api: Client) -> None:
    scene.alice.opens_issue(scene.repo, "Fine")
    answer = api("POST", f"{REPO}/issues/1/reactions", {"content": "shrug"})
    assert answer.status_code == 422


def test_the_same_reaction_twice_is_one(scene: Scene, api: Client) -> None:
    issue = scene.alice.opens_issue(scene.repo, "Fine")
    path = f"{REPO}/issues/1/reactions"
    assert api("POST", path, {"content": "eyes"}).status_code == 201
    assert api("POST", path, {"content": "eyes"}).status_code == 200
    scene.alice.reacts(issue, "eyes")
    assert [r.user.login for r in issue.reactions] == ["drydock[bot]", "alice"]


def test_nobody_takes_back_anothers_reaction(scene: Scene, api: Client) -> None:
    issue = scene.alice.opens_issue(scene.repo, "Fine")
    reaction = scene.alice.reacts(issue, "heart")
    assert api("DELETE", f"{REPO}/issues/1/reactions/{reaction.id}").status_code == 403


def test_a_label_is_told_once_and_taken_off_once(scene: Scene, api: Client) -> None:
    scene.gh.set_webhook(scene.app, "http://127.0.0.1:9/", "a test's secret")
    issue = scene.alice.opens_issue(scene.repo, "Fine")
    scene.alice.labels(issue, "aider")
    scene.alice.labels(issue, "AIDER")
    told = [d.action for d in scene.gh.deliveries if d.event == "issues"]
    assert told == ["opened", "labeled"]
    path = f"{REPO}/issues/1/labels/aider"
    assert api("DELETE", path).status_code == 200
    answer = api("DELETE", path)
    assert (answer.status_code, answer.json()["message"]) == (404, "Label does not exist")


def test_people_without_the_right_cannot_act(scene: Scene) -> None:
    public = scene.gh.create_repo("acme", "public", {"README.md": "x"})
    mallory = scene.gh.create_user("mallory")
    issue = mallory.opens_issue(public, "Please")
    with pytest.raises(NotAllowed, match="mallory has read on acme/public; this needs triage"):
        mallory.labels(issue, "aider")
    with pytest.raises(NotAllowed):
        mallory.opens_issue(scene.repo, "Private")
    mallory.closes(issue)


def test_a_deleted_account_is_nobody(scene: Scene, api: Client) -> None:
    ghost = scene.gh.create_user("ghostly")
    scene.repo.grant(ghost, "read")
    issue = ghost.opens_issue(scene.repo, "Boo")
    ghost.comments(issue, "boo")
    scene.gh.delete_user(ghost)
    assert api("GET", f"{REPO}/issues/1").json()["user"] is None
    assert api("GET", f"{REPO}/issues/1/comments").json()[0]["user"] is None


def test_lists_come_in_pages_with_links(scene: Scene, api: Client) -> None:
    issue = scene.alice.opens_issue(scene.repo, "Long talk")
    for number in range(5):
        scene.alice.comments(issue, f"{number}")
    path, seen = f"{scene.gh.api_url}{REPO}/issues/1/comments?per_page=2", []
    while path:
        answer = api("GET", path)
        seen += [comment["body"] for comment in answer.json()]
        path = answer.links.get("next", {}).get("url", "")
    assert seen == ["0", "1", "2", "3", "4"]
    assert 'rel="last"' in api("GET", f"{REPO}/issues/1/comments?per_page=2").headers["Link"]


def test_an_unchanged_answer_is_told_by_its_etag(scene: Scene, api: Client) -> None:
    issue = scene.alice.opens_issue(scene.repo, "Fine")
    etag = api("GET", f"{REPO}/issues/1").headers["ETag"]
    again = api("GET", f"{REPO}/issues/1", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    scene.alice.edits(issue, title="Finer")
    assert api("GET", f"{REPO}/issues/1", headers={"If-None-Match": etag}).status_code == 200


def test_a_renamed_repository_redirects(scene: Scene, api: Client) -> None:
    scene.gh.rename_repo(scene.repo, "sprockets")
    answer = api("GET", f"{REPO}/issues?state=all")
    assert answer.status_code == 301
    where = answer.headers["Location"]
    assert where == f"{scene.gh.api_url}/repositories/{scene.repo.id}/issues"
    assert api("GET", where).status_code == 200
    assert api("POST", f"{REPO}/issues", {"title": "x"}).status_code == 307


def test_addresses_are_those_the_server_is_reached_by(scene: Scene) -> None:
    port = scene.gh.url.rsplit(":", 1)[1]
    elsewhere = Client(f"http://localhost:{port}/api/v3", scene.token())
    shown = elsewhere("GET", "/repos/acme/widgets").json()
    assert shown["clone_url"] == f"http://localhost:{port}/acme/widgets.git"
    assert shown["url"] == f"http://localhost:{port}/api/v3/repos/acme/widgets"
