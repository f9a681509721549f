from __future__ import annotations

import pickle
from typing import Any

import pytest

from app.github.errors import (
    AccessLost,
    GitHubError,
    GitHubUnavailable,
    Gone,
    Invalid,
    NotAllowed,
    NotFound,
    RateLimited,
    error_of,
)

NOW = 1000.0


def _error(status: int, data: Any = None, **headers: str) -> GitHubError:
    return error_of(status, data, {k.replace("_", "-"): v for k, v in headers.items()}, NOW)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, NotFound),
        (400, Invalid),
        (401, NotAllowed),
        (403, NotAllowed),
        (404, NotFound),
        (409, Invalid),
        (410, Gone),
        (422, Invalid),
        (429, RateLimited),
        (451, AccessLost),
        (500, GitHubUnavailable),
        (503, GitHubUnavailable),
    ],
)
def test_a_status_means_one_thing(status: int, kind: type[GitHubError]) -> None:
    error = _error(status, {"message": "why"})
    assert type(error) is kind
    assert error.status == status


def test_the_text_is_githubs_own() -> None:
    assert str(_error(403, {"message": "Resource not accessible by integration"})) == (
        "Resource not accessible by integration (403)"
    )
    assert str(_error(502, {"data": "<html>"})) == "GitHub answered 502"


def test_every_reason_of_a_422_is_told() -> None:
    error = _error(
        422,
        {
            "message": "Validation Failed",
            "errors": [
                {"resource": "PullRequest", "code": "custom", "message": "No commits between"},
                {"resource": "Label", "field": "name", "code": "missing"},
                "a word",
            ],
        },
    )
    assert isinstance(error, Invalid)
    assert error.errors == (
        "Validation Failed (422)",
        "No commits between",
        "Label name missing",
        "a word",
    )
    assert error.mentions("no commits")
    assert not error.mentions("draft")


@pytest.mark.parametrize(
    ("headers", "message", "reset_at"),
    [
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": "1500"}, "API rate limit", 1500),
        ({"retry_after": "30"}, "You have exceeded a secondary rate limit", 1030),
        ({}, "You have exceeded a secondary rate limit", 1060),
        ({"retry_after": "soon"}, "API rate limit exceeded", 1060),
    ],
)
def test_a_403_may_be_a_rate_limit(headers: dict[str, str], message: str, reset_at: float) -> None:
    error = _error(403, {"message": message}, **headers)
    assert isinstance(error, RateLimited)
    assert error.reset_at == reset_at


def test_a_suspended_installation_has_lost_its_access() -> None:
    assert isinstance(_error(403, {"message": "This installation has been suspended"}), AccessLost)


def test_an_outage_may_say_when_to_come_back() -> None:
    error = _error(503, None, retry_after="7")
    assert isinstance(error, GitHubUnavailable)
    assert error.retry_after == 7


@pytest.mark.parametrize("status", [403, 404, 422, 429, 500])
def test_errors_survive_a_process_border(status: int) -> None:
    error = _error(status, {"message": "why"})
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
