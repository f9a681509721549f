"""Accounts, and the few routes that belong to nobody."""

from __future__ import annotations

from typing import Any

from demo.github.errors import not_accessible, requires_authentication
from demo.github.limits import Allowance
from demo.github.rest.call import Call
from demo.github.rest.routing import route
from demo.github.shapes import accounts


@route("GET", "/users/{username}")
def get_user(call: Call) -> Any:
    return accounts.public_user(call.view, call.world.user(call.args["username"]))


@route("GET", "/user")
def get_own_user(call: Call) -> Any:
    """Only a person's token has a user; an App's gets 403."""
    token = call.principal.token
    if token is None:
        raise requires_authentication()
    if token.user is None:
        raise not_accessible()
    return accounts.public_user(call.view, token.user)


@route("GET", "/rate_limit")
def get_rate_limit(call: Call) -> Any:
    core = _figures(call.world.limits.take(call.principal.rate_key, 0))
    search = {"limit": 30, "used": 0, "remaining": 30, "reset": core["reset"]}
    return {"resources": {"core": core, "search": search}, "rate": core}


def _figures(allowance: Allowance) -> dict[str, int]:
    return {
        "limit": allowance.limit,
        "used": min(allowance.used, allowance.limit),
        "remaining": allowance.remaining,
        "reset": allowance.reset,
    }


@route("GET", "/meta")
def get_meta(call: Call) -> Any:
    return {"verifiable_password_authentication": False, "hooks": ["127.0.0.0/8"]}
