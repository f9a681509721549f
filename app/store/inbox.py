"""Storing deliveries: those that come at once are committed at once.

A commit that survives a power cut costs a write to the disk, and a turn at SQLite's one writer.
Whoever comes while another is at that waits and goes with the next: so a process writes once for
all its threads together, and the more there is to do the less each costs. Nobody returns before
what it brought is committed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as DatabaseTimeout
from sqlalchemy.orm import Session

from app.store import deliveries
from app.store.engine import patience_of, writing
from app.store.values import Delivery, NewDelivery


@dataclass
class _Waiting:
    """One delivery and what became of it: `error` unless it is known to be committed."""

    new: NewDelivery
    settled: bool = False
    earlier: Delivery | None = None
    error: Exception | None = field(default_factory=lambda: DatabaseTimeout("not stored"))


class Inbox:
    """Where the threads of one process bring what they received.

    A delivery waits as long as the engine's other transactions do before it is refused.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._patience_s = patience_of(engine)
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._busy = False

    def put(self, new: NewDelivery) -> Delivery | None:
        """Store a delivery, committed on return. Returns the earlier one of that id, if any.

        That one is left as it is, unless it had failed: then it is to be tried again.
        Errors: SQLAlchemyError when the database does not answer in time; it is not stored then.
        """
        mine = _Waiting(new)
        deadline = time.monotonic() + self._patience_s
        if self._must_write(mine, deadline):
            self._write(mine, deadline)
        if mine.error is not None:
            raise mine.error
        return mine.earlier

    def _must_write(self, mine: _Waiting, deadline: float) -> bool:
        """Wait. False once somebody else has stored it, True when it is our turn to write."""
        with self._changed:
            self._waiting.append(mine)
            while self._busy and not mine.settled:
                # What somebody has taken to write is settled in a moment, well or badly.
                taken = mine not in self._waiting
                left = None if taken else max(0.0, deadline - time.monotonic())
                if not self._changed.wait(left) and mine in self._waiting:
                    self._waiting.remove(mine)
                    raise DatabaseTimeout("other deliveries are still waiting to be stored")
            if not mine.settled:
                self._busy = True
            return not mine.settled

    def _write(self, mine: _Waiting, deadline: float) -> None:
        """Store everything that waits by the time that it is our turn at the database."""
        batch: list[_Waiting] = [mine]
        try:
            with writing(self._engine, patience_s=deadline - time.monotonic()) as session:
                batch = self._take_all()
                for each in batch:
                    _record(session, each)
            for each in batch:
                each.error = None
        except SQLAlchemyError as error:
            mine.error = error
            if len(batch) > 1:
                self._write_singly(batch, deadline)
        finally:
            self._settle(batch)

    def _write_singly(self, batch: Sequence[_Waiting], deadline: float) -> None:
        """Store each by itself, so that what is wrong with one of them is not the others' fault."""
        for each in batch:
            try:
                with writing(self._engine, patience_s=deadline - time.monotonic()) as session:
                    _record(session, each)
                each.error = None
            except SQLAlchemyError as error:
                each.error = error

    def _take_all(self) -> list[_Waiting]:
        with self._changed:
            batch, self._waiting = self._waiting, []
        return batch

    def _settle(self, batch: list[_Waiting]) -> None:
        with self._changed:
            for each in batch:
                each.settled = True
            self._waiting = [each for each in self._waiting if not each.settled]
            self._busy = False
            self._changed.notify_all()


def _record(session: Session, waiting: _Waiting) -> None:
    if not deliveries.record(session, waiting.new):
        waiting.earlier = deliveries.get(session, waiting.new.delivery_id)
        deliveries.reopen(session, waiting.new)
