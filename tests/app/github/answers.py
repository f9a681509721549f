"""What GitHub would answer, laid out for the gateway's tests."""

from __future__ import annotations

from typing import Any

from app.github.values import CheckRunWish

REPO = "/repos/octo/ship"
MOMENT = "2026-03-01T12:00:00Z"
MARKER = "<!-- drydock:status run=R1 -->"


def a_user(login: str = "drydock-test[bot]", kind: str = "Bot") -> dict[str, Any]:
    return {"login": login, "id": 1, "type": kind, "url": "http://h/u"}


def a_comment(number: int, body: str, login: str = "drydock-test[bot]") -> dict[str, Any]:
    return {
        "id": number,
        "body": body,
        "user": a_user(login),
        "author_association": "NONE",
        "html_url": f"http://h/c/{number}",
        "created_at": MOMENT,
        "updated_at": MOMENT,
        "url": f"http://h{REPO}/issues/comments/{number}",
    }


def a_pull(number: int = 5, **changes: Any) -> dict[str, Any]:
    return {
        "number": number,
        "html_url": f"http://h/pull/{number}",
        "title": "Fix",
        "body": "Text",
        "user": a_user(),
        "state": "open",
        "merged_at": None,
        "draft": True,
        "node_id": "PR_1",
        "head": {"ref": "aider/issue-1", "sha": "b" * 40, "repo": {"id": 42}},
        "base": {"ref": "main", "sha": "a" * 40, "repo": {"id": 42}},
        "url": f"http://h{REPO}/pulls/{number}",
        **changes,
    }


def a_check(number: int = 3, **changes: Any) -> dict[str, Any]:
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
