"""The kinds of values that a setting may have: each is a type with its check.

A check's message says what a value must be and never repeats it: it may hold a secret.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints


def _split(value: object) -> object:
    """A list may be written `a, b` where the source has only text."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _base_url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    if any(c.isspace() for c in value):
        raise ValueError("must not contain spaces")
    authority = value.split("://", 1)[1].split("/", 1)[0]
    if "@" in authority:
        raise ValueError("must not carry a user name or password")
    return value.rstrip("/")


def _one_line(value: str) -> str:
    if not value.isprintable() or "<" in value or ">" in value:
        raise ValueError("must be one line without < or >")
    return value


def _existing_file(value: Path) -> Path:
    if not value.is_file():
        raise ValueError("must be the path of a file that exists")
    return value


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Name = Annotated[Text, AfterValidator(_one_line)]
Url = Annotated[Text, AfterValidator(_base_url)]
Names = Annotated[tuple[Text, ...], BeforeValidator(_split)]
UserPath = Annotated[Path, AfterValidator(Path.expanduser)]
ExistingFile = Annotated[UserPath, AfterValidator(_existing_file)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Registry = Literal["apt", "npm", "pip"]
Registries = Annotated[tuple[Registry, ...], BeforeValidator(_split)]
Phases = Annotated[tuple[Literal["setup", "agent", "verify"], ...], BeforeValidator(_split)]
Permission = Literal["triage", "write", "maintain", "admin"]


def _pairs(value: object) -> object:
    """`refuse:GLOB`, or a GLOB alone, which refuses; a table in the file has `GLOB = "level"`."""
    if isinstance(value, dict):
        return tuple(value.items())
    value = _split(value)
    if not isinstance(value, tuple | list):
        return value
    return tuple(_pair(each) if isinstance(each, str) else each for each in value)


def _pair(text: str) -> tuple[str, str]:
    level, colon, glob = text.partition(":")
    return (glob, level) if colon and level in _LEVELS else (text, "refuse")


def _rule_levels(value: object) -> object:
    """`RULE=level`; a table in the file has `RULE = "level"`."""
    if isinstance(value, dict):
        return tuple(value.items())
    value = _split(value)
    if not isinstance(value, tuple | list):
        return value
    return tuple(
        tuple(part.strip() for part in each.split("=", 1)) if isinstance(each, str) else each
        for each in value
    )


_LEVELS = ("refuse", "warn", "allow")
GateLevel = Literal["refuse", "warn", "allow"]
PathLevels = Annotated[tuple[tuple[Text, GateLevel], ...], BeforeValidator(_pairs)]
RuleLevels = Annotated[tuple[tuple[Text, GateLevel], ...], BeforeValidator(_rule_levels)]
