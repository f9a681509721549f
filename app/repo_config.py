"""`.github/drydock.yml` → RepoConfig or ConfigError. Pure.

The file is read from the default branch only, so what it says was merged by a maintainer; its
text is still parsed as hostile (`app.plain_yaml`). What a repository may choose within the
operator's limits is `app.config_limits`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.config_values import (
    PERMISSIONS,
    Allowed,
    Branch,
    Draft,
    Globs,
    Label,
    Labels,
    Name,
    Names,
    ProtectedPaths,
    RepoPath,
    Reviewers,
    Seconds,
    ShellCommand,
    ShellCommands,
)
from app.plain_yaml import MAX_BYTES, BadYaml, PlainFile, read_plain, shown

__all__ = [
    "CONFIG_PATH",
    "MAX_BYTES",
    "ConfigError",
    "EgressWish",
    "RepoConfig",
    "parse_leniently",
    "parse_repo_config",
    "problems_of",
]

CONFIG_PATH = ".github/drydock.yml"


class EgressWish(BaseModel):
    """What a repository needs of what the operator allows; it can only leave things out."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    registries: Names | None = Field(
        None, description="Package tools whose registries are needed; all that are open if not set."
    )
    hosts: Names | None = Field(
        None, description="Other hosts that are needed; all that are open if not set."
    )


