"""What the gateway does when GitHub is slow, down, or refuses: against laid-out answers."""

from __future__ import annotations

from typing import Any

import pytest

from app.github.errors import (
    GitHubUnavailable,
    Gone,
    Invalid,
    NotAllowed,
    NotFound,
    RateLimited,
)
from app.github.gateway import CheckRunWish, GitHubGateway, Permission
from tests.app.github.conftest import MINT, Clock
from tests.app.github.scripted import Answer, Asked, ScriptedApi

REPO = "/repos/octo/ship"
MOMENT = "2026-03-01T12:00:00Z"
MARKER = "<!-- drydock:status run=R1 -->"


def _user(login: str = "drydock-test[bot]", kind: str = "Bot") -> dict[str, Any]:
    return {"login": login, "id": 1, "type": kind, "url": "http://h/u"}


def _comment(number: int, body: str, login: str = "drydock-test[bot]") -> dict[str, Any]:
    return {
        "id": number,
        "body": body,
        "user": _user(login),
        "author_association": "NONE",
        "html_url": f"http://h/c/{number}",
        "created_at": MOMENT,
        "updated_at": MOMENT,
        "url": f"http://h{REPO}/issues/comments/{number}",
    }


def _pull(number: int = 5, **changes: Any) -> dict[str, Any]:
    return {
        "number": number,
        "html_url": f"http://h/pull/{number}",
        "title": "Fix",
        "body": "Text",
        "user": _user(),
        "state": "open",
        "merged_at": None,
        "draft": True,
        "node_id": "PR_1",
        "head": {"ref": "aider/issue-1", "sha": "b" * 40, "repo": {"id": 42}},
        "base": {"ref": "main", "sha": "a" * 40, "repo": {"id": 42}},
        "url": f"http://h{REPO}/pulls/{number}",
        **changes,
    }


def _check(number: int = 3, **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "name": "Drydock",
        "head_sha": "a" * 40,
        "external_id": "R1",
        "status": "in_progress",
        "conclusion": None,
        "html_url": "http://h/check",
        "output": {"title": "Working", "summary": "…"},
        "url": f"http://h{REPO}/check-runs/{number}",
        **changes,
    }


WISH = CheckRunWish(
    name="Drydock",
    head_sha="a" * 40,
    external_id="R1",
    status="in_progress",
    title="Working",
    summary="…",
)


# --- permissions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "permission"),
    [
        ({"permission": "admin", "role_name": "admin"}, Permission.ADMIN),
        ({"permission": "write", "role_name": "maintain"}, Permission.MAINTAIN),
        ({"permission": "read", "role_name": "triage"}, Permission.TRIAGE),
        ({"permission": "write", "role_name": "release-captain"}, Permission.WRITE),
        ({"permission": "none", "role_name": ""}, Permission.NONE),
        ({"permission": "write"}, Permission.WRITE),
        ({"permission": "owner"}, Permission.NONE),
        ({}, Permission.NONE),
    ],
)
def test_a_role_is_read_from_what_github_answers(
    gateway: GitHubGateway, api: ScriptedApi, answer: dict[str, str], permission: Permission
) -> None:
    api.reply("GET", f"{REPO}/collaborators/ada/permission", Answer(body=answer))
    assert gateway.permission_of("ada") is permission


def test_a_stranger_has_no_role(gateway: GitHubGateway) -> None:
    assert gateway.permission_of("nobody") is Permission.NONE


@pytest.mark.parametrize("login", ["ghost", "Ghost", "", "../../user", "a/b", "a?b"])
def test_who_cannot_be_somebody_is_not_asked_for(
    gateway: GitHubGateway, api: ScriptedApi, login: str
) -> None:
    assert gateway.permission_of(login) is Permission.NONE
    assert api.asked == []


def test_an_outage_is_never_taken_for_an_answer(gateway: GitHubGateway, api: ScriptedApi) -> None:
    api.reply("GET", f"{REPO}/collaborators/ada/permission", Answer(500))
    with pytest.raises(GitHubUnavailable):
        gateway.permission_of("ada")


def test_a_bots_login_is_quoted(gateway: GitHubGateway, api: ScriptedApi) -> None:
    path = f"{REPO}/collaborators/renovate%5Bbot%5D/permission"
    api.reply("GET", path, Answer(body={"permission": "write"}))
    assert gateway.permission_of("renovate[bot]") is Permission.WRITE


