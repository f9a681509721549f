"""The store that the logs of jobs lie in: another place than the API, behind addresses that end.

GitHub hands out an address with a signature in it, good for a minute; the store knows no tokens,
and turns away whoever brings one.
https://docs.github.com/rest/actions/workflow-jobs#download-job-logs-for-a-workflow-run
"""

from __future__ import annotations

from werkzeug.wrappers import Request, Response

from demo.github.world import World

PATH = "/joblogs/"
GOOD_FOR_S = 60.0


def address_of(world: World, log: bytes) -> str:
    """Return an address where this log can be had for a minute."""
    name = world.random_secret()
    world.job_logs[name] = (world.now() + GOOD_FOR_S, log)
    return f"{world.base_url}{PATH}{name}"


def answer_joblogs(world: World, request: Request) -> Response:
    """Serve a log: 404 for an address that never was, 403 for one whose minute is over."""
    if "Authorization" in request.headers:
        return Response("InvalidAuthenticationInfo", 400, content_type="application/xml")
    known = world.job_logs.get(request.path.removeprefix(PATH))
    if known is None:
        return Response("ResourceNotFound", 404, content_type="application/xml")
    until, log = known
    if world.now() > until:
        return Response("AuthenticationFailed", 403, content_type="application/xml")
    return Response(log, content_type="text/plain")
