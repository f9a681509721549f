"""Pull requests and the replies on them: each made once, whatever fails."""

from __future__ import annotations

from typing import Any

import pytest

from app.github.errors import Invalid
from app.github.gateway import GitHubGateway
from tests.app.github.answers import MARKER, MOMENT, REPO, a_comment, a_pull
from tests.app.github.scripted import Answer, Asked, ScriptedApi


def _ensure_pull(gateway: GitHubGateway, **changes: Any) -> Any:
    wish = {"head": "aider/issue-1", "base": "main", "title": "Fix", "body": "Text", **changes}
    return gateway.ensure_pull(**wish)


def test_a_draft_pull_request_is_opened_once(gateway: GitHubGateway, api: ScriptedApi) -> None:
    opened: list[dict[str, Any]] = []

    def create(asked: Asked) -> Answer:
        opened.append(a_pull(**{k: asked.body[k] for k in ("title", "body", "draft")}))
        return Answer(hang_up=True)

    api.reply("GET", f"{REPO}/pulls", lambda _: Answer(body=opened))
    api.reply("POST", f"{REPO}/pulls", create)
    pull = _ensure_pull(gateway)
    assert (pull.number, pull.draft, pull.draft_unsupported) == (5, True, False)
    assert (pull.head_sha, pull.base_ref, pull.head_repo_id) == ("b" * 40, "main", 42)
    assert _ensure_pull(gateway) == pull
    assert len(opened) == 1
    looked = api.asked_for("GET", f"{REPO}/pulls")[0]
    assert looked.query["head"] == ["octo:aider/issue-1"]
    assert looked.query["state"] == ["open"]


def test_an_open_pull_request_is_brought_up_to_date(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    api.reply("GET", f"{REPO}/pulls", Answer(body=[a_pull(title="Old")]))
    api.reply("PATCH", f"{REPO}/pulls/5", lambda a: Answer(body=a_pull(**a.body)))
    assert _ensure_pull(gateway).title == "Fix"
    assert api.asked_for("PATCH", f"{REPO}/pulls/5")[0].body == {"title": "Fix", "body": "Text"}


def test_a_pull_request_of_another_branch_is_not_taken_for_ours(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    other = {"ref": "other", "sha": "b" * 40, "repo": None}
    api.reply("GET", f"{REPO}/pulls", Answer(body=[a_pull(head=other)]))
    assert gateway.find_pull("aider/issue-1") is None
    assert gateway.find_pull("other") is not None


def test_where_drafts_do_not_exist_an_ordinary_pull_request_is_opened(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    words = "Draft pull requests are not supported in this repository."
    api.reply("GET", f"{REPO}/pulls", Answer(body=[]))
    api.reply(
        "POST",
        f"{REPO}/pulls",
        lambda a: (
            Answer(422, {"message": words}) if a.body["draft"] else Answer(201, a_pull(draft=False))
        ),
    )
    pull = _ensure_pull(gateway)
    assert (pull.draft, pull.draft_unsupported) == (False, True)


def test_somebody_quicker_is_found_by_looking_again(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    words = "A pull request already exists for octo:aider/issue-1."
    api.reply("GET", f"{REPO}/pulls", Answer(body=[]), Answer(body=[a_pull()]))
    api.reply(
        "POST", f"{REPO}/pulls", Answer(422, {"message": "Validation Failed", "errors": [words]})
    )
    assert _ensure_pull(gateway).number == 5


def test_a_pull_request_that_github_refuses_is_told_and_not_repeated(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    refusal = {
        "message": "Validation Failed",
        "errors": [{"message": "No commits between a and b"}],
    }
    api.reply("GET", f"{REPO}/pulls", Answer(body=[]))
    api.reply("POST", f"{REPO}/pulls", Answer(422, refusal))
    with pytest.raises(Invalid, match="No commits between"):
        _ensure_pull(gateway)
    assert len(api.asked_for("POST", f"{REPO}/pulls")) == 1


def test_a_merged_pull_request_of_a_deleted_fork_is_read(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    head = {"ref": "x", "sha": "b" * 40, "repo": None}
    api.reply(
        "GET", f"{REPO}/pulls/5", Answer(body=a_pull(state="closed", merged_at=MOMENT, head=head))
    )
    pull = gateway.get_pull(5)
    assert (pull.merged, pull.head_repo_id) == (True, None)


def _review_comment(number: int, body: str, reply_to: int | None = None) -> dict[str, Any]:
    return {
        **a_comment(number, body),
        "path": "a.py",
        "line": 3,
        "start_line": None,
        "diff_hunk": "@@",
        "commit_id": "b" * 40,
        "in_reply_to_id": reply_to,
        "pull_request_review_id": 4,
    }


def test_a_reply_is_made_once(gateway: GitHubGateway, api: ScriptedApi) -> None:
    thread = [_review_comment(10, "please"), _review_comment(11, MARKER)]

    def post(asked: Asked) -> Answer:
        thread.append(_review_comment(12, asked.body["body"], reply_to=10))
        return Answer(hang_up=True)

    api.reply("GET", f"{REPO}/pulls/5/comments", lambda _: Answer(body=thread))
    api.reply("POST", f"{REPO}/pulls/5/comments/10/replies", post)
    for _ in range(2):
        reply = gateway.create_reply(5, 10, MARKER, f"{MARKER} done")
        assert (reply.id, reply.in_reply_to, reply.path) == (12, 10, "a.py")
        assert reply.review_id == 4
    assert len(thread) == 3
