"""What can go wrong with GitHub, by what the caller can do about it.

    GitHubUnavailable  try again later (down, slow, unreachable, an answer that is none)
    RateLimited        try again at `reset_at`
    AccessLost         the App is no longer installed there, or suspended: stop, nowhere to post
    NotAllowed         the App may not do this one thing (permissions, a locked issue, its key)
    NotFound, Gone     that thing does not exist (any more)
    Invalid            GitHub understood and refuses; `errors` say why

All are `GitHubError`. https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECONDARY_LIMIT_WAIT_S = 60.0
"""How long to wait when a secondary limit names no time (GitHub's own advice)."""


class GitHubError(Exception):
    """GitHub did not do what it was asked; the text is for a person and holds no secret."""

    status: int | None = None
    """The HTTP status, when there was an answer."""


class GitHubUnavailable(GitHubError):
    """GitHub could not be reached or broke down. `retry_after` is in seconds, when it said so."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after)
        self.message = message
        self.retry_after = retry_after

    def __str__(self) -> str:
        return self.message


class RateLimited(GitHubError):
    """Too many requests. `reset_at` is when to go on, in seconds since the epoch."""

    def __init__(self, message: str, reset_at: float) -> None:
        super().__init__(message, reset_at)
        self.message = message
        self.reset_at = reset_at

    def __str__(self) -> str:
        return self.message


class AccessLost(GitHubError):
    """The App cannot reach that repository any more: uninstalled, suspended, deselected."""


class NotAllowed(GitHubError):
    """The App may not do that; the text is GitHub's reason."""


class NotFound(GitHubError):
    """No such thing, or none that the App may see."""


class Gone(GitHubError):
    """It existed and was deleted, or is switched off (issues disabled)."""


class Invalid(GitHubError):
    """GitHub refuses the request as it is. `errors` are its reasons, one or more."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        super().__init__(errors)
        self.errors = errors

    def __str__(self) -> str:
        return "; ".join(self.errors)

    def mentions(self, words: str) -> bool:
        """Whether any reason contains these words, in whatever case."""
        return any(words.lower() in error.lower() for error in self.errors)


def error_of(status: int, data: Any, headers: Mapping[str, Any], now: float) -> GitHubError:
    """Return the error that an answer of 300 or more means. Header names are lower case."""
    error = _error_of(status, data, headers, now)
    error.status = status
    return error


def _error_of(status: int, data: Any, headers: Mapping[str, Any], now: float) -> GitHubError:
    message = _message(status, data)
    if status in (403, 429):
        return _rate_limit(status, message, headers, now) or _forbidden(message)
    if status >= 500:
        return GitHubUnavailable(message, _seconds(headers.get("retry-after")))
    kinds: Mapping[int, type[GitHubError]] = {
        401: NotAllowed,
        404: NotFound,
        410: Gone,
        451: AccessLost,
    }
    if status in kinds:
        return kinds[status](message)
    if 300 <= status < 400:
        return NotFound(f"it was moved, and GitHub does not say where to ({status})")
    return Invalid(_reasons(message, data))


def _forbidden(message: str) -> GitHubError:
    if "suspended" in message.lower():
        return AccessLost(message)
    return NotAllowed(message)


def _rate_limit(
    status: int, message: str, headers: Mapping[str, Any], now: float
) -> RateLimited | None:
    """https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api"""
    retry_after = _seconds(headers.get("retry-after"))
    reset = _seconds(headers.get("x-ratelimit-reset"))
    if retry_after is not None:
        return RateLimited(message, now + retry_after)
    if headers.get("x-ratelimit-remaining") == "0" and reset is not None:
        return RateLimited(message, reset)
    if status == 429 or "rate limit" in message.lower():
        return RateLimited(message, now + SECONDARY_LIMIT_WAIT_S)
    return None


def _seconds(value: Any) -> float | None:
    try:
        return max(0.0, float(value))
    except (TypeError, ValueError):
        return None


def _message(status: int, data: Any) -> str:
    said = data.get("message") if isinstance(data, dict) else None
    return f"{said} ({status})" if isinstance(said, str) else f"GitHub answered {status}"


def _reasons(message: str, data: Any) -> tuple[str, ...]:
    listed = data.get("errors") if isinstance(data, dict) else None
    reasons = [_reason(entry) for entry in listed] if isinstance(listed, list) else []
    return (message, *reasons)


def _reason(entry: Any) -> str:
    """One entry of `errors`: a string, or an object with a message or with field and code."""
    if not isinstance(entry, dict):
        return str(entry)
    if isinstance(entry.get("message"), str):
        return str(entry["message"])
    words = (entry.get("resource"), entry.get("field"), entry.get("code"))
    return " ".join(str(word) for word in words if word)
