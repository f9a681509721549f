"""What a run's broker saw: refusals and model calls, kept in memory and written to the audit log.

A hostile guest can try as often as it likes; after `KEPT` of a kind, further ones are counted and
neither kept nor written one by one, so that it cannot fill the memory or the disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from egress.policy import Grant, Phase, Refusal
from egress.vendors import CallError

KEPT = 1000


class Log(Protocol):
    """The audit log, as the ledger uses it."""

    def append(self, record: Mapping[str, Any], *, durable: bool = False) -> object: ...


@dataclass(frozen=True)
class ModelCall:
    """One model call, as the broker saw it. `seconds` runs until the last byte was ready to send.

    `cost_usd` is None when the model has no price. `asked_upstream` is False for what the broker
    answered itself: a repeated refusal of a dead key, or a reached cap. `detail` is the upstream's
    or the broker's own words about an error, cleaned and cut.
    """

    at: float
    route: str
    status: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    seconds: float
    error: CallError | None
    model: str = ""
    estimated: bool = False
    asked_upstream: bool = True
    detail: str = ""


@dataclass(frozen=True)
class Carried:
    """One tunnel, or one plain request, that has ended: bytes each way, and how it ended."""

    phase: Phase
    grant: str
    host: str
    port: int
    up_bytes: int
    down_bytes: int
    seconds: float
    ended: str


class Ledger:
    """Collects; safe between threads. The log's errors are passed on: no decision without it."""

    def __init__(self, log: Log, run_id: str, clock: Callable[[], float]) -> None:
        self._log = log
        self._run_id = run_id
        self._clock = clock
        self._lock = threading.Lock()
        self._refusals: list[Refusal] = []
        self._calls: list[ModelCall] = []
        self._own_answers = 0
        self._unlisted = 0
        self._allowed = 0
        self._carried = 0
        self._hosts: dict[tuple[str, str, str], tuple[int, int, int]] = {}
        self._closed = False

    def refuse(self, phase: Phase, target: str, reason: str) -> None:
        """Record one refusal whole, on the disk before the guest hears of it."""
        refusal = Refusal(self._clock(), phase, target, reason)
        with self._lock:
            if len(self._refusals) >= KEPT:
                self._unlisted += 1
                return
            self._refusals.append(refusal)
        self._write("refused", {"target": target, "reason": reason, "phase": phase}, durable=True)

    def allow(self, phase: Phase, grant: Grant, target: str, model: str = "") -> None:
        """Record that something is about to pass; beyond `KEPT` it is only counted."""
        with self._lock:
            self._allowed += 1
            if self._allowed > KEPT:
                return
        facts = {"phase": phase, "grant": grant.name, "target": target}
        self._write("allowed", facts | ({"model": model} if model else {}))

    def carried(self, carried: Carried) -> None:
        """Record what a tunnel carried, and add it to its host's sum."""
        key = (carried.phase.value, carried.grant, carried.host)
        with self._lock:
            known = self._hosts.get(key, (0, 0, 0))
            sums = (known[0] + 1, known[1] + carried.up_bytes, known[2] + carried.down_bytes)
            self._hosts[key] = sums
            self._carried += 1
            if self._carried > KEPT:
                return
        self._write("carried", asdict(carried))

    def call(self, call: ModelCall) -> None:
        """Record how a call ended. Answers of our own are cheap to provoke, and so are capped."""
        with self._lock:
            if not call.asked_upstream:
                self._own_answers += 1
                if self._own_answers > KEPT:
                    return
            self._calls.append(call)
        self._write("model_call", asdict(call))

    def close(self) -> None:
        """Record the sums by host, and how much was not listed, if anything; idempotent."""
        with self._lock:
            first, self._closed = not self._closed, True
            hosts = dict(self._hosts)
            unlisted = self._unlisted_counts()
        if not first:
            return
        for (phase, grant, host), (connections, up, down) in sorted(hosts.items()):
            facts = {"phase": phase, "grant": grant, "host": host, "connections": connections}
            self._write("host", {**facts, "up_bytes": up, "down_bytes": down})
        if any(unlisted.values()):
            self._write("unlisted", unlisted, durable=True)

    def _unlisted_counts(self) -> dict[str, int]:
        return {
            "refusals": self._unlisted,
            "own_answers": max(0, self._own_answers - KEPT),
            "allowed": max(0, self._allowed - KEPT),
            "carried": max(0, self._carried - KEPT),
        }

    def refusals(self) -> tuple[Refusal, ...]:
        with self._lock:
            return tuple(self._refusals)

    def calls(self) -> tuple[ModelCall, ...]:
        with self._lock:
            return tuple(self._calls)

    def refusal_count(self) -> int:
        """Return all refusals, listed or not."""
        with self._lock:
            return len(self._refusals) + self._unlisted

    def _write(self, kind: str, facts: Mapping[str, Any], *, durable: bool = False) -> None:
        self._log.append({"kind": kind, "run": self._run_id, **facts}, durable=durable)
