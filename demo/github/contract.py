"""Holds recorded exchanges against GitHub's own OpenAPI description.

The description (12 MB) comes as the npm package `@octokit/openapi`, a development dependency, and
so does `openapi-core`; only tests import this module. What is not in the description is checked
against the shape that all of GitHub's errors share.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openapi_core import Config, OpenAPI
from openapi_core.exceptions import OpenAPIError
from openapi_core.testing import MockRequest, MockResponse

import demo.github.rest  # noqa: F401  (registers the routes)
from demo.github.recorder import Exchange
from demo.github.rest.routing import ROUTES

DESCRIPTION = Path("node_modules/@octokit/openapi/generated/api.github.com.json")
EXAMPLES = Path("node_modules/@octokit/webhooks-examples/api.github.com/index.json")
_SERVER = "http://github.local"
_WITH_SLASHES = frozenset({"path", "ref", "branch", "basehead", "name"})
_NULL = {"type": "object", "nullable": True, "enum": [None]}
Json = Any


class DescriptionMissing(Exception):
    """GitHub's description is not installed; the message says what to do."""


def find(checkout: Path, relative: Path) -> Path:
    """Return an npm file of the checkout. DescriptionMissing when it is not there."""
    path = checkout / relative
    if not path.is_file():
        raise DescriptionMissing(f"{path} is missing: run `make setup` (npm ci) first")
    return path


class Contract:
    """GitHub's description of the operations that the local GitHub serves."""

    def __init__(self, description: Path) -> None:
        self._spec = _slice(description)
        config = Config(spec_validator_cls=None)  # validating the document itself takes 22 s
        self._openapi = OpenAPI.from_dict(self._spec, config=config)

    def violations(self, exchanges: Iterable[Exchange]) -> list[str]:
        """Return a sentence for every exchange that GitHub's description does not allow."""
        return [f"{one}: {problem}" for one in exchanges for problem in self._problems(one)]

    def _problems(self, exchange: Exchange) -> list[str]:
        if exchange.status >= 500 and not exchange.injected:
            return ["the local GitHub failed"]
        if not exchange.template:
            return _unknown_route(exchange)
        if not _documented(exchange):
            return []
        request = _request(exchange)
        problems = [] if exchange.status in (400, 422) else self._request_problems(request)
        if exchange.injected or exchange.status == 304:
            return problems
        return problems + self._response_problems(request, exchange)

    def _request_problems(self, request: MockRequest) -> list[str]:
        try:
            self._openapi.validate_request(request)
        except OpenAPIError as error:
            return [f"request: {_explain(error)}"]
        return []

    def _response_problems(self, request: MockRequest, exchange: Exchange) -> list[str]:
        operation = self._spec["paths"][exchange.template][exchange.method.lower()]
        if str(exchange.status) not in operation["responses"]:
            return _undescribed(exchange)
        headers = exchange.response_headers
        response = MockResponse(
            exchange.response_body,
            status_code=exchange.status,
            headers=dict(headers),
            content_type=headers.get("Content-Type", "").split(";")[0],
        )
        try:
            self._openapi.validate_response(request, response)
        except OpenAPIError as error:
            return [f"response: {_explain(error)}"]
        return []


def _documented(exchange: Exchange) -> bool:
    key = (exchange.method, exchange.template)
    return any((r.method, r.template) == key and r.documented for r in ROUTES)


def _unknown_route(exchange: Exchange) -> list[str]:
    if exchange.path.startswith("/api/graphql") or exchange.status == 404:
        return []
    return ["no such route"]


def _undescribed(exchange: Exchange) -> list[str]:
    """GitHub's description leaves many errors out; they all look alike. Successes it has all."""
    if exchange.status < 300:
        return [f"GitHub never answers {exchange.status} here"]
    body = json.loads(exchange.response_body)
    right = isinstance(body.get("message"), str) and isinstance(body.get("documentation_url"), str)
    return [] if right else ["an error without message and documentation_url"]


def _request(exchange: Exchange) -> MockRequest:
    path, view_args = _fill(exchange)
    return MockRequest(
        _SERVER,
        exchange.method.lower(),
        path,
        path_pattern=exchange.template,
        args=dict(exchange.parameters),
        view_args=view_args,
        data=exchange.request_body or None,
        content_type="application/json",
    )


