"""Tells the store and the issue how far a run has come; stops it when it is no longer ours.

Every phase is a compare-and-set in the store. When that is refused, somebody else has the run, or
it was cancelled: `LostRun` is raised and nothing more is written.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog
from sqlalchemy.orm import Session

from app.states import RunEvent, RunState, next_state
from app.store import Run, RunFields, attempts, runs, writing
from sandbox.provider import Sandbox
from workers.patience import until_database_answers
from workers.record import Record
from workers.services import Services

T = TypeVar("T")

log = structlog.get_logger()


class LostRun(Exception):
    """The run is not this driver's any more; whoever has it now will speak for it."""


class Journal:
    """The `Listener` of a run on GitHub. `told` is called after each phase has begun."""

    def __init__(
        self,
        services: Services,
        run: Run,
        owner: str,
        record: Record,
        folder: Path,
        told: Callable[[RunState], None],
    ) -> None:
        self._services = services
        self._run = run
        self._owner = owner
        self._record = record
        self._told = told
        self._log = folder / "aider.log"
        self._since = time.monotonic()
        self._stopped = threading.Event()
        self.state = run.state
        self.sandbox: Sandbox | None = None

    def enter(self, phase: RunState) -> None:
        """Move the run on to `phase`, passing through the phases between."""
        self._go_on()
        while self.state is not phase:
            self._advance()
        self._told(phase)

    def opened(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        # A stop that came while the machine was being made found none to kill.
        self._go_on()
        receipt = sandbox.receipt
        self._write(
            lambda session: attempts.start(
                session,
                self._run.id,
                self._run.attempt,
                machine_id=sandbox.id,
                provider=sandbox.tier,
                receipt={"template": receipt.template_digest, **receipt.facts},
                now=self._services.clock(),
            )
        )

    def say(self, kind: str, text: str) -> None:
        if kind.startswith("aider."):
            with self._log.open("a", encoding="utf-8") as log:
                log.write(text)
            return
        now = self._services.clock()
        self._write(lambda session: runs.log(session, self._run.id, kind, text, now))

    def note(self, **values: object) -> None:
        """Write fields of the run. LostRun when it is somebody else's."""
        fields: RunFields = values  # type: ignore[assignment]
        now = self._services.clock()
        ours = self._write(
            lambda session: runs.update(session, self._run.id, now, owner=self._owner, **fields)
        )
        if not ours:
            raise LostRun(self._run.id)

    def close(self, event: RunEvent, fields: RunFields) -> None:
        """End the run. LostRun when it is somebody else's."""
        self._measure()
        self._transition(event, fields)

    def end_attempt(self, outcome: RunState) -> None:
        """Record how this attempt's machine ended; nothing if there was none."""
        run, now = self._run, self._services.clock()
        self._write(lambda session: attempts.end(session, run.id, run.attempt, outcome, now))

    def stop(self) -> None:
        """Let the run go no further: its machine is killed, the next step raises `LostRun`."""
        log.info("run.told_to_stop", run=self._run.id)
        self._stopped.set()
        if self.sandbox is not None:
            self.sandbox.kill()

    def pause(self, seconds: float) -> None:
        """Wait. LostRun when the run is stopped meanwhile."""
        self._services.wait(self._stopped, seconds)
        self._go_on()

    def measure(self) -> None:
        """Count the present phase's seconds so far into the record."""
        self._measure()

    def _advance(self) -> None:
        self._measure()
        following = self._transition(RunEvent.ADVANCE, {})
        self.state = following

    def _transition(self, event: RunEvent, fields: RunFields) -> RunState:
        now = self._services.clock()
        ours = self._write(
            lambda session: runs.transition(
                session, self._run.id, self.state, event, now, owner=self._owner, **fields
            )
        )
        if not ours:
            raise LostRun(self._run.id)
        return next_state(self.state, event)

    def _go_on(self) -> None:
        if self._stopped.is_set():
            raise LostRun(self._run.id)

    def _write(self, write: Callable[[Session], T]) -> T:
        """Write in one transaction; a database that is away for a moment is waited for."""

        def once() -> T:
            with writing(self._services.engine) as session:
                return write(session)

        return until_database_answers(once, self._services.patience.database_s)

    def _measure(self) -> None:
        now = time.monotonic()
        seconds = self._record.seconds
        seconds[self.state] = seconds.get(self.state, 0.0) + now - self._since
        self._since = now
