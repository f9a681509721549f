"""Check runs: each made once, and brought up to date."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.github.checks import ensure_check_run
from app.github.gateway import GitHubGateway
from app.github.values import CheckAnnotation, CheckButton
from tests.app.github.answers import REPO, WISH, a_check
from tests.app.github.conftest import MINT
from tests.app.github.scripted import Answer, Asked, ScriptedApi


def test_a_check_run_is_made_once(gateway: GitHubGateway, api: ScriptedApi) -> None:
    made: list[dict[str, Any]] = [a_check(1, external_id="another run")]

    def create(asked: Asked) -> Answer:
        made.append(a_check(3, external_id=asked.body["external_id"]))
        return Answer(502)

    path = f"{REPO}/commits/{'a' * 40}/check-runs"
    api.reply("GET", path, lambda _: Answer(body={"total_count": 1, "check_runs": made}))
    api.reply("POST", f"{REPO}/check-runs", create)
    assert ensure_check_run(gateway, WISH).id == 3
    assert ensure_check_run(gateway, WISH).id == 3
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
    found = {"total_count": 1, "check_runs": [a_check(status="queued")]}
    api.reply("GET", f"{REPO}/commits/{'a' * 40}/check-runs", Answer(body=found))
    api.reply("PATCH", f"{REPO}/check-runs/3", Answer(body=a_check()))
    assert ensure_check_run(gateway, WISH).status == "in_progress"
    (asked,) = api.asked_for("PATCH", f"{REPO}/check-runs/3")
    assert asked.body["status"] == "in_progress"
    assert "conclusion" not in asked.body


def test_a_known_check_run_is_updated_without_a_search(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    api.reply("PATCH", f"{REPO}/check-runs/3", Answer(body=a_check()))
    ensure_check_run(gateway, WISH, known_id=3)
    assert {a.verb for a in api.asked if a.path != MINT} == {"PATCH"}


NOTED = replace(
    WISH,
    status="completed",
    conclusion="failure",
    annotations=(CheckAnnotation("ci.yml", "failure", "workflows", "no workflow is changed"),),
    buttons=(CheckButton("Retry", "Do it once more", "retry"),),
)


def test_annotations_and_buttons_go_along_as_github_wants_them(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    check = a_check(status="completed", conclusion="failure")
    path = f"{REPO}/commits/{'a' * 40}/check-runs"
    api.reply("GET", path, Answer(body={"total_count": 0, "check_runs": []}))
    api.reply("POST", f"{REPO}/check-runs", Answer(201, body=check))
    ensure_check_run(gateway, NOTED)
    (asked,) = api.asked_for("POST", f"{REPO}/check-runs")
    assert asked.body["output"]["annotations"] == [
        {
            "path": "ci.yml",
            "start_line": 1,
            "end_line": 1,
            "annotation_level": "failure",
            "title": "workflows",
            "message": "no workflow is changed",
        }
    ]
    assert asked.body["actions"] == [
        {"label": "Retry", "description": "Do it once more", "identifier": "retry"}
    ]


def test_annotations_are_not_sent_again_when_only_the_answer_was_lost(
    gateway: GitHubGateway, api: ScriptedApi
) -> None:
    stands = a_check()

    def update(asked: Asked) -> Answer:
        stands.update(status="completed", conclusion="failure")
        return Answer(502)

    api.reply("GET", f"{REPO}/check-runs/3", lambda _: Answer(body=stands))
    api.reply("PATCH", f"{REPO}/check-runs/3", update)
    assert ensure_check_run(gateway, NOTED, known_id=3).conclusion == "failure"
    assert len(api.asked_for("PATCH", f"{REPO}/check-runs/3")) == 1
