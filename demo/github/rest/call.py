"""One request as a handler sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from werkzeug.wrappers import Request

from demo.github.access import Principal, require
from demo.github.errors import ApiError, invalid_request, not_found, requires_authentication
from demo.github.records import App, Issue, Pull, Repo, User, find_by_id
from demo.github.shapes.view import View
from demo.github.world import World


@dataclass(frozen=True)
class Call:
    """A request, who makes it, and the things its path names (ApiError 404 when they are not)."""

    world: World
    request: Request
    principal: Principal
    view: View
    args: Mapping[str, Any]

    # who

    @property
    def actor(self) -> User:
        """The acting account. ApiError 401 when there is none."""
        if self.principal.user is None:
            raise requires_authentication()
        return self.principal.user

    @property
    def via_app(self) -> App | None:
        return self.principal.via_app

    def need(self, *needs: str, public: bool = False) -> None:
        """Check permissions that depend on what the path names."""
        require(self.principal, self.repo, needs, public=public)

    def need_for_issue(self, issue: Issue, level: str) -> None:
        """Issues need `issues`; on pull requests `pull_requests` will do as well."""
        needs = [f"issues:{level}"]
        if isinstance(issue, Pull):
            needs.append(f"pull_requests:{level}")
        self.need(*needs, public=level == "read")

    # what

    @cached_property
    def repo(self) -> Repo:
        repo = self.world.find_repo(f"{self.args['owner']}/{self.args['repo']}")
        if repo is None:
            raise not_found()
        return repo

    def issue(self) -> Issue:
        """Return the issue or pull request in the path. ApiError 404, or 410 when deleted."""
        issue = self.repo.issues_by_number.get(self.args["issue_number"])
        if issue is None:
            raise not_found()
        if issue.deleted:
            raise ApiError(410, "This issue was deleted")
        self.need_issues(issue)
        return issue

    def need_issues(self, issue: Issue) -> None:
        """ApiError 410 for what belongs to an issue where they are switched off."""
        if not self.repo.has_issues and not isinstance(issue, Pull):
            raise ApiError(410, "Issues has been disabled in this repository.")

    def pull(self) -> Pull:
        pull = self.repo.issues_by_number.get(self.args["pull_number"])
        if not isinstance(pull, Pull):
            raise not_found()
        return pull

    def pick(self, items: Sequence[Any], name: str) -> Any:
        """Return the item whose id is in the path under a name."""
        found = find_by_id(items, self.args[name])
        if found is None:
            raise not_found()
        return found

    # input

    @cached_property
    def json(self) -> Any:
        """Return what the body says, whatever it is. ApiError 400 when it is not JSON."""
        raw = self.request.get_data()
        try:
            return json.loads(raw) if raw else {}
        except ValueError:
            raise ApiError(400, "Problems parsing JSON") from None

    @cached_property
    def body(self) -> dict[str, Any]:
        """Return the JSON object in the body. ApiError 400 when it is none."""
        if not isinstance(self.json, dict):
            raise ApiError(400, "Body should be a JSON object")
        return self.json

    def text(self, name: str) -> str:
        """Return a required text. ApiError 422 when missing or something else."""
        if name not in self.body:
            raise invalid_request(f'"{name}" wasn\'t supplied.')
        return self._text(name, self.body[name])

    def text_or_none(self, name: str) -> str | None:
        value = self.body.get(name)
        return None if value is None else self._text(name, value)

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise _not_a("string", name, value)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.body.get(name, default)
        if not isinstance(value, bool):
            raise _not_a("boolean", name, value)
        return value

    def number_or_none(self, name: str) -> int | None:
        value = self.body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise _not_a("integer", name, value)
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts (empty when absent)."""
        values = self.body.get(name, [])
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise _not_a("array", name, values)
        return values

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        """Return one of some words, or None when absent."""
        value = self.text_or_none(name)
        if value is not None and value not in allowed:
            known = ", ".join(f'"{one}"' for one in allowed)
            reason = f"For 'properties/{name}', {value} is not a member of [{known}]."
            raise invalid_request(reason)
        return value

    def query(self, name: str, default: str = "") -> str:
        return self.request.args.get(name, default)


def _not_a(kind: str, name: str, value: Any) -> ApiError:
    shown = "nil" if value is None else json.dumps(value)[:80]
    article = "an" if kind[0] in "aeiou" else "a"
    return invalid_request(f"For 'properties/{name}', {shown} is not {article} {kind}.")
