"""The rule of `access`, applied to the request at hand."""

from __future__ import annotations

from flask import Response, jsonify, request

from app.web.access import Refused, Viewer, refuse
from app.web.deps import Deps


def may_view(deps: Deps) -> bool:
    """Tell whether this request may see what concerns repositories."""
    return _refusal(deps) is None


def guard(deps: Deps) -> Response | None:
    """Return the answer for a request that may not see the dashboard; None for one that may."""
    refusal = _refusal(deps)
    if refusal is None:
        return None
    response = jsonify(status="refused", reason=refusal.reason)
    response.status_code = 401 if refusal.ask else 403
    if refusal.ask:
        response.headers["WWW-Authenticate"] = 'Basic realm="Drydock", charset="UTF-8"'
    return response


def _refusal(deps: Deps) -> Refused | None:
    token = deps.settings.dashboard_token
    return refuse(_viewer(), token.get_secret_value() if token is not None else None)


def _viewer() -> Viewer:
    return Viewer(
        peer=request.remote_addr,
        host=request.headers.get("Host", ""),
        protocol=str(request.environ.get("SERVER_PROTOCOL", "")),
        headers={name.lower(): value for name, value in request.headers.items()},
        password=_password(),
    )


def _password() -> str | None:
    given = request.authorization
    if given is None:
        return None
    return given.token if given.type == "bearer" else given.password
