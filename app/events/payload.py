"""JSON that a stranger wrote, read field by field; what is wrong is named by its place. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


class MalformedDelivery(Exception):
    """The bytes are signed but are not what GitHub documents; the message says where."""


class NotForUs(Exception):
    """Well-formed, but lacks what every event of ours needs; becomes Ignored."""


def shown(text: str) -> str:
    """Return a stranger's word as it may stand in a message."""
    return "".join(c if c.isprintable() else "?" for c in text[:100])


def decode(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a delivery. MalformedDelivery."""
    if body.startswith(b"payload="):
        raise MalformedDelivery(
            "the body is form-encoded: set the webhook's content type to application/json"
        )
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedDelivery(f"the body is not JSON ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise MalformedDelivery("the body is not a JSON object")
    return value


def _clean(text: str) -> str:
    """Drop NUL (PostgreSQL stores none) and lone surrogates (UTF-8 has none)."""
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return paired.replace("\0", "")


class Node:
    """One JSON object and the path to it, so that an error can say where it was."""

    def __init__(self, value: Mapping[str, Any], path: str) -> None:
        self._value = value
        self._path = path

    def _wrong(self, key: str, wanted: str) -> MalformedDelivery:
        return MalformedDelivery(f"{shown(self._path)}.{key} is not {wanted}")

    def has(self, key: str) -> bool:
        return self._value.get(key) is not None

    def node(self, key: str) -> Node:
        found = self.optional_node(key)
        if found is None:
            raise self._wrong(key, "an object")
        return found

    def optional_node(self, key: str) -> Node | None:
        value = self._value.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return Node(value, f"{self._path}.{key}")

    def nodes(self, key: str) -> tuple[Node, ...]:
        values = self._value.get(key)
        if values is None:
            return ()
        if not isinstance(values, list) or not all(isinstance(v, dict) for v in values):
            raise self._wrong(key, "a list of objects")
        return tuple(Node(v, f"{self._path}.{key}[{i}]") for i, v in enumerate(values))

    def text(self, key: str) -> str:
        value = self._value.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return _clean(value)

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def integer(self, key: str) -> int:
        value = self._value.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(key, "an integer")
        return value

    def optional_integer(self, key: str) -> int | None:
        return self.integer(key) if self.has(key) else None

    def optional_moment(self, key: str) -> datetime | None:
        """A time as GitHub writes it: ISO 8601 in UTC, to the second."""
        written = self.optional_text(key)
        if written is None:
            return None
        try:
            moment = datetime.fromisoformat(written)
        except ValueError:
            raise self._wrong(key, "a time") from None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

    def flag(self, key: str) -> bool:
        """A missing or null flag is false, as in older GitHub Enterprise payloads."""
        value = self._value.get(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return bool(value)
