"""Whose commits this GitHub signs, and which count as verified."""

from __future__ import annotations

from typing import Any

import pytest

from demo.github.git import GitRepo
from tests.demo.github.conftest import Client, Scene

WHO = {"name": "Mona", "email": "mona@example.com"}


def made(scene: Scene, client: Client, **more: Any) -> dict[str, Any]:
    """Make a commit through the API, of the tree that is there."""
    head = scene.repo.git.heads()["main"]
    tree = scene.repo.git.commit(head).tree
    wish = {"message": "Change it\n\nWhy.", "tree": tree, "parents": [head], **more}
    answer = client("POST", f"/repos/{scene.repo.full_name}/git/commits", wish)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def is_verified(scene: Scene, sha: str) -> bool:
    answer = scene.client()("GET", f"/repos/{scene.repo.full_name}/commits/{sha}")
    return bool(answer.json()["commit"]["verification"]["verified"])


def test_what_an_app_commits_in_nobodys_name_is_signed(scene: Scene) -> None:
    commit = made(scene, scene.client())
    assert commit["verification"]["verified"]
    assert commit["verification"]["reason"] == "valid"
    assert commit["author"]["name"] == "drydock[bot]"
    assert commit["committer"]["name"] == "GitHub"
    assert commit["message"] == "Change it\n\nWhy."
    assert is_verified(scene, commit["sha"])
    raw = scene.repo.git.run("cat-file", "commit", commit["sha"]).decode()
    assert "\ngpgsig -----BEGIN PGP SIGNATURE-----\n" in raw
    scene.repo.git.run("fsck", "--strict", "--no-dangling")


@pytest.mark.parametrize("more", [{"author": WHO}, {"committer": WHO}])
def test_what_an_app_commits_in_somebodys_name_is_not(scene: Scene, more: dict[str, Any]) -> None:
    commit = made(scene, scene.client(), **more)
    assert commit["verification"] == {
        "verified": False,
        "reason": "unsigned",
        "signature": None,
        "payload": None,
        "verified_at": None,
    }


def test_a_signature_that_somebody_copied_verifies_nothing(scene: Scene) -> None:
    git: GitRepo = scene.repo.git
    signed = git.run("cat-file", "commit", made(scene, scene.client())["sha"])
    forged = git.run(
        "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed.replace(b"Why", b"So")
    )
    git.update_ref("refs/heads/forged", forged.decode().strip())
    assert not is_verified(scene, forged.decode().strip())


def test_what_people_push_is_not_signed(scene: Scene) -> None:
    assert not is_verified(scene, scene.repo.git.heads()["main"])


def test_a_server_that_signs_nothing_says_so(scene: Scene) -> None:
    scene.gh.world.signs_commits = False
    assert not made(scene, scene.client())["verification"]["verified"]
