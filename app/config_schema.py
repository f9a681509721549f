"""The repository config as others read it: a JSON Schema for editors, a table for people. Pure.

Both follow from the model, so that neither can say what the parser does not do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic.fields import FieldInfo

from app.config_values import PathLevel
from app.repo_config import CONFIG_PATH, RepoConfig

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ONE_OR_MANY = ("setup", "files", "reviewers", "labels")
# What a validator takes before pydantic sees it, which pydantic's own schema cannot know.
_TTL = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1440},
        {"type": "string", "pattern": r"^(?=.)([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$"},
        {"type": "null"},
    ],
}
EXAMPLES = {
    "label": "robot",
    "allow": "acme/maintainers",
    "include_comments": "all",
    "model": "openai/gpt-4.1",
    "base": "develop",
    "template": "default",
    "setup": "[npm ci]",
    "test": "make test",
    "lint": "ruff check .",
    "instructions": "CONVENTIONS.md",
    "files": "[src/api.py, 'docs/*.md']",
    "protected_paths": "[migrations/**]",
    "egress": "{registries: [pip], hosts: []}",
    "attempts": "1",
    "ttl": "45m",
    "budget_usd": "2.5",
    "draft": "false",
    "signed_commits": "true",
    "on_failing_tests": "none",
    "reviewers": "[mona, acme/backend]",
    "suggest_reviewers": "true",
    "labels": "[bot, needs-review]",
    "fix_ci": "true",
    "fix_ci_rounds": "2",
}


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file."""
    schema = _untitled(RepoConfig.model_json_schema())
    properties = schema["properties"]
    for name in _ONE_OR_MANY:
        properties[name] = _one_or_many(properties[name])
    properties["protected_paths"] = _path_levels(properties["protected_paths"])
    properties["ttl"] = {**_without_type(properties["ttl"]), **_TTL}
    return {"$schema": SCHEMA_DIALECT, "title": CONFIG_PATH, **schema}


def _untitled(node: Any) -> Any:
    """Leave out the titles that pydantic makes of names: editors would show them for keys."""
    if isinstance(node, list):
        return [_untitled(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if key != "title" or isinstance(value, dict)}
    return {key: _untitled(value) for key, value in kept.items()}


def _one_or_many(listed: dict[str, Any]) -> dict[str, Any]:
    array = {key: listed[key] for key in ("type", "items", "maxItems") if key in listed}
    rest = {key: value for key, value in listed.items() if key not in array}
    return {**rest, "anyOf": [listed["items"], array]}


def _path_levels(listed: dict[str, Any]) -> dict[str, Any]:
    most = listed["maxItems"]
    rest = {k: v for k, v in listed.items() if k not in {"type", "items", "maxItems"}}
    glob = {"type": "string", "minLength": 1}
    level = {"type": "string", "enum": list(get_args(PathLevel))}
    table = {"type": "object", "additionalProperties": level, "maxProperties": most}
    return {**rest, "anyOf": [glob, {"type": "array", "items": glob, "maxItems": most}, table]}


def _without_type(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("default", "description")}


def key_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield each key with its default, an example, and what it means."""
    for name, field in RepoConfig.model_fields.items():
        yield name, _default(field), EXAMPLES[name], field.description or ""


def _default(field: FieldInfo) -> str:
    if field.default is None or field.default == ():
        return "none"
    return str(field.default).lower()
