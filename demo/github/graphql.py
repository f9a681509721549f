"""The one GraphQL mutation that has no REST counterpart and that Drydock's kind needs.

Everything else is answered with an error, as GitHub answers what its schema does not know.
"""

from __future__ import annotations

import json
from typing import Any

from werkzeug.wrappers import Request, Response

from demo.github.access import Principal, identify
from demo.github.acts.pulls import set_draft
from demo.github.errors import ApiError
from demo.github.records import Pull
from demo.github.shapes.view import Json, node_id
from demo.github.world import World

_MUTATION = "markPullRequestReadyForReview"


def answer_graphql(world: World, request: Request) -> Response:
    try:
        principal = identify(world, request.headers.get("Authorization"))
        status, body = 200, _execute(world, principal, request.get_data())
    except ApiError as error:
        status, body = error.status, error.body()
    return Response(json.dumps(body), status, content_type="application/json; charset=utf-8")


def _execute(world: World, principal: Principal, raw: bytes) -> Json:
    if principal.user is None:
        raise ApiError(401, "This endpoint requires you to be authenticated.")
    try:
        sent = json.loads(raw)
    except ValueError:
        raise ApiError(400, "Problems parsing JSON") from None
    query, variables = str(sent.get("query", "")), sent.get("variables") or {}
    if _MUTATION not in query:
        return _errors(None, "This server knows no such field or mutation.")
    given: Any = variables.get("input", variables)
    with world.lock:
        return _mark_ready(world, principal, given if isinstance(given, dict) else {})


def _mark_ready(world: World, principal: Principal, given: Json) -> Json:
    wanted = given.get("pullRequestId")
    pull = next((pull for pull in _pulls(world) if node_id("PR", pull.pull_id) == wanted), None)
    if pull is None or not principal.sees(pull.repo):
        return _errors("NOT_FOUND", f"Could not resolve to a node with the global id of '{wanted}'")
    # Both, as GitHub asks for it: https://github.com/cli/cli/issues/8910
    if not all(principal.holds(pull.repo, name, "write") for name in ("pull_requests", "contents")):
        return _errors("FORBIDDEN", "Resource not accessible by integration")
    if pull.draft and principal.user is not None:
        set_draft(pull, principal.user, draft=False)
    shown = {"id": wanted, "number": pull.number, "isDraft": pull.draft}
    payload = {"clientMutationId": given.get("clientMutationId"), "pullRequest": shown}
    return {"data": {_MUTATION: payload}}


def _pulls(world: World) -> list[Pull]:
    return [pull for repo in world.repos.values() for pull in repo.pulls]


def _errors(kind: str | None, message: str) -> Json:
    error: Json = {"message": message, "path": [_MUTATION]}
    return {"data": None, "errors": [{**error, "type": kind} if kind else error]}
