"""From an HTTP request under `/api/v3` to GitHub's answer."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import uuid
from dataclasses import replace
from typing import Any

from werkzeug.exceptions import HTTPException
from werkzeug.routing import Map
from werkzeug.wrappers import Request, Response

import demo.github.rest  # noqa: F401  (registers the routes)
from demo.github.access import ANONYMOUS, Principal, identify, require
from demo.github.errors import DOCS, ApiError, bad_credentials, not_found
from demo.github.limits import Allowance
from demo.github.records import Repo
from demo.github.rest.call import Call
from demo.github.rest.routing import Answer, Route, build_map
from demo.github.shapes.view import View
from demo.github.world import World

PREFIX = "/api/v3"
_BY_ID = re.compile(r"/repositories/(\d+)(/.*)?$")
_FOR_APPS = "/repos/{owner}/{repo}/installation"
_log = logging.getLogger(__name__)


class Api:
    """Answers requests. It never raises: what goes wrong inside becomes a logged 500."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._map: Map = build_map()

    def template(self, method: str, path: str) -> str:
        """Return the template of the route that a path belongs to, or nothing."""
        try:
            route, _ = self._match(method, self._by_name(path))
        except ApiError:
            return ""
        return route.template

    def answer(self, request: Request) -> Response:
        path = request.path.removeprefix(PREFIX)
        principal, headers = ANONYMOUS, {}
        try:
            _check_user_agent(request)
            principal = identify(self._world, request.headers.get("Authorization"))
            headers = self._take(principal).headers()
            answer = self._handle(request, principal, self._by_name(path))
        except ApiError as error:
            answer = Answer(error.status, error.body(), error.headers)
        except Exception:  # noqa: BLE001  (a defect here is GitHub's 500, and a loud log)
            _log.exception("%s %s failed", request.method, request.path)
            answer = Answer(500, {"message": "Server Error"})
        return _respond(request, answer, headers)

    def _take(self, principal: Principal) -> Allowance:
        """Count the request. ApiError 403 when the hour's are used up."""
        allowance = self._world.limits.take(principal.rate_key)
        if allowance.exceeded:
            raise ApiError(
                403,
                f"API rate limit exceeded for {principal.rate_key}.",
                documentation_url=f"{DOCS}/overview/rate-limits-for-the-rest-api",
                headers=allowance.headers(),
            )
        return allowance

    def _handle(self, request: Request, principal: Principal, path: str) -> Answer:
        route, args = self._match(request.method, path)
        view = View(self._world, request.host_url.rstrip("/"))
        call = Call(self._world, request, principal, view, args)
        with self._world.lock:
            if route.in_repo:
                moved = _check_repo(call, route)
                if moved is not None:
                    return moved
            result = route.handler(call)
        return result if isinstance(result, Answer) else Answer(200, result)

    def _match(self, method: str, path: str) -> tuple[Route, dict[str, Any]]:
        try:
            route, args = self._map.bind("").match(
                path, method="GET" if method == "HEAD" else method
            )
        except HTTPException:
            raise not_found() from None
        return route, dict(args)

    def _by_name(self, path: str) -> str:
        """`/repositories/ID/…` is the same as `/repos/OWNER/NAME/…`."""
        match = _BY_ID.match(path)
        if match is None:
            return path
        repo = self._world.repos.get(int(match[1]))
        return path if repo is None else f"/repos/{repo.full_name}{match[2] or ''}"


def _check_user_agent(request: Request) -> None:
    """GitHub turns away whoever does not say what it is."""
    if not request.headers.get("User-Agent"):
        raise ApiError(
            403,
            "Request forbidden by administrative rules. Please make sure your request has a "
            "User-Agent header.",
        )


def _check_repo(call: Call, route: Route) -> Answer | None:
    """Check visibility and permissions; return the redirect when the repository has moved."""
    repo = call.repo
    if route.template == _FOR_APPS:
        return None
    if call.principal.app is not None:
        raise bad_credentials()
    if not call.principal.sees(repo):
        raise not_found()
    asked = f"{call.args['owner']}/{call.args['repo']}"
    if asked.lower() != repo.full_name.lower():
        return _moved(call, repo)
    if route.needs:
        require(call.principal, repo, route.needs, public=route.public)
    return None


def _moved(call: Call, repo: Repo) -> Answer:
    rest = call.request.path.split("/", 6)[6:]
    address = "/".join([call.view.api(f"/repositories/{repo.id}"), *rest])
    status = 301 if call.request.method == "GET" else 307
    body = {"message": "Moved Permanently", "url": address, "documentation_url": DOCS}
    return Answer(status, body, {"Location": address})


def _respond(request: Request, answer: Answer, headers: dict[str, str]) -> Response:
    response = Response(_encode(answer), answer.status)
    response.headers["X-GitHub-Request-Id"] = uuid.uuid4().hex.upper()
    response.headers["X-GitHub-Media-Type"] = "github.v3; format=json"
    response.headers["Content-Type"] = "application/json; charset=utf-8"
    response.headers.update(headers)
    response.headers.update(answer.headers)
    if answer.status in (204, 304):
        del response.headers["Content-Type"]
    if request.method == "GET" and answer.status == 200:
        response.headers["ETag"] = f'W/"{hashlib.sha256(response.get_data()).hexdigest()}"'
        response.headers["Cache-Control"] = "private, max-age=60, s-maxage=60"
        if response.headers["ETag"] in request.headers.get("If-None-Match", ""):
            return _respond(request, replace(answer, status=304, body=b""), headers)
    return response


def _encode(answer: Answer) -> bytes:
    if isinstance(answer.body, bytes):
        return answer.body
    if answer.body is None:
        return b""
    return json.dumps(answer.body, ensure_ascii=False, separators=(",", ":")).encode()
