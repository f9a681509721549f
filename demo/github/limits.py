"""GitHub's primary rate limit: so many requests per identity and hour.

See https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

WINDOW_S = 3600


@dataclass(frozen=True)
class Allowance:
    """How an identity stands: `limit` a window, `used` so far, `reset` in epoch seconds."""

    limit: int
    used: int
    reset: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    @property
    def exceeded(self) -> bool:
        return self.used > self.limit

    def headers(self) -> dict[str, str]:
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset),
            "X-RateLimit-Used": str(min(self.used, self.limit)),
            "X-RateLimit-Resource": "core",
        }


class RateLimits:
    """Counts requests in fixed windows. The two limits may be changed at any time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.authenticated = 5000
        self.anonymous = 60
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[str, tuple[int, int]] = {}

    def take(self, identity: str, count: int = 1) -> Allowance:
        """Count a request (none with `count=0`) and return how the identity stands now."""
        limit = self.anonymous if identity == "anonymous" else self.authenticated
        now = int(self._clock())
        with self._lock:
            reset, used = self._windows.get(identity, (now + WINDOW_S, 0))
            if now >= reset:
                reset, used = now + WINDOW_S, 0
            used += count
            self._windows[identity] = (reset, used)
        return Allowance(limit, used, reset)
