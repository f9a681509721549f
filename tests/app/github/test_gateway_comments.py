"""Issues, comments and reactions: each made once, whatever fails."""

from __future__ import annotations

from typing import Any

import pytest

from app.github.errors import Gone, Invalid, NotAllowed
from app.github.gateway import GitHubGateway
from tests.app.github.answers import MARKER, REPO, a_comment
from tests.app.github.conftest import MINT
from tests.app.github.scripted import Answer, Asked, ScriptedApi


def test_an_issue_without_body_and_author_is_read(gateway: GitHubGateway, api: ScriptedApi) -> None:
    api.reply(
        "GET",
        f"{REPO}/issues/1",
        Answer(
            body={
                "number": 1,
                "title": "Pump",
                "body": None,
                "user": None,
                "state": "open",
                "locked": True,
                "labels": [{"name": "aider", "url": "http://h/l"}],
                "html_url": "http://h/i/1",
                "url": "http://h/repos/octo/ship/issues/1",
            }
        ),
    )
    issue = gateway.get_issue(1)
    assert (issue.body, issue.author, issue.locked) == ("", "ghost", True)
    assert issue.labels == ("aider",)
    assert not issue.is_pull_request


def test_a_deleted_issue_is_gone(gateway: GitHubGateway, api: ScriptedApi) -> None:
    api.reply("GET", f"{REPO}/issues/1", Answer(410, {"message": "This issue was deleted"}))
    with pytest.raises(Gone, match="deleted"):
        gateway.get_issue(1)


def test_comments_come_from_every_page(gateway: GitHubGateway, api: ScriptedApi) -> None:
    path = f"{REPO}/issues/1/comments"
    link = {"Link": f'<{api.url}{path}?page=2>; rel="next"'}

    def reply(asked: Asked) -> Answer:
        if asked.query.get("page") == ["2"]:
            return Answer(body=[a_comment(2, "b")])
        return Answer(body=[a_comment(1, "a")], headers=link)

    api.reply("GET", path, reply)
    assert [c.id for c in gateway.list_issue_comments(1)] == [1, 2]


def test_a_next_page_at_another_address_is_told(gateway: GitHubGateway, api: ScriptedApi) -> None:
    path = f"{REPO}/issues/1/comments"
    link = {"Link": f'<http://127.0.0.1:1{path}?page=2>; rel="next"'}
    api.reply("GET", path, Answer(body=[a_comment(1, "a")], headers=link))
    with pytest.raises(Invalid, match="another address than DRYDOCK_GITHUB_API_URL"):
        gateway.list_issue_comments(1)


class Conversation:
    """The comments of issue 1, with a server that can fail before or after it did its work."""

    def __init__(self, api: ScriptedApi) -> None:
        self.comments: list[dict[str, Any]] = []
        self.failures: list[str] = []
        api.reply("GET", f"{REPO}/issues/1/comments", lambda _: Answer(body=self.comments))
        api.reply("POST", f"{REPO}/issues/1/comments", self._post)
        for number in range(1, 9):
            api.reply("PATCH", f"{REPO}/issues/comments/{number}", self._patch)

    def _post(self, asked: Asked) -> Answer:
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "before":
            return Answer(502)
        self.comments.append(a_comment(len(self.comments) + 1, asked.body["body"]))
        return Answer(hang_up=True) if failure == "after" else Answer(201, self.comments[-1])

    def _patch(self, asked: Asked) -> Answer:
        number = int(asked.path.rpartition("/")[2])
        found = [c for c in self.comments if c["id"] == number]
        if not found:
            return Answer(404, {"message": "Not Found"})
        found[0]["body"] = asked.body["body"]
        return Answer(body=found[0])


@pytest.mark.parametrize("failures", [[], ["before"], ["after"], ["before", "before", "after"]])
def test_a_comment_is_made_once_whatever_fails(
    gateway: GitHubGateway, api: ScriptedApi, failures: list[str]
) -> None:
    talk = Conversation(api)
    talk.failures = failures
    comment = gateway.ensure_comment(1, MARKER, f"{MARKER} hello")
    assert [c["id"] for c in talk.comments] == [comment.id]
    assert comment.body == f"{MARKER} hello"


def test_a_comment_that_is_there_is_edited_when_it_says_something_else(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    talk = Conversation(api)
    first = gateway.ensure_comment(1, MARKER, f"{MARKER} one")
    again = gateway.ensure_comment(1, MARKER, f"{MARKER} one")
    changed = gateway.ensure_comment(1, MARKER, f"{MARKER} two")
    assert (again, changed.id) == (first, first.id)
    assert [c["body"] for c in talk.comments] == [f"{MARKER} two"]
    assert len(api.asked_for("PATCH", f"{REPO}/issues/comments/1")) == 1


def test_a_comment_of_an_earlier_process_is_found_and_left_when_it_says_the_same(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    talk = Conversation(api)
    talk.comments.append(a_comment(1, MARKER))
    assert gateway.ensure_comment(1, MARKER, MARKER).id == 1
    assert api.asked_for("PATCH", f"{REPO}/issues/comments/1") == []


def test_a_marker_in_somebody_elses_comment_does_not_count(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    talk = Conversation(api)
    talk.comments.append(a_comment(1, f"> {MARKER}", login="mallory"))
    assert gateway.find_comment(1, MARKER) is None
    assert gateway.ensure_comment(1, MARKER, f"{MARKER} ours").id == 2


def test_a_comment_is_searched_for_once_and_posted_again_when_it_was_deleted(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    talk = Conversation(api)
    gateway.ensure_comment(1, MARKER, f"{MARKER} one")
    gateway.ensure_comment(1, MARKER, f"{MARKER} two")
    assert len(api.asked_for("GET", f"{REPO}/issues/1/comments")) == 1
    talk.comments.clear()
    assert gateway.ensure_comment(1, MARKER, f"{MARKER} three").body == f"{MARKER} three"
    assert [c["body"] for c in talk.comments] == [f"{MARKER} three"]


def test_a_body_without_its_marker_is_a_mistake(gateway: GitHubGateway) -> None:
    with pytest.raises(ValueError, match="marker"):
        gateway.ensure_comment(1, MARKER, "hello")


def test_a_locked_issue_takes_no_comment_and_is_asked_once(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    Conversation(api)
    words = "Unable to create comment because issue is locked."
    api.reply("POST", f"{REPO}/issues/1/comments", Answer(403, {"message": words}))
    with pytest.raises(NotAllowed, match="locked"):
        gateway.ensure_comment(1, MARKER, MARKER)
    assert len(api.asked_for("POST", f"{REPO}/issues/1/comments")) == 1


def test_reactions_and_labels_are_sent_as_asked(gateway: GitHubGateway, api: ScriptedApi) -> None:
    for path in ("issues/1", "issues/comments/2", "pulls/comments/3"):
        api.reply("POST", f"{REPO}/{path}/reactions", Answer(200, {"id": 1}))
    api.reply("POST", f"{REPO}/issues/1/labels", Answer(200, []))
    gateway.react_to_issue(1, "eyes")
    gateway.react_to_comment(2, "rocket")
    gateway.react_to_review_comment(3, "confused")
    gateway.add_labels(1, "aider", "bot")
    sent = [a.body for a in api.asked if a.verb == "POST" and a.path != MINT]
    assert sent == [
        {"content": "eyes"},
        {"content": "rocket"},
        {"content": "confused"},
        {"labels": ["aider", "bot"]},
    ]
