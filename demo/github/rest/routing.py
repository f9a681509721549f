"""The table of routes, written with the path templates of GitHub's own OpenAPI description.

A handler takes a `Call` and returns what goes into the body, or an `Answer` when the status is
not 200. Authorization is declared beside the route and checked before the handler runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from werkzeug.routing import Map, Rule

from demo.github.rest.call import Call

Handler = Callable[[Call], Any]

# Parameters that hold slashes, and those that are text; all others are numbers.
_PATHS = frozenset({"path", "ref", "branch", "basehead", "name"})
_TEXTS = frozenset(
    {"owner", "repo", "username", "code", "commit_sha", "tree_sha", "file_sha", "app_slug", "org"}
    | {"team_slug"}
)


@dataclass(frozen=True)
class Answer:
    """A status other than 200, or a body other than JSON."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def created(body: Any) -> Answer:
    return Answer(201, body)


def no_content() -> Answer:
    return Answer(204)


@dataclass(frozen=True)
class Route:
    """One operation.

    `needs` are alternatives such as `issues:write`, checked when the path names a repository;
    an empty tuple leaves the check to the handler. `public` opens it to anybody on public
    repositories. `documented` is false for what GitHub serves without describing it.
    """

    method: str
    template: str
    handler: Handler
    needs: tuple[str, ...]
    public: bool
    documented: bool

    @property
    def in_repo(self) -> bool:
        return self.template.startswith("/repos/{owner}/{repo}")


ROUTES: list[Route] = []


def route(
    method: str, template: str, *needs: str, public: bool | None = None, documented: bool = True
) -> Callable[[Handler], Handler]:
    """Register a handler. Reads are public by default where they need a permission at all."""

    def register(handler: Handler) -> Handler:
        reads = method == "GET" if public is None else public
        ROUTES.append(Route(method, template, handler, needs, reads, documented))
        return handler

    return register


@cache
def build_map() -> Map:
    """Return werkzeug's map of all routes; each endpoint is the Route itself."""
    rules = [
        Rule(_rule(route.template), methods=[route.method], endpoint=route) for route in ROUTES
    ]
    return Map(rules, strict_slashes=True, merge_slashes=False, redirect_defaults=False)


def _rule(template: str) -> str:
    return re.sub(r"\{(\w+)\}", _converter, template)


def _converter(match: re.Match[str]) -> str:
    name = match[1]
    if name in _PATHS:
        return f"<path:{name}>"
    return f"<{name}>" if name in _TEXTS else f"<int:{name}>"