# --- tokens, redirects, retries ---------------------------------------------------------------


def test_a_token_that_github_no_longer_takes_is_replaced_once(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    def reply(asked: Asked) -> Answer:
        if asked.headers["authorization"] == "token t1":
            return Answer(401, {"message": "Bad credentials"})
        return Answer(body={"permission": "read"})

    api.reply("GET", f"{REPO}/collaborators/ada/permission", reply)
    assert gateway.permission_of("ada") is Permission.READ
    assert len(api.asked_for("POST", MINT)) == 2


def test_a_token_that_is_never_taken_is_an_error(gateway: GitHubGateway, api: ScriptedApi) -> None:
    api.reply("GET", f"{REPO}/collaborators/ada/permission", Answer(401, {"message": "Bad"}))
    with pytest.raises(NotAllowed):
        gateway.permission_of("ada")
    assert len(api.asked_for("POST", MINT)) == 2


def test_a_renamed_repository_is_followed_when_reading(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    to = {"Location": f"{api.url}/repositories/42"}
    api.reply("GET", REPO, Answer(301, {"message": "Moved Permanently"}, to))
    api.reply(
        "GET",
        "/repositories/42",
        Answer(
            body={
                "id": 42,
                "name": "boat",
                "owner": _user("octo", "Organization"),
                "default_branch": "trunk",
                "private": True,
                "archived": False,
                "fork": False,
                "clone_url": "http://h/octo/boat.git",
                "html_url": "http://h/octo/boat",
                "url": f"{api.url}/repos/octo/boat",
            }
        ),
    )
    repo = gateway.get_repo()
    assert (repo.full_name, repo.default_branch, repo.private) == ("octo/boat", "trunk", True)


def test_a_renamed_repository_is_followed_when_writing(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    to = {"Location": f"{api.url}/repositories/42/issues/1/reactions"}
    api.reply("POST", f"{REPO}/issues/1/reactions", Answer(307, {"message": "Moved"}, to))
    api.reply("POST", "/repositories/42/issues/1/reactions", Answer(201, {"id": 1}))
    gateway.react_to_issue(1, "eyes")
    (followed,) = api.asked_for("POST", "/repositories/42/issues/1/reactions")
    assert followed.body == {"content": "eyes"}


def test_a_redirect_is_never_taken_for_an_answer(gateway: GitHubGateway, api: ScriptedApi) -> None:
    api.reply("POST", f"{REPO}/issues/1/reactions", Answer(302, {"message": "Moved"}))
    with pytest.raises(NotFound, match="moved"):
        gateway.react_to_issue(1, "eyes")


def test_the_token_never_leaves_for_another_host(gateway: GitHubGateway, api: ScriptedApi) -> None:
    to = {"Location": "http://other.invalid/repositories/42/issues/1/reactions"}
    api.reply("POST", f"{REPO}/issues/1/reactions", Answer(307, {"message": "Moved"}, to))
    with pytest.raises(NotFound):
        gateway.react_to_issue(1, "eyes")
    assert api.asked[-1].path == "/repositories/42/issues/1/reactions"


def test_reads_are_repeated_and_answers_that_are_none_do_not_count(
    gateway: GitHubGateway, api: ScriptedApi, clock: Clock
) -> None:
    api.reply(
        "GET",
        f"{REPO}/collaborators/ada/permission",
        Answer(502),
        Answer(raw=b'{"permission": "adm'),
        Answer(hang_up=True),
        Answer(body={"permission": "admin"}),
    )
    assert gateway.permission_of("ada") is Permission.ADMIN
    assert len(clock.slept) == 3


def test_a_short_rate_limit_is_waited_for_and_a_long_one_is_told(
    gateway: GitHubGateway, api: ScriptedApi, clock: Clock
) -> None:
    path = f"{REPO}/collaborators/ada/permission"
    limited = Answer(403, {"message": "secondary rate limit"}, {"Retry-After": "5"})
    api.reply("GET", path, limited, Answer(body={"permission": "read"}))
    assert gateway.permission_of("ada") is Permission.READ
    assert 5 <= clock.slept[0] < 6
    api.reply("GET", path, Answer(403, {"message": "x"}, {"Retry-After": "300"}))
    with pytest.raises(RateLimited):
        gateway.permission_of("ada")
    assert len(clock.slept) == 1


def test_requests_say_who_asks_and_in_which_version(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    gateway.permission_of("ada")
    asked = api.asked[-1]
    assert asked.headers["user-agent"] == "drydock"
    assert asked.headers["x-github-api-version"] == "2022-11-28"
    assert asked.headers["authorization"] == "token t1"


# --- branches and files -----------------------------------------------------------------------


def test_a_branch_is_a_commit_or_nothing(gateway: GitHubGateway, api: ScriptedApi) -> None:
    api.reply(
        "GET",
        f"{REPO}/git/ref/heads/feature/x",
        Answer(body={"ref": "refs/heads/feature/x", "object": {"sha": "c" * 40, "type": "commit"}}),
    )
    assert gateway.branch_sha("feature/x") == "c" * 40
    assert gateway.branch_sha("none") is None
    assert gateway.branch_sha("../../../user") is None
    assert {a.body["permissions"]["contents"] for a in api.asked_for("POST", MINT)} == {"read"}


def test_an_empty_repository_has_no_branch(gateway: GitHubGateway, api: ScriptedApi) -> None:
    api.reply(
        "GET", f"{REPO}/git/ref/heads/main", Answer(409, {"message": "Git Repository is empty."})
    )
    assert gateway.branch_sha("main") is None


def test_a_file_is_its_bytes_or_nothing(gateway: GitHubGateway, api: ScriptedApi) -> None:
    path = f"{REPO}/contents/.github/drydock.yml"
    entry = {"type": "file", "encoding": "base64", "content": "dGVzdDogeA==\n", "url": "http://h/x"}
    api.reply("GET", path, Answer(body=entry))
    assert gateway.get_file(".github/drydock.yml", "main") == b"test: x"
    assert api.asked[-1].query == {"ref": ["main"]}
    assert gateway.get_file("nothing", "main") is None


@pytest.mark.parametrize(
    "entry",
    [
        [{"type": "file", "name": "a", "url": "http://h/x"}],
        {"type": "symlink", "target": "/etc/passwd", "url": "http://h/x"},
        {"type": "file", "encoding": "none", "content": "", "url": "http://h/x"},
    ],
)
def test_what_is_no_ordinary_file_is_refused(
    gateway: GitHubGateway, api: ScriptedApi, entry: object
) -> None:
    api.reply("GET", f"{REPO}/contents/f", Answer(body=entry))
    with pytest.raises(Invalid, match="not an ordinary file"):
        gateway.get_file("f", "main")


# --- issues and comments ----------------------------------------------------------------------


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
            return Answer(body=[_comment(2, "b")])
        return Answer(body=[_comment(1, "a")], headers=link)

    api.reply("GET", path, reply)
    assert [c.id for c in gateway.list_issue_comments(1)] == [1, 2]


def test_a_next_page_at_another_address_is_told(gateway: GitHubGateway, api: ScriptedApi) -> None:
    path = f"{REPO}/issues/1/comments"
    link = {"Link": f'<http://127.0.0.1:1{path}?page=2>; rel="next"'}
    api.reply("GET", path, Answer(body=[_comment(1, "a")], headers=link))
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
        self.comments.append(_comment(len(self.comments) + 1, asked.body["body"]))
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


def test_a_marker_in_somebody_elses_comment_does_not_count(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    talk = Conversation(api)
    talk.comments.append(_comment(1, f"> {MARKER}", login="mallory"))
    assert gateway.find_comment(1, MARKER) is None
    assert gateway.ensure_comment(1, MARKER, f"{MARKER} ours").id == 2


def test_a_known_comment_is_edited_without_a_search_and_posted_again_when_deleted(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    talk = Conversation(api)
    talk.comments.append(_comment(1, "old"))
    assert gateway.ensure_comment(1, MARKER, MARKER, known_id=1).id == 1
    assert api.asked_for("GET", f"{REPO}/issues/1/comments") == []
    talk.comments.clear()
    assert gateway.ensure_comment(1, MARKER, MARKER, known_id=8).body == MARKER


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


# --- pull requests ----------------------------------------------------------------------------


def _ensure_pull(gateway: GitHubGateway, **changes: Any) -> Any:
    wish = {"head": "aider/issue-1", "base": "main", "title": "Fix", "body": "Text", **changes}
    return gateway.ensure_pull(**wish)


def test_a_draft_pull_request_is_opened_once(gateway: GitHubGateway, api: ScriptedApi) -> None:
    opened: list[dict[str, Any]] = []

    def create(asked: Asked) -> Answer:
        opened.append(_pull(**{k: asked.body[k] for k in ("title", "body", "draft")}))
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
    api.reply("GET", f"{REPO}/pulls", Answer(body=[_pull(title="Old")]))
    api.reply("PATCH", f"{REPO}/pulls/5", lambda a: Answer(body=_pull(**a.body)))
    assert _ensure_pull(gateway).title == "Fix"
    assert api.asked_for("PATCH", f"{REPO}/pulls/5")[0].body == {"title": "Fix", "body": "Text"}


def test_a_pull_request_of_another_branch_is_not_taken_for_ours(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    other = {"ref": "other", "sha": "b" * 40, "repo": None}
    api.reply("GET", f"{REPO}/pulls", Answer(body=[_pull(head=other)]))
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
            Answer(422, {"message": words}) if a.body["draft"] else Answer(201, _pull(draft=False))
        ),
    )
    pull = _ensure_pull(gateway)
    assert (pull.draft, pull.draft_unsupported) == (False, True)


def test_somebody_quicker_is_found_by_looking_again(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    words = "A pull request already exists for octo:aider/issue-1."
    api.reply("GET", f"{REPO}/pulls", Answer(body=[]), Answer(body=[_pull()]))
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
        "GET", f"{REPO}/pulls/5", Answer(body=_pull(state="closed", merged_at=MOMENT, head=head))
    )
    pull = gateway.get_pull(5)
    assert (pull.merged, pull.head_repo_id) == (True, None)


def _review_comment(number: int, body: str, reply_to: int | None = None) -> dict[str, Any]:
    return {
        **_comment(number, body),
        "path": "a.py",
        "line": 3,
        "start_line": None,
        "diff_hunk": "@@",
        "commit_id": "b" * 40,
        "in_reply_to_id": reply_to,
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
    assert len(thread) == 3


# --- check runs -------------------------------------------------------------------------------


def test_a_check_run_is_made_once(gateway: GitHubGateway, api: ScriptedApi) -> None:
    made: list[dict[str, Any]] = [_check(1, external_id="another run")]

    def create(asked: Asked) -> Answer:
        made.append(_check(3, external_id=asked.body["external_id"]))
        return Answer(502)

    path = f"{REPO}/commits/{'a' * 40}/check-runs"
    api.reply("GET", path, lambda _: Answer(body={"total_count": 1, "check_runs": made}))
    api.reply("POST", f"{REPO}/check-runs", create)
    assert gateway.ensure_check_run(WISH).id == 3
    assert gateway.ensure_check_run(WISH).id == 3
    assert len(made) == 2
    (asked,) = api.asked_for("POST", f"{REPO}/check-runs")
    assert asked.body == {
        "name": "Drydock",
        "head_sha": "a" * 40,
        "external_id": "R1",
        "status": "in_progress",
        "output": {"title": "Working", "summary": "…"},
    }


def test_a_check_run_that_stands_otherwise_is_updated(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    found = {"total_count": 1, "check_runs": [_check(status="queued")]}
    api.reply("GET", f"{REPO}/commits/{'a' * 40}/check-runs", Answer(body=found))
    api.reply("PATCH", f"{REPO}/check-runs/3", Answer(body=_check()))
    assert gateway.ensure_check_run(WISH).status == "in_progress"
    (asked,) = api.asked_for("PATCH", f"{REPO}/check-runs/3")
    assert asked.body["status"] == "in_progress"
    assert "conclusion" not in asked.body


def test_a_known_check_run_is_updated_without_a_search(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    api.reply("PATCH", f"{REPO}/check-runs/3", Answer(body=_check()))
    gateway.ensure_check_run(WISH, known_id=3)
    assert {a.verb for a in api.asked if a.path != MINT} == {"PATCH"}
