"""PyGithub's requester as Drydock uses it: no sleeping, no retries of its own, errors by meaning.

PyGithub retries POST after a 5xx (which doubles comments and pull requests), sleeps until a rate
limit resets, and throttles itself; all of that is off. `repeat` repeats what is safe to repeat,
and the gateway looks before it creates anything a second time.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import requests
from github import GithubException
from github.Auth import Auth
from github.Requester import Requester

from app.github.errors import GitHubError, GitHubUnavailable, Invalid, RateLimited, error_of

USER_AGENT = "drydock"
API_VERSION = "2022-11-28"
TIMEOUT_S = 15
PER_PAGE = 100
TRIES = 4
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0

T = TypeVar("T")

# PyGithub logs whole answers at DEBUG, and one of them is a token.
_quiet = logging.getLogger("app.github.pygithub")
_quiet.setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class Api:
    """Where the REST API is and how to trust it. `ca_bundle` None: what `requests` brings."""

    url: str
    ca_bundle: Path | None = None
    timeout_s: int = TIMEOUT_S

    def requester(self, auth: Auth) -> StrictRequester:
        """Return a requester that authenticates with `auth`; it connects when it is used."""
        return StrictRequester(
            auth=auth,
            base_url=self.url.rstrip("/"),
            timeout=self.timeout_s,
            user_agent=USER_AGENT,
            per_page=PER_PAGE,
            verify=str(self.ca_bundle) if self.ca_bundle is not None else True,
            retry=0,
            pool_size=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
            # Objects are made from their URL alone, without asking for them first.
            lazy=True,
            api_version=API_VERSION,
        )


class StrictRequester(Requester):
    """A requester that neither logs bodies nor takes a redirect for an answer.

    PyGithub follows 301 and hands any other redirect back as if it were the result. GitHub sends
    307 for writes to a renamed repository; such a one is followed once, on the same host.
    """

    @property
    def _logger(self) -> logging.Logger:
        return _quiet

    def requestJson(  # noqa: N802 -- PyGithub's name
        self, verb: str, url: str, *args: Any, **kwargs: Any
    ) -> tuple[int, dict[str, Any], str]:
        status, headers, output = super().requestJson(verb, url, *args, **kwargs)
        if status in (307, 308) and "location" in headers:
            # Only the path of the location is used, so the token stays with this host.
            status, headers, output = super().requestJson(
                verb, headers["location"], *args, **kwargs
            )
        if 300 <= status < 400:
            raise GithubException(status, None, headers)
        return status, headers, output


@contextmanager
def meaning(clock: Callable[[], float] = time.time) -> Iterator[None]:
    """Turn what PyGithub and requests raise into the errors of `app.github.errors`."""
    try:
        yield
    except GithubException as error:
        raise error_of(error.status, error.data, error.headers or {}, clock()) from None
    except requests.RequestException as error:
        # The text of these may quote a URL, and ours carry no secret.
        raise GitHubUnavailable(f"GitHub cannot be reached: {type(error).__name__}") from error
    except json.JSONDecodeError as error:
        raise GitHubUnavailable("GitHub's answer was not JSON") from error
    except (AssertionError, RuntimeError) as error:
        # PyGithub's way to refuse a link or redirect that leads to another address.
        problem = f"GitHub names another address than DRYDOCK_GITHUB_API_URL: {error}"
        raise Invalid((problem,)) from error


def repeat(ask: Callable[[], T], sleep: Callable[[float], None], clock: Callable[[], float]) -> T:
    """Ask up to TRIES times while GitHub is unavailable, with growing, jittered pauses.

    Only for what may be done twice. A rate limit that resets within LONGEST_PAUSE_S is waited
    for; a longer one is the caller's to schedule.
    """
    for attempt in range(TRIES - 1):
        try:
            return ask()
        except (GitHubUnavailable, RateLimited) as error:
            pause = pause_after(error, attempt, clock())
            if pause is None:
                raise
            sleep(pause)
    return ask()


def pause_after(error: GitHubError, attempt: int, now: float) -> float | None:
    """Return how many seconds to wait before the next try; None when it is not worth waiting."""
    if isinstance(error, RateLimited):
        wait = max(0.0, error.reset_at - now)
    elif isinstance(error, GitHubUnavailable) and error.retry_after is not None:
        wait = error.retry_after
    else:
        # Jitter keeps workers that failed together from coming back together.
        return float(FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311
    return wait + random.uniform(0, 0.5) if wait <= LONGEST_PAUSE_S else None  # noqa: S311
