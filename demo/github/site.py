"""The WSGI application: faults first, then the API, git, or the web pages; all API calls kept."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from werkzeug.wrappers import Request, Response

from demo.github import joblogs
from demo.github.api import PREFIX, Api
from demo.github.faults import Fault
from demo.github.githttp import GitHttp
from demo.github.graphql import answer_graphql
from demo.github.recorder import Exchange
from demo.github.web.pages import Pages
from demo.github.world import World

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class Site:
    """Routes by the first part of the path."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._api = Api(world)
        self._git = GitHttp(world)
        self._pages = Pages(world)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        path = request.path.removeprefix(PREFIX)
        fault = self._world.faults.strike(request.method, path)
        response = self._answer(request, fault)
        if request.path.startswith("/api/"):
            self._record(request, response, injected=fault is not None)
        if fault is not None and fault.reset:
            _reset(environ)
        return response(environ, start_response)

    def _answer(self, request: Request, fault: Fault | None) -> Response:
        if fault is None:
            return self._serve(request)
        if fault.after_effect:
            self._serve(request).get_data()
        else:
            request.get_data()
        if fault.delay is not None:
            fault.delay()
        return Response(
            fault.body, fault.status, dict(fault.headers), content_type="application/json"
        )

    def _serve(self, request: Request) -> Response:
        if request.path.startswith(f"{PREFIX}/"):
            return self._api.answer(request)
        if request.path == "/api/graphql":
            return answer_graphql(self._world, request)
        if request.path.startswith(joblogs.PATH):
            return joblogs.answer_joblogs(self._world, request)
        if self._git.handles(request.path):
            return self._git.answer(request)
        return self._pages.answer(request)

    def _record(self, request: Request, response: Response, *, injected: bool) -> None:
        path = request.path.removeprefix(PREFIX)
        self._world.recorder.add(
            Exchange(
                method=request.method,
                path=path,
                template=self._api.template(request.method, path),
                query=request.query_string.decode("latin-1"),
                request_headers=dict(request.headers),
                request_body=request.get_data(),
                status=response.status_code,
                response_headers=dict(response.headers),
                response_body=response.get_data(),
                injected=injected,
            )
        )


def _reset(environ: WSGIEnvironment) -> None:
    """Leave the request the way werkzeug expects of a lost connection; closing it sends a RST."""
    connection: socket.socket = environ["werkzeug.socket"]
    linger_no_time = struct.pack("ii", 1, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_no_time)
    raise ConnectionResetError("a fault broke this connection")
