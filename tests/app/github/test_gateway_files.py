"""Branches and files, as the gateway reads them."""

from __future__ import annotations

import pytest

from app.github.errors import Invalid
from app.github.gateway import GitHubGateway
from tests.app.github.answers import REPO
from tests.app.github.conftest import MINT
from tests.app.github.scripted import Answer, ScriptedApi


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
