"""What the gateway does when GitHub is slow, down, or refuses: against laid-out answers."""

from __future__ import annotations

import pytest

from app.github.errors import NotAllowed, NotFound, RateLimited
from app.github.gateway import GitHubGateway, Permission
from tests.app.github.answers import REPO, a_user
from tests.app.github.conftest import MINT, Clock
from tests.app.github.scripted import Answer, Asked, ScriptedApi


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
                "owner": a_user("octo", "Organization"),
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
