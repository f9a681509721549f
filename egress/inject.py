"""Credentials: added on the host, bound to one upstream, never shown, taken out when echoed.

The guest's own headers pass by an allow-list, so that nothing it makes up (cookies, vendor
headers, hop-by-hop headers, account selectors) reaches an upstream; what looks like a credential
of its own and is not our placeholder is named, so that the attempt can be recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote_plus

from egress.hosts import normalise_host

# What Aider is given instead of a key. Not a secret: the only value a guest may send.
PLACEHOLDER = "drydock-placeholder"

# A shorter "key" (`ollama`, `EMPTY`) is a word of the conversation, not a secret to look for.
MIN_SECRET = 8

Headers = list[tuple[str, str]]
Origin = tuple[str, str, int]

CREDENTIAL_HEADERS = frozenset(
    {"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie", "proxy-authorization"}
)
_CREDENTIAL_PARAMETERS = frozenset(
    {"key", "api_key", "api-key", "apikey", "access_token", "token", "auth", "authorization"}
)
_PASSED_UP = frozenset({"accept", "content-type", "user-agent", "anthropic-version"})
_PASSED_UP_PREFIXES = ("anthropic-beta", "x-stainless-")
_PASSED_DOWN = frozenset(
    {
        "cache-control",
        "content-type",
        "date",
        "retry-after",
        "retry-after-ms",
        "request-id",
        "x-request-id",
        "x-should-retry",
    }
)
_PASSED_DOWN_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-")


class BadCredential(ValueError):
    """A credential that cannot be used as given. The message never shows the value."""


class Credential:
    """One secret, for one header of one (scheme, host, port).

    `authorization` carries it as a Bearer token, any other header as it is. It has no attribute
    that a repr, `vars`, `asdict` or pickle would show.
    """

    __slots__ = ("_secret", "bound_to", "header", "name")

    def __init__(self, name: str, header: str, value: str, bound_to: Origin) -> None:
        if not value or not value.isascii() or not value.isprintable() or " " in value:
            raise BadCredential(f"credential {name!r} is empty or holds spaces or control bytes")
        scheme, host, port = bound_to
        self.name = name
        self.header = header.lower()
        self.bound_to = (scheme, normalise_host(host), port)
        self._secret = value

    def header_for(self, origin: Origin) -> tuple[str, str]:
        """Return the header for exactly the bound origin. BadCredential for any other."""
        if origin != self.bound_to:
            raise BadCredential(f"credential {self.name!r} is not for {origin[0]}://{origin[1]}")
        bearer = "Bearer " if self.header == "authorization" else ""
        return self.header, bearer + self._secret

    def redactor(self) -> Redactor:
        """Return a fresh redactor for one response's bytes."""
        return Redactor(self._secret.encode())

    def __repr__(self) -> str:
        scheme, host, port = self.bound_to
        return f"Credential({self.name!r}, {self.header!r}, for {scheme}://{host}:{port})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a credential does not travel: build it where it is used")


class Redactor:
    """Replaces one secret in a stream by as many asterisks, wherever the chunks were cut.

    Only bytes that could be the beginning of the secret are held back, so a stream is not delayed.
    `found` says how often it was there.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret if len(secret) >= MIN_SECRET else b""
        self._held = b""
        self.found = 0

    def feed(self, data: bytes) -> bytes:
        """Return what may go on now."""
        data = self._replace(self._held + data)
        keep = self._overlap(data)
        self._held = data[len(data) - keep :]
        return data[: len(data) - keep]

    def flush(self) -> bytes:
        """Return what was held back: the stream ended before it became the secret."""
        held, self._held = self._held, b""
        return held

    def clean_header(self, value: str) -> str:
        """Return a header's value without the secret."""
        return self._replace(value.encode("latin-1")).decode("latin-1")

    def _replace(self, data: bytes) -> bytes:
        if not self._secret:
            return data
        self.found += data.count(self._secret)
        return data.replace(self._secret, b"*" * len(self._secret))

    def _overlap(self, data: bytes) -> int:
        """Return the length of the longest end of `data` that the secret begins with."""
        longest = min(len(data), len(self._secret) - 1)
        starts = (size for size in range(longest, 0, -1) if data.endswith(self._secret[:size]))
        return next(starts, 0)


@dataclass(frozen=True)
class Stripped:
    """A guest's query and headers after stripping. `attempts` names its own credentials."""

    headers: tuple[tuple[str, str], ...]
    query: str
    attempts: tuple[str, ...]


def strip_guest(headers: Iterable[tuple[str, str]], query: str) -> Stripped:
    """Keep only what an upstream may see of a guest's request, and name what it tried to send."""
    pairs = [(name.lower(), value) for name, value in headers]
    kept_query, in_query = _strip_query(query)
    attempts = [f"header {name}" for name, value in pairs if _is_attempt(name, value)]
    return Stripped(
        headers=tuple(pair for pair in pairs if _passes_up(pair[0])),
        query=kept_query,
        attempts=tuple(dict.fromkeys(attempts + in_query)),
    )


def keep_response_headers(headers: Iterable[tuple[str, str]]) -> Headers:
    """Keep only the response headers that a client needs: no cookie, account or hop-by-hop."""
    return [
        (name, value)
        for name, value in headers
        if name in _PASSED_DOWN or name.startswith(_PASSED_DOWN_PREFIXES)
    ]


def check_credentials(origins: Mapping[str, Origin], credentials: Mapping[str, Credential]) -> None:
    """Raise BadCredential unless each named credential exists and is bound to its origin."""
    for name, origin in origins.items():
        if name not in credentials:
            raise BadCredential(f"no credential is named {name!r}")
        credentials[name].header_for(origin)


def _passes_up(name: str) -> bool:
    return name in _PASSED_UP or name.startswith(_PASSED_UP_PREFIXES)


def _is_attempt(name: str, value: str) -> bool:
    if name not in CREDENTIAL_HEADERS:
        return False
    return value not in (PLACEHOLDER, f"Bearer {PLACEHOLDER}")


def _strip_query(query: str) -> tuple[str, list[str]]:
    kept: list[str] = []
    attempts: list[str] = []
    for part in query.split("&"):
        name, _, value = part.partition("=")
        if unquote_plus(name).lower() not in _CREDENTIAL_PARAMETERS:
            kept.append(part)
        elif value != PLACEHOLDER:
            attempts.append(f"query parameter {unquote_plus(name)[:32]!r}")
    return "&".join(part for part in kept if part), attempts
