"""Deadlines for connections that cannot time out by themselves.

A guest's connection is a blocking byte stream without timeouts: one thread per broker ends those
whose deadline has passed, whether they read too slowly or send too slowly.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Guard:
    """One connection's deadline. `expired` names what took too long, once it did."""

    def __init__(self, watchdog: Watchdog, end: Callable[[], None]) -> None:
        self._watchdog = watchdog
        self._end = end
        self.deadline: float | None = None
        self.waiting_for = ""
        self.expired = ""

    def allow(self, seconds: float, waiting_for: str) -> None:
        """Give the next step this long."""
        self._watchdog.set_deadline(self, time.monotonic() + seconds, waiting_for)

    def rest(self) -> None:
        """Stop the clock: somebody else's turn."""
        self._watchdog.set_deadline(self, None, "")

    def end(self) -> None:
        """End the connection now."""
        self._end()


class Watchdog:
    """Ends guarded connections in time. `close` ends all that are left."""

    CLOSE_WAIT_S = 5.0

    def __init__(self) -> None:
        self._guards: set[Guard] = set()
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def guard(self, end: Callable[[], None]) -> Guard | None:
        """Take a connection in; None after `close`. `end` must be quick and idempotent."""
        with self._changed:
            if self._closed:
                return None
            guard = Guard(self, end)
            self._guards.add(guard)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="egress-watchdog", daemon=True
                )
                self._thread.start()
            return guard

    def release(self, guard: Guard) -> None:
        """Let a connection go that has ended."""
        with self._changed:
            self._guards.discard(guard)
            self._changed.notify_all()

    def set_deadline(self, guard: Guard, deadline: float | None, waiting_for: str) -> None:
        with self._changed:
            sooner = deadline is not None and (guard.deadline is None or deadline < guard.deadline)
            guard.deadline = deadline
            guard.waiting_for = waiting_for
            if sooner:
                self._changed.notify_all()

    def close(self) -> None:
        """End every connection, and wait a little until their threads let go; idempotent."""
        with self._changed:
            self._closed = True
            guards = list(self._guards)
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        for guard in guards:
            guard.end()
        with self._changed:
            self._changed.wait_for(lambda: not self._guards, self.CLOSE_WAIT_S)
        if thread is not None:
            thread.join()

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                late = self._take_late()
                if not late:
                    self._changed.wait(self._pause())
            for guard in late:
                guard.end()

    def _take_late(self) -> list[Guard]:
        now = time.monotonic()
        late = [each for each in self._guards if each.deadline is not None and each.deadline <= now]
        for guard in late:
            guard.expired = guard.waiting_for
            guard.deadline = None
        return late

    def _pause(self) -> float | None:
        deadlines = [each.deadline for each in self._guards if each.deadline is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
