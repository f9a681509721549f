"""Tells the store and the issue how far a run has come; stops it when it is no longer ours.

Every phase is a compare-and-set in the store. When that is refused, somebody else has the run, or
it was cancelled: `LostRun` is raised and nothing more is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from app.states import RunEvent, RunState, next_state
from app.store import Run, RunFields, attempts, runs, writing
from sandbox.provider import Sandbox
from workers.record import Record
from workers.services import Services


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
        self.state = run.state
        self.sandbox: Sandbox | None = None

    def enter(self, phase: RunState) -> None:
        """Move the run on to `phase`, passing through the phases between."""
        while self.state is not phase:
            self._advance()
        self._told(phase)

    def opened(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        receipt = sandbox.receipt
        with writing(self._services.engine) as session:
            attempts.start(
                session,
                self._run.id,
                self._run.attempt,
                machine_id=sandbox.id,
                provider=sandbox.tier,
                receipt={"template": receipt.template_digest, **receipt.facts},
                now=self._services.clock(),
            )

    def say(self, kind: str, text: str) -> None:
        if kind.startswith("aider."):
            with self._log.open("a", encoding="utf-8") as log:
                log.write(text)
            return
        with writing(self._services.engine) as session:
            runs.log(session, self._run.id, kind, text, self._services.clock())

    def note(self, **values: object) -> None:
        """Write fields of the run. LostRun when it is somebody else's."""
        fields: RunFields = values  # type: ignore[assignment]
        with writing(self._services.engine) as session:
            ours = runs.update(
                session, self._run.id, self._services.clock(), owner=self._owner, **fields
            )
        if not ours:
            raise LostRun(self._run.id)

    def close(self, event: RunEvent, fields: RunFields) -> None:
        """End the run. LostRun when it is somebody else's."""
        self._measure()
        self._transition(event, fields)

    def kill(self) -> None:
        """Kill the machine, if there is one; whoever waits for it then hears `MachineLost`."""
        if self.sandbox is not None:
            self.sandbox.kill()

    def measure(self) -> None:
        """Count the present phase's seconds so far into the record."""
        self._measure()

    def _advance(self) -> None:
        self._measure()
        following = self._transition(RunEvent.ADVANCE, {})
        self.state = following

    def _transition(self, event: RunEvent, fields: RunFields) -> RunState:
        with writing(self._services.engine) as session:
            ours = runs.transition(
                session,
                self._run.id,
                self.state,
                event,
                self._services.clock(),
                owner=self._owner,
                **fields,
            )
        if not ours:
            raise LostRun(self._run.id)
        return next_state(self.state, event)

    def _measure(self) -> None:
        now = time.monotonic()
        seconds = self._record.seconds
        seconds[self.state] = seconds.get(self.state, 0.0) + now - self._since
        self._since = now
