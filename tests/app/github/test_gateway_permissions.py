"""Who may do what, as the gateway reads it from GitHub's answers."""

from __future__ import annotations

import pytest

from app.github.errors import GitHubUnavailable
from app.github.gateway import GitHubGateway, Permission
from tests.app.github.answers import REPO
from tests.app.github.scripted import Answer, ScriptedApi


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
