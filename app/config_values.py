"""What the values of a repository's config may be: types with their rules. Pure.

Each raises ValueError with the end of a sentence that begins with the key.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from app.branches import is_valid_branch
from app.plain_yaml import shown

PERMISSIONS = ("triage", "write", "maintain", "admin")
_MAX_COMMAND = 4000
_MAX_PATH = 300
_MAX_GLOBS = 200
# GitHub's own: https://docs.github.com/en/rest/pulls/review-requests
_MAX_REVIEWERS = 15
_MAX_LABEL = 50
_MAX_NAME = 200
_MAX_LISTED = 20
_DAY_S = 86_400
_LOGIN = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9_])?"
_SLUG = r"(?!\.+\Z)[A-Za-z0-9_.-]{1,100}"  # dots alone would walk up a URL
_ACCOUNT = re.compile(_LOGIN)
_TEAM = re.compile(rf"{_LOGIN}/{_SLUG}")
_TTL = re.compile(r"(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6})s)?")
# More than any ttl may be; a file may hold numbers that no float takes.
_MAX_MINUTES = 100_000


def _branch(value: str) -> str:
    if not is_valid_branch(value):
        raise ValueError("is not a name that git takes for a branch")
    return value


def _command(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _listed(value: object) -> object:
    """One may be written without the list around it."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be one line of text")
    return value


def _path(value: str) -> str:
    parts = value.split("/")
    if not value.isprintable() or value.startswith("/") or {"", ".", ".."} & set(parts):
        raise ValueError("must be a path from the repository's root, such as docs/style.md")
    return value


def _glob(value: str) -> str:
    if not value.isprintable() or value.startswith("/"):
        raise ValueError("must hold paths or globs from the repository's root, without a /")
    return value


def _reviewer(value: str) -> str:
    if not (_ACCOUNT.fullmatch(value) or _TEAM.fullmatch(value)):
        raise ValueError(f"must hold logins and teams (org/team), which {shown(value)!r} is not")
    return value


def _allowed(value: str) -> str:
    if value not in PERMISSIONS and not _TEAM.fullmatch(value):
        raise ValueError(f"must be {', '.join(PERMISSIONS)} or a team (org/team)")
    return value


def _seconds(value: object) -> object:
    """`45` is minutes; `1h30m`, `45m` and `90s` say it themselves."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return min(value, _MAX_MINUTES) * 60.0
    found = _TTL.fullmatch(value.strip()) if isinstance(value, str) and value.strip() else None
    if found is None:
        raise ValueError("must be minutes, or a time such as 45m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600.0 + minutes * 60 + seconds


def _draft(value: object) -> object:
    if not isinstance(value, bool) and value != "auto":
        raise ValueError("must be true, false or auto")
    return value


PathLevel = Literal["refuse", "warn", "allow"]
PathLevels = tuple[tuple[str, PathLevel], ...]


def _path_levels(value: object) -> object:
    """A list of globs means that each refuses; `glob: level` says it for each."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        return tuple((glob, "refuse") for glob in value)
    return tuple(value.items()) if isinstance(value, dict) else value


def _globs(value: PathLevels) -> PathLevels:
    for glob, _ in value:
        if not 0 < len(glob) <= _MAX_PATH or not glob.isprintable() or glob.startswith("/"):
            raise ValueError("must hold globs of paths from the repository's root, without a /")
    return value


def _text(most: int) -> StringConstraints:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=most)


def _names(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


ShellCommand = Annotated[str, _text(_MAX_COMMAND), AfterValidator(_command)]
Name = Annotated[str, _text(_MAX_NAME), AfterValidator(_one_line)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_names)]
Branch = Annotated[str, AfterValidator(_branch)]
Label = Annotated[str, _text(_MAX_LABEL), AfterValidator(_one_line)]
RepoPath = Annotated[str, _text(_MAX_PATH), AfterValidator(_path)]
Glob = Annotated[str, _text(_MAX_PATH), AfterValidator(_glob)]
Reviewer = Annotated[str, _text(_MAX_NAME), AfterValidator(_reviewer)]
Allowed = Annotated[str, _text(_MAX_NAME), AfterValidator(_allowed)]
Draft = Annotated[bool | Literal["auto"], BeforeValidator(_draft)]
Seconds = Annotated[float, Field(gt=0, le=_DAY_S), BeforeValidator(_seconds)]
ProtectedPaths = Annotated[
    PathLevels,
    Field(max_length=_MAX_GLOBS),
    BeforeValidator(_path_levels),
    AfterValidator(_globs),
]

_ONE_OR_MANY = BeforeValidator(_listed)
ShellCommands = Annotated[tuple[ShellCommand, ...], _ONE_OR_MANY]
Globs = Annotated[tuple[Glob, ...], Field(max_length=_MAX_LISTED), _ONE_OR_MANY]
Labels = Annotated[tuple[Label, ...], Field(max_length=_MAX_LISTED), _ONE_OR_MANY]
Reviewers = Annotated[tuple[Reviewer, ...], Field(max_length=_MAX_REVIEWERS), _ONE_OR_MANY]