class RepoConfig(BaseModel):
    """What a repository may say about runs on it. Commands are given to `sh -c` in the guest."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )

    label: Label | None = Field(
        None, description="The label that starts a run, instead of the operator's."
    )
    allow: Allowed | None = Field(
        None,
        description="Who may start runs: `triage`, `write`, `maintain` or `admin`, or the members "
        "of a team, as `org/team`. Never less than the operator asks for.",
    )
    include_comments: Literal["trusted", "all"] = Field(
        "trusted",
        description="Whose comments the model reads: those of people who may start runs, or "
        "`all` people's.",
    )
    model: Name | None = Field(None, description="One of the operator's models.")
    base: Branch | None = Field(
        None, description="Branch to start from and to merge into; the default branch if not set."
    )
    template: Name | None = Field(
        None, description="A template that the operator has baked, for the machine."
    )
    setup: ShellCommands = Field(
        (), description="Commands that prepare the checkout, in order, before Aider starts."
    )
    test: ShellCommand | None = Field(
        None, description="Runs the tests; exit status 0 is success. Found by itself if not set."
    )
    lint: ShellCommand | None = Field(
        None, description="Checks the files that were edited, while Aider works."
    )
    instructions: RepoPath | None = Field(
        None,
        description="A file of conventions, which Aider reads and cannot change; taken from the "
        "default branch.",
    )
    files: Globs = Field(
        (),
        description="Paths or globs of files that Aider has open from the start, beside those "
        "that the issue names.",
    )
    protected_paths: ProtectedPaths = Field(
        (),
        description="Globs of paths that a run may not change, or `glob: refuse|warn|allow`; the "
        "first that fits counts. The operator's own rules hold in any case.",
    )
    egress: EgressWish | None = Field(
        None, description="Narrows what runs may reach; `registries: []` and `hosts: []` close all."
    )
    attempts: int | None = Field(
        None, ge=1, le=8, description="How many machines try at a time, at most the operator's."
    )
    ttl: Seconds | None = Field(
        None,
        description="A machine's life at most: minutes, or a time such as `45m` or `1h30m`; no "
        "more than the operator's.",
    )
    budget_usd: float | None = Field(
        None,
        gt=0,
        description="The most that one run may spend, in USD; no more than the operator's.",
    )
    draft: Draft = Field(
        True,
        description="Open pull requests as drafts; `auto` opens those ready for review whose tests "
        "ran and pass. One that is open stays what it is.",
    )
    signed_commits: bool = Field(
        False,
        description="Have GitHub make the commits, so that they show as verified; for repositories "
        "that require signed commits. Their author is then the App itself.",
    )
    on_failing_tests: Literal["draft", "none"] = Field(
        "draft",
        description="What a run ends as whose tests fail: a `draft` pull request, whatever `draft` "
        "says, or `none` at all.",
    )
    reviewers: Reviewers = Field(
        (),
        description="Logins, and teams as `org/team`, that are asked to review the pull request.",
    )
    suggest_reviewers: bool = Field(
        False,
        description="Name in the pull request who might review it, by CODEOWNERS and by who has "
        "changed the same files. Nobody is asked or mentioned.",
    )
    labels: Labels = Field((), description="Labels that the pull request is given.")
    fix_ci: bool = Field(
        False, description="Start a run when a check fails on a pull request of Drydock's."
    )
    fix_ci_rounds: int = Field(
        1, ge=0, le=10, description="How many such runs there are between two acts of people."
    )


@dataclass(frozen=True)
class ConfigError:
    """Why the file was refused. `reason` may quote the file: render it as code.

    `line` is 1-based; None when the whole file is meant. `nearest` is the right spelling.
    """

    reason: str
    line: int | None = None
    nearest: str | None = None


# --- from bytes to values, or to what is wrong ------------------------------------------------


def parse_repo_config(data: bytes | None) -> RepoConfig | ConfigError:
    """Return the config; the defaults for None or an empty file. Total: wrong files are values."""
    found = _parse(data or b"")
    return found if isinstance(found, RepoConfig) else found[0]


def parse_leniently(data: bytes | None) -> RepoConfig:
    """Return what even a wrong file says of how runs start: `label` and `allow`, each if right.

    Whoever starts one by the repository's label is then told what is wrong; an unreadable config
    would leave them without an answer.
    """
    config = parse_repo_config(data)
    if isinstance(config, RepoConfig):
        return config
    try:
        values = read_plain(data or b"").values
    except BadYaml:
        return RepoConfig.model_validate({})
    right = {key: values[key] for key in ("label", "allow") if _is_right(key, values)}
    return RepoConfig.model_validate(right)


def _is_right(key: str, values: Mapping[str, object]) -> bool:
    try:
        RepoConfig.model_validate({key: values[key]})
    except (KeyError, ValidationError):
        return False
    return True


def problems_of(data: bytes) -> tuple[ConfigError, ...]:
    """Return everything that is wrong with the file, in its order; () for a right one."""
    found = _parse(data)
    return () if isinstance(found, RepoConfig) else found


def _parse(data: bytes) -> RepoConfig | tuple[ConfigError, ...]:
    try:
        file = read_plain(data)
    except BadYaml as error:
        return (ConfigError(error.reason, error.line),)
    try:
        return RepoConfig.model_validate(dict(file.values))
    except ValidationError as error:
        found = dict.fromkeys(_explain(dict(each), file) for each in error.errors())
        return tuple(sorted(found, key=lambda each: each.line or 0))


def nearest(word: object, right: Collection[str]) -> str | None:
    """Return which of the right words was probably meant; None when none is near."""
    found = difflib.get_close_matches(str(word).lower(), right, 1)
    return found[0] if found else None


def _explain(error: Mapping[str, Any], file: PlainFile) -> ConfigError:
    place = tuple(error["loc"])
    line = file.line_of(place)
    if error["type"] == "extra_forbidden":
        return _unknown_key(place, line)
    near = _nearest_value(error, place)
    return ConfigError(f"{_named(place)} {_wanted(error, place)}", line, near)


def _unknown_key(place: tuple[str | int, ...], line: int | None) -> ConfigError:
    """Only `egress` has keys of its own."""
    inside = len(place) > 1
    fields = EgressWish.model_fields if inside else RepoConfig.model_fields
    key = shown(place[-1])
    where = f" in {place[0]}" if inside else ""
    return ConfigError(f"unknown key {key}{where}", line, nearest(key, fields))


def _named(place: tuple[str | int, ...]) -> str:
    key, *inner = place
    name = next((each for each in inner if isinstance(each, str)), None)
    return f"{key}: {shown(name)}" if name is not None else str(key)


def _nearest_value(error: Mapping[str, Any], place: tuple[str | int, ...]) -> str | None:
    if error["type"] == "literal_error":
        return nearest(error["input"], re.findall(r"'(\w+)'", error["ctx"]["expected"]))
    if place == ("allow",) and error["type"] == "value_error":
        return nearest(error["input"], PERMISSIONS)
    return None


_WANTED = {
    "bool_type": "must be true or false",
    "string_type": "must be text (put it in quotes)",
    "string_too_short": "must not be empty",
    "string_too_long": "must not be longer than {max_length} characters",
    "too_long": "must not have more than {max_length} entries",
    "literal_error": "must be {expected}",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than_equal": "must be {le:g} or less",
    "model_type": "must be a list of `key: value`",
    "invalid_key": "must have keys that are text",
}
_LISTS = {
    "setup": "must be a command or a list of commands",
    "protected_paths": "must be a list of globs, or `glob: refuse|warn|allow`",
    "egress": "must be a list of names",
}


def _wanted(error: Mapping[str, Any], place: tuple[str | int, ...]) -> str:
    kind, key = error["type"], str(place[0])
    if kind == "tuple_type" or (key == "egress" and kind == "string_type"):
        return _LISTS.get(key, "must be a text or a list of texts")
    if kind == "literal_error" and key == "protected_paths":
        return "must say refuse, warn or allow for each glob"
    if kind == "less_than_equal" and key == "ttl":
        return "must be a day or less"
    wanted = _WANTED.get(kind)
    if wanted is None:
        # It may quote the file, which may hold braces.
        return str(error["msg"]).removeprefix("Value error, ")
    return wanted.format_map({**error.get("ctx", {})})
