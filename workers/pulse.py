"""Keeps a run's lease alive while it is driven, and tells when it must stop.

A thread beats every few seconds; a beat that the store refuses (cancelled, or the lease went to
somebody else) calls `on_stop` once, which kills the machine and so wakes whoever waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import structlog

BEAT_S = 2.0
LEASE_S = 20.0

log = structlog.get_logger()


class Pulse:
    """`with Pulse(beat, …) as pulse:`; `beat()` returns False when the driver must stop."""

    def __init__(
        self, beat: Callable[[], bool], on_stop: Callable[[], None], every_s: float = BEAT_S
    ) -> None:
        self._beat = beat
        self._on_stop = on_stop
        self._every_s = every_s
        self._done = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)

    @property
    def stopped(self) -> bool:
        """True once the store refused a beat."""
        return self._stopped.is_set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(self._every_s):
            if not self._try_beat():
                self._stopped.set()
                self._on_stop()
                return

    def _try_beat(self) -> bool:
        # A database that is away for a moment must not end a run that works without it: the lease
        # outlives several beats, and the next transition is refused if it was lost meanwhile.
        try:
            return self._beat()
        except Exception as error:  # noqa: BLE001
            log.warning("pulse.beat_failed", error=str(error))
            return True
