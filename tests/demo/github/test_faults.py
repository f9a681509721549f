"""Bad days to order: 5xx, broken connections, limits; before and after the effect."""

from __future__ import annotations

import pytest
import requests

from tests.demo.github.conftest import Scene

COMMENTS = "/repos/acme/widgets/issues/1/comments"


def test_a_fault_strikes_as_often_as_it_was_ordered(scene: Scene) -> None:
    issue = scene.alice.opens_issue(scene.repo, "x")
    fault = scene.gh.faults.server_error("POST", r"/comments$", times=2)
    client = scene.client()
    answers = [client("POST", COMMENTS, {"body": "hi"}).status_code for _ in range(3)]
    assert answers == [502, 502, 201]
    assert (fault.seen, len(issue.comments)) == (2, 1)


def test_after_the_effect_the_comment_is_there_although_the_answer_is_lost(scene: Scene) -> None:
    issue = scene.alice.opens_issue(scene.repo, "x")
    scene.gh.faults.server_error("POST", r"/comments$", after=True)
    assert scene.client()("POST", COMMENTS, {"body": "hi"}).status_code == 502
    assert [comment.body for comment in issue.comments] == ["hi"]


@pytest.mark.parametrize("after", [False, True])
def test_a_broken_connection_may_leave_its_effect(scene: Scene, after: bool) -> None:
    issue = scene.alice.opens_issue(scene.repo, "x")
    scene.gh.faults.connection_reset("POST", r"/comments$", after=after)
    client = scene.client()
    with pytest.raises(requests.ConnectionError):
        client("POST", COMMENTS, {"body": "hi"})
    assert len(issue.comments) == int(after)
    assert client("POST", COMMENTS, {"body": "again"}).status_code == 201


def test_limits_look_like_githubs(scene: Scene) -> None:
    scene.alice.opens_issue(scene.repo, "x")
    faults = scene.gh.faults
    faults.primary_rate_limit("GET", r"/issues/1$", reset_at=1_800_000_900)
    faults.secondary_rate_limit("GET", r"/issues/1$", retry_after=7)
    faults.secondary_rate_limit("GET", r"/issues/1$", status=429)
    client, path = scene.client(), "/repos/acme/widgets/issues/1"
    primary, secondary, bare = (client("GET", path) for _ in range(3))
    assert (primary.status_code, primary.headers["X-RateLimit-Remaining"]) == (403, "0")
    assert primary.headers["X-RateLimit-Reset"] == "1800000900"
    assert (secondary.status_code, secondary.headers["Retry-After"]) == (403, "7")
    assert "secondary rate limit" in secondary.json()["message"]
    assert bare.status_code == 429
    assert "Retry-After" not in bare.headers
    assert client("GET", path).status_code == 200


def test_injected_answers_are_marked_in_the_record(scene: Scene) -> None:
    scene.gh.faults.add("*", r"^/meta$", 503, {"X-Odd": "1"}, "not JSON", times=None)
    answer = scene.anonymous()("GET", "/meta")
    assert (answer.status_code, answer.text, answer.headers["X-Odd"]) == (503, "not JSON", "1")
    (exchange,) = scene.gh.recorder.calls("GET", "/meta")
    assert exchange.injected
    scene.gh.faults.clear()
    assert scene.anonymous()("GET", "/meta").status_code == 200


def test_git_has_bad_days_too(scene: Scene) -> None:
    scene.gh.faults.server_error("GET", r"\.git/info/refs$", status=503)
    url = f"{scene.repo.clone_url}/info/refs?service=git-upload-pack"
    assert requests.get(url, timeout=10).status_code == 503
    assert requests.get(url, timeout=10).status_code == 401
