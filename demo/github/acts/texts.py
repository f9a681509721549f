"""What GitHub refuses in titles and bodies."""

from __future__ import annotations

import re
from typing import Final

from demo.github.errors import custom_error, invalid_field

MAX_BODY: Final = 65_536
MAX_TITLE: Final = 256
_CLOSING: Final = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+(?:(?P<repo>[\w.-]+/[\w.-]+))?#(?P<number>\d+)",
    re.IGNORECASE,
)


def check_body(resource: str, body: str | None) -> None:
    """ApiError 422 when a body holds more than 65,536 characters."""
    if body is not None and len(body) > MAX_BODY:
        message = f"body is too long (maximum is {MAX_BODY} characters)"
        raise custom_error(resource, message, "body")


def check_comment(resource: str, body: str) -> None:
    """ApiError 422 when a comment is blank or too long."""
    if not body.strip():
        raise invalid_field(resource, "body", "missing_field")
    check_body(resource, body)


def check_title(resource: str, title: str) -> None:
    """ApiError 422 when a title is blank or longer than 256 characters."""
    if not title.strip():
        raise invalid_field(resource, "title", "missing_field")
    if len(title) > MAX_TITLE:
        message = f"title is too long (maximum is {MAX_TITLE} characters)"
        raise custom_error(resource, message, "title")


def closing_references(text: str, full_name: str) -> tuple[int, ...]:
    """Return the numbers of this repository's issues that a text says it closes, in order."""
    found = _CLOSING.finditer(text)
    ours = (m for m in found if (m["repo"] or full_name).lower() == full_name.lower())
    return tuple(dict.fromkeys(int(match["number"]) for match in ours))
