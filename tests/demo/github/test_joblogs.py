"""Logs of jobs, as GitHub gives them: by an address of another place that soon ends."""

from __future__ import annotations

import pytest
import requests

from demo.github.records import CheckRun
from tests.demo.github.conftest import Client, Scene


@pytest.fixture
def job(scene: Scene) -> CheckRun:
    actions = scene.gh.create_app("github-actions")
    scene.gh.install(actions, scene.repo)
    scene.gh.accept_permissions(scene.app, scene.repo, actions="read")
    sha = scene.repo.git.heads()["main"]
    return scene.gh.report_check(
        actions, scene.repo, sha, name="build", conclusion="failure", log=b"one\ntwo\n"
    )


def asked(scene: Scene, job: CheckRun, client: Client | None = None) -> requests.Response:
    path = f"/repos/{scene.repo.full_name}/actions/jobs/{job.id}/logs"
    return (client or scene.client())("GET", path)


def test_the_address_needs_no_token_and_takes_none(scene: Scene, job: CheckRun) -> None:
    address = asked(scene, job).headers["Location"]
    assert requests.get(address, timeout=30).content == b"one\ntwo\n"
    again = requests.get(address, headers={"Authorization": "Bearer x"}, timeout=30)
    assert again.status_code == 400


def test_the_address_is_good_for_a_minute(scene: Scene, job: CheckRun) -> None:
    address = asked(scene, job).headers["Location"]
    scene.clock.passes(61)
    assert requests.get(address, timeout=30).status_code == 403


def test_an_address_that_never_was_is_not_found(scene: Scene) -> None:
    assert requests.get(f"{scene.gh.url}/joblogs/abc", timeout=30).status_code == 404


def test_without_the_permission_there_is_no_log(scene: Scene, job: CheckRun) -> None:
    client = scene.client(permissions={"checks": "read"})
    assert asked(scene, job, client).status_code == 403


def test_a_log_of_old_is_gone_and_what_is_no_job_or_still_runs_has_none(
    scene: Scene, job: CheckRun
) -> None:
    gh, repo = scene.gh, scene.repo
    job.log = None
    assert asked(scene, job).status_code == 410
    job.status = "in_progress"
    assert asked(scene, job).status_code == 404
    other = gh.report_check(scene.app, repo, job.head_sha, name="x", conclusion="failure")
    assert asked(scene, other).status_code == 404