def _fill(exchange: Exchange) -> tuple[str, dict[str, str]]:
    """Return the path with slashes inside of parameters encoded, as the description means it."""
    path = re.sub(r"^/repositories/\d+", "/repos/owner/repo", exchange.path)
    pattern = re.sub(r"\{(\w+)\}", _group, exchange.template)
    match = re.fullmatch(pattern, path)
    values = match.groupdict() if match else {}
    filled = exchange.template
    for name, value in values.items():
        filled = filled.replace(f"{{{name}}}", quote(value, safe=""))
    return filled, values


def _group(match: re.Match[str]) -> str:
    content = ".+" if match[1] in _WITH_SLASHES else "[^/]+"
    return f"(?P<{match[1]}>{content})"


def _explain(error: BaseException) -> str:
    """Return the innermost reasons of a chain of errors."""
    causes: list[BaseException] = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    details = [str(one) for one in getattr(causes[-1], "schema_errors", ())]
    return "; ".join(detail.split("\n\nFailed")[0] for detail in details) or repr(causes[-1])


@lru_cache(maxsize=2)
def _slice(description: Path) -> dict[str, Json]:
    """Return the paths in use with the components that they need: 0.5 of 12 MB."""
    whole = json.loads(description.read_text(encoding="utf-8"))
    wanted = {route.template for route in ROUTES if route.documented}
    paths = {path: item for path, item in whole["paths"].items() if path in wanted}
    components: dict[str, dict[str, Json]] = {}
    _collect(paths, whole["components"], components)
    spec = {
        "openapi": whole["openapi"],
        "info": whole["info"],
        "servers": [{"url": _SERVER}],
        "paths": paths,
        "components": components,
    }
    _mend(spec)
    return spec


def _collect(node: Json, source: Mapping[str, Json], found: dict[str, dict[str, Json]]) -> None:
    for reference in _references(node):
        _, _, kind, name = reference.split("/", 3)
        if name not in found.setdefault(kind, {}):
            found[kind][name] = source[kind][name]
            _collect(source[kind][name], source, found)


def _references(node: Json) -> Iterable[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        children: Iterable[Json] = node.values()
    else:
        children = node if isinstance(node, list) else ()
    for child in children:
        yield from _references(child)


def _mend(spec: dict[str, Json]) -> None:
    """Correct what the description says against what GitHub is known to answer."""
    _allow_null(spec)
    for name in ("pull-request-review-comment", "review-comment"):
        properties = spec["components"]["schemas"][name]["properties"]
        for key in ("line", "position"):  # null once the comment is outdated
            properties[key] = {**properties[key], "nullable": True}
    labels = spec["paths"]["/repos/{owner}/{repo}/issues/{issue_number}/labels"]
    for method in ("post", "put"):  # "You can also pass an array of labels directly"
        content = labels[method]["requestBody"]["content"]["application/json"]
        content["schema"]["oneOf"].append({"type": "array", "items": {"type": "string"}})
    listed = spec["paths"]["/app/installations"]["get"]["responses"]["200"]["content"]
    account = listed["application/json"]["schema"]["items"]["properties"]["account"]
    account["anyOf"] = account.pop("allOf")  # a user or an enterprise, not both at once


def _allow_null(node: Json) -> None:
    """In OpenAPI 3.0 `nullable` beside an `enum` or `oneOf` forbids null, which GitHub does not
    mean: the `conclusion` of a check run that still runs is null, and so is the `author` of a
    commit whose address is no account's."""
    if isinstance(node, dict):
        if node.get("nullable") and isinstance(node.get("enum"), list) and None not in node["enum"]:
            node["enum"] = [*node["enum"], None]
        for key in ("anyOf", "oneOf"):
            if node.get("nullable") and isinstance(node.get(key), list) and _NULL not in node[key]:
                node[key] = [*node[key], _NULL]
        children: Iterable[Json] = node.values()
    else:
        children = node if isinstance(node, list) else ()
    for child in children:
        _allow_null(child)
