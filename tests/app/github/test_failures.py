"""Failed checks, their annotations and logs, asked from the local GitHub."""

from __future__ import annotations

from typing import Any

import pytest

from app.ci import FAILED
from app.github import failures
from app.github.failures import NoLog, annotations_of, failed_checks, job_log_tail
from app.github.gateway import GitHubGateway
from app.github.values import AnnotationInfo, FailedCheck
from demo.github import AppKeys
from demo.github.records import CheckRun
from tests.app.github.answers import REPO
from tests.app.github.scripted import Answer, ScriptedApi
from tests.app.github.test_local_github import Scene, contract, scene

__all__ = ["contract", "scene"]

LOGS = f"{REPO}/actions/jobs/5/logs"


@pytest.fixture
def actions(scene: Scene) -> AppKeys:
    made = scene.hub.create_app("github-actions")
    scene.hub.install(made, scene.repo)
    return made


def reported(scene: Scene, app: AppKeys, name: str = "build", **more: Any) -> CheckRun:
    given = {"conclusion": "failure", **more}
    sha = scene.repo.git.heads()["main"]
    return scene.hub.report_check(app, scene.repo, sha, name=name, **given)


def test_what_stands_as_failed_is_found_and_nothing_else(scene: Scene, actions: AppKeys) -> None:
    ours = reported(scene, scene.app)
    reported(scene, actions, "flaky")
    reported(scene, actions, "flaky", conclusion="success")
    slow = reported(scene, actions, "slow", conclusion="timed_out")
    reported(scene, actions, "running", conclusion=None)
    output = {"title": "no", "summary": "one error", "text": "all of it"}
    build = reported(scene, actions, output=output)
    found = failed_checks(scene.gateway, ours.head_sha, scene.app.app_id, FAILED)
    assert set(found) == {
        FailedCheck(build.id, "build", "failure", True, "one error", "all of it"),
        FailedCheck(slow.id, "slow", "timed_out", True),
    }


def test_a_check_of_another_service_is_no_job_of_actions(scene: Scene) -> None:
    service = scene.hub.create_app("buildbot")
    scene.hub.install(service, scene.repo)
    run = reported(scene, service)
    (found,) = failed_checks(scene.gateway, run.head_sha, scene.app.app_id, FAILED)
    assert not found.is_actions


def test_a_check_whose_app_was_deleted_counts_as_anothers(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    output = {"title": None, "summary": None, "text": None}
    check = {"id": 5, "name": "build", "conclusion": "failure", "app": None, "output": output}
    answer = Answer(body={"total_count": 1, "check_runs": [check]})
    api.reply("GET", f"{REPO}/commits/{'a' * 40}/check-runs", answer)
    (found,) = failed_checks(gateway, "a" * 40, 99, FAILED)
    assert found == FailedCheck(5, "build", "failure", False)


def test_annotations_come_up_to_a_number(scene: Scene, actions: AppKeys) -> None:
    note = {"path": "a.py", "start_line": 1, "end_line": 2, "annotation_level": "failure"}
    notes = [{**note, "message": f"m{number}", "title": "E1"} for number in range(9)]
    run = reported(scene, actions, output={"title": "", "summary": "", "annotations": notes})
    found = annotations_of(scene.gateway, run.id, 3)
    assert len(found) == 3
    assert found[0] == AnnotationInfo("a.py", 1, 2, "failure", "E1", "m0")


def test_the_tail_of_a_log_is_read_with_its_own_permission(scene: Scene, actions: AppKeys) -> None:
    scene.hub.accept_permissions(scene.app, scene.repo, actions="read")
    run = reported(scene, actions, log=b"a" * 200_000 + b"the end\n")
    assert job_log_tail(scene.gateway, run.id, 10) == b"aathe end\n"
    run.log = None
    with pytest.raises(NoLog, match="not any more"):
        job_log_tail(scene.gateway, run.id, 10)


def test_without_the_permission_it_says_which_one(scene: Scene, actions: AppKeys) -> None:
    run = reported(scene, actions, log=b"x")
    with pytest.raises(NoLog, match="Actions: read was not granted"):
        job_log_tail(scene.gateway, run.id, 10)


def found_at(api: ScriptedApi, address: str) -> None:
    api.reply("GET", LOGS, Answer(302, headers={"Location": address}))


def test_the_store_gets_no_token(gateway: GitHubGateway, api: ScriptedApi) -> None:
    found_at(api, f"{api.url}/store/5?sig=s")
    api.reply("GET", "/store/5", Answer(raw=b"log"))
    assert job_log_tail(gateway, 5, 10) == b"log"
    assert "authorization" not in {name.lower() for name in api.asked[-1].headers}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(403, raw=b"no"), "its store answered 403"),
        (Answer(302, headers={"Location": "http://127.0.0.1:1/"}), "its store answered 302"),
        (Answer(hang_up=True), "its store could not be reached"),
    ],
)
def test_a_store_that_does_not_give_it_is_no_failure(
    gateway: GitHubGateway, api: ScriptedApi, answer: Answer, why: str
) -> None:
    found_at(api, f"{api.url}/store/5?sig=secret")
    api.reply("GET", "/store/5", answer)
    with pytest.raises(NoLog, match=why) as raised:
        job_log_tail(gateway, 5, 10)
    assert "secret" not in str(raised.value)


def test_a_github_that_breaks_down_has_no_log(gateway: GitHubGateway, api: ScriptedApi) -> None:
    api.reply("GET", LOGS, Answer(502, {"message": "Server Error"}))
    with pytest.raises(NoLog, match="GitHub did not give it"):
        job_log_tail(gateway, 5, 10)


def test_a_log_without_end_is_left_alone(
    gateway: GitHubGateway, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MAX_LOG_BYTES", 100)
    found_at(api, f"{api.url}/store/5")
    api.reply("GET", "/store/5", Answer(raw=b"x" * 1000))
    with pytest.raises(NoLog, match="too long"):
        job_log_tail(gateway, 5, 10)
