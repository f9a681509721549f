"""The one completer: looks at the whole state, plans, then applies. Level-triggered.

Whoever lost an event (a worker killed, Redis emptied, a host restarted) is healed by the next look.
`plan` is pure; `reconcile` gathers, plans and applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from app.queue import enqueue_delivery, enqueue_run
from app.store import ReleaseOutcome, Run, deliveries, reading, runs, writing
from sandbox.provider import Provider
from workers.owner import is_dead
from workers.services import Services
from workers.status import handle_of, tell, view_of

log = structlog.get_logger()

# A message may simply be waiting behind a busy worker: enqueueing an id twice is harmless, but
# doing so every few seconds would only fill the queue.
DELIVERY_PATIENCE_S = 10.0
QUEUED_PATIENCE_S = 10.0


@dataclass(frozen=True)
class RunFacts:
    """What the plan needs of one active run. Times in seconds since the epoch."""

    id: str
    queued: bool
    updated_at: float
    lease_owner: str | None
    lease_until: float | None


@dataclass(frozen=True)
class MachineFacts:
    id: str
    run_id: str


@dataclass(frozen=True)
class DeliveryFacts:
    id: str
    received_at: float


@dataclass(frozen=True)
class Plan:
    """What to do, each an id: all of it idempotent."""

    release_runs: tuple[str, ...] = ()
    reap_runs: tuple[str, ...] = ()
    enqueue_runs: tuple[str, ...] = ()
    enqueue_deliveries: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(
            self.release_runs or self.reap_runs or self.enqueue_runs or self.enqueue_deliveries
        )


def plan(
    runs: Iterable[RunFacts],
    machines: Iterable[MachineFacts],
    deliveries: Iterable[DeliveryFacts],
    now: float,
    owner_is_dead: Callable[[str], bool],
) -> Plan:
    """Decide what has been forgotten.

    A run is released when its lease ran out or its owner is known to be dead; a machine is reaped
    when no run that somebody still drives owns it; deliveries and queued runs that have waited
    longer than a message takes are enqueued again.
    """
    rows = tuple(runs)
    released = {run.id for run in rows if _abandoned(run, now, owner_is_dead)}
    driven = {run.id for run in rows if not run.queued} - released
    return Plan(
        release_runs=tuple(run.id for run in rows if run.id in released),
        reap_runs=_unique(m.run_id for m in machines if m.run_id not in driven),
        enqueue_runs=tuple(
            run.id
            for run in rows
            if run.id in released or (run.queued and now - run.updated_at > QUEUED_PATIENCE_S)
        ),
        enqueue_deliveries=tuple(
            d.id for d in deliveries if now - d.received_at > DELIVERY_PATIENCE_S
        ),
    )


def _abandoned(run: RunFacts, now: float, owner_is_dead: Callable[[str], bool]) -> bool:
    if run.queued:
        return False
    if run.lease_until is None or run.lease_until < now:
        return True
    return run.lease_owner is not None and owner_is_dead(run.lease_owner)


def _unique(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


def reconcile(services: Services) -> Plan:
    """Look at everything, plan, apply; returns what was done. Errors: the database's own."""
    now = services.clock()
    # Machines before runs: a machine seen now belongs to a run that was claimed before we look.
    machines = _machine_facts(services.provider)
    with reading(services.engine) as session:
        active = runs.active(session)
        waiting = deliveries.stale(session, now - timedelta(seconds=DELIVERY_PATIENCE_S))
    made = plan(
        (_run_facts(run) for run in active),
        machines,
        (DeliveryFacts(each.delivery_id, each.touched_at.timestamp()) for each in waiting),
        now.timestamp(),
        is_dead,
    )
    if made:
        log.info("reconcile", plan=made)
        _apply(services, made, {run.id: run for run in active})
    return made


def _apply(services: Services, made: Plan, active: dict[str, Run]) -> None:
    # Machines first: a released run starts again at once, and must find no machine of its own.
    for run_id in made.reap_runs:
        services.provider.reap(run_id)
    for run_id in made.release_runs:
        _release(services, active[run_id])
    for delivery_id in made.enqueue_deliveries:
        enqueue_delivery(services.queue, delivery_id)
    for run_id in made.enqueue_runs:
        enqueue_run(services.queue, run_id)


def _release(services: Services, seen: Run) -> None:
    dead = seen.lease_owner is not None and is_dead(seen.lease_owner)
    with writing(services.engine) as session:
        outcome = runs.release(session, seen, services.clock(), owner_is_dead=dead)
        run = runs.get(session, seen.id)
    if outcome in {ReleaseOutcome.FAILED, ReleaseOutcome.CANCELLED} and run is not None:
        # It ended while nobody drove it, so nobody else will say so.
        with services.gateway(handle_of(run)) as gateway:
            tell(services, gateway, run, view_of(run, services, None))


def _run_facts(run: Run) -> RunFacts:
    return RunFacts(
        id=run.id,
        queued=run.lease_owner is None,
        updated_at=run.updated_at.timestamp(),
        lease_owner=run.lease_owner,
        lease_until=run.lease_until.timestamp() if run.lease_until else None,
    )


def _machine_facts(provider: Provider) -> list[MachineFacts]:
    return [MachineFacts(machine.id, machine.run_id) for machine in provider.list()]
