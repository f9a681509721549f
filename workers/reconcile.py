"""The one completer: looks at the whole state, plans, then applies. Level-triggered.

Whoever lost an event (a worker killed, Redis emptied, a host restarted) is healed by the next look.
`plan` is pure; `reconcile` gathers, plans and applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from datetime import timedelta
from functools import partial

import structlog

from app.messages import told_place
from app.queue import enqueue_delivery, enqueue_run
from app.store import ReleaseOutcome, Run, deliveries, reading, runs, writing
from sandbox.provider import ProviderFailed
from workers.kept import drop_old_bundles
from workers.locks import locked
from workers.owner import is_dead
from workers.services import Services
from workers.status import handle_of, tell_ending, tell_place

log = structlog.get_logger()

# A message may simply be waiting behind a busy worker: enqueueing an id twice is harmless, but
# doing so every few seconds would only fill the queue.
DELIVERY_PATIENCE_S = 10.0
QUEUED_PATIENCE_S = 10.0
# After each try that GitHub did not let through, twice as long; up to this.
LONGEST_PATIENCE_S = 600.0
# Each place costs an edit, and a GitHub that is slow must not keep the rest from being healed.
PLACES_AT_ONCE = 10


@dataclass(frozen=True)
class RunSeen:
    """What the plan needs of one active run. Times in seconds since the epoch.

    `place` is the one that is to be told of a run that waits, `told_place` the one that was.
    """

    id: str
    queued: bool
    updated_at: float
    lease_owner: str | None
    lease_until: float | None
    place: int | None = None
    told_place: int | None = None


@dataclass(frozen=True)
class MachineSeen:
    """`waits` when it is alive and has no run yet: it belongs to a worker, and dies with it."""

    id: str
    run_id: str
    waits: bool = False


@dataclass(frozen=True)
class DeliverySeen:
    """One delivery that still waits; `touched_at` is when it came or was last tried."""

    id: str
    touched_at: float
    tries: int = 0


@dataclass(frozen=True)
class Plan:
    """What to do, each an id, or an id and its place: all of it idempotent."""

    release_runs: tuple[str, ...] = ()
    reap_runs: tuple[str, ...] = ()
    enqueue_runs: tuple[str, ...] = ()
    enqueue_deliveries: tuple[str, ...] = ()
    tell_runs: tuple[str, ...] = ()
    tell_places: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        return any(astuple(self))


def plan(
    runs: Iterable[RunSeen],
    machines: Iterable[MachineSeen],
    deliveries: Iterable[DeliverySeen],
    now: float,
    owner_is_dead: Callable[[str], bool],
    untold: Iterable[str] = (),
) -> Plan:
    """Decide what has been forgotten.

    A run is released when its lease ran out or its owner is known to be dead; a machine is reaped
    when no run that somebody still drives owns it, unless it waits for one; deliveries and queued
    runs that have waited longer than a message takes are enqueued again; endings that are due are
    told, and places in the queue that are not what was told of them.
    """
    rows = tuple(runs)
    released = {run.id for run in rows if _abandoned(run, now, owner_is_dead)}
    driven = {run.id for run in rows if not run.queued} - released
    return Plan(
        release_runs=tuple(run.id for run in rows if run.id in released),
        reap_runs=_unique(m.run_id for m in machines if m.run_id not in driven and not m.waits),
        enqueue_runs=tuple(
            run.id
            for run in rows
            if run.id in released or (run.queued and now - run.updated_at > QUEUED_PATIENCE_S)
        ),
        enqueue_deliveries=tuple(
            d.id for d in deliveries if now - d.touched_at > delivery_patience(d.tries)
        ),
        tell_runs=tuple(untold),
        tell_places=tuple(_misplaced(rows, now))[:PLACES_AT_ONCE],
    )


def delivery_patience(tries: int) -> float:
    """Return how long a delivery that was tried so often is left alone, in seconds."""
    return float(min(DELIVERY_PATIENCE_S * 2 ** min(tries, 10), LONGEST_PATIENCE_S))


# By tries; the last holds for all that follow.
_PATIENCE = tuple(delivery_patience(tries) for tries in range(8))


def _abandoned(run: RunSeen, now: float, owner_is_dead: Callable[[str], bool]) -> bool:
    if run.queued:
        return False
    if run.lease_until is None or run.lease_until < now:
        return True
    return run.lease_owner is not None and owner_is_dead(run.lease_owner)


def _misplaced(rows: Iterable[RunSeen], now: float) -> Iterator[tuple[str, int]]:
    """Whoever queues a run tells its first place, and is given the time for it."""
    for run in rows:
        if run.place is None or not run.queued or run.place == run.told_place:
            continue
        if run.told_place is not None or now - run.updated_at > QUEUED_PATIENCE_S:
            yield run.id, run.place


def _unique(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


def reconcile(services: Services) -> Plan:
    """Look at everything, plan, apply; returns the plan. Errors: the database's own.

    What cannot be done now is logged and planned again at the next look. One look at a time on a
    host: a slower one with an older plan would kill the machine of a run that was claimed anew.
    """
    with locked(services.settings.state_dir / "reconcile.lock") as alone:
        return _look(services) if alone else Plan()


def _look(services: Services) -> Plan:
    now = services.clock()
    # Machines before runs: a machine seen now belongs to a run that was claimed before we look.
    machines = _machines_seen(services)
    with reading(services.engine) as session:
        active = runs.active(session)
        waiting = deliveries.stale(session, now, _PATIENCE)
        untold = runs.untold(session, now)
        places = runs.queue_places(session)
    made = plan(
        (_run_seen(run, places.get(run.id)) for run in active),
        machines,
        (DeliverySeen(d.delivery_id, d.touched_at.timestamp(), d.tries) for d in waiting),
        now.timestamp(),
        is_dead,
        (run.id for run in untold),
    )
    if made:
        log.info("reconcile", plan=made)
        _apply(services, made, {run.id: run for run in (*active, *untold)})
    settings = services.settings
    drop = partial(drop_old_bundles, settings.state_dir, settings.keep_refused_days)
    _attempt("drop", "bundles", drop)
    _attempt("forget", "bodies", partial(_forget_bodies, services))
    return made


def _forget_bodies(services: Services) -> None:
    """Drop some of the bodies that nobody needs any more; the rest at the next looks."""
    oldest = services.clock() - timedelta(days=services.settings.keep_bodies_days)
    with reading(services.engine) as session:
        due = deliveries.has_old_bodies(session, oldest)
    if due:
        with writing(services.engine) as session:
            deliveries.forget_bodies(session, oldest)


def _apply(services: Services, made: Plan, rows: Mapping[str, Run]) -> None:
    # Machines first: a released run starts again at once, and must find no machine of its own.
    for run_id in made.reap_runs:
        _attempt("reap", run_id, partial(services.provider.reap, run_id))
    for run_id in made.release_runs:
        _attempt("release", run_id, partial(_release, services, rows[run_id]))
    for delivery_id in made.enqueue_deliveries:
        _attempt("enqueue", delivery_id, partial(enqueue_delivery, services.queue, delivery_id))
    for run_id in made.enqueue_runs:
        _attempt("enqueue", run_id, partial(enqueue_run, services.queue, run_id))
    for run_id in made.tell_runs:
        _attempt("tell", run_id, partial(tell_ending, services, rows[run_id]))
    for run_id, place in made.tell_places:
        _attempt("place", run_id, partial(_tell_place, services, rows[run_id], place))


def _attempt(what: str, target: str, action: Callable[[], object]) -> None:
    """Do one thing. Its failure must not keep the others from being healed."""
    try:
        action()
    except Exception:
        log.exception("reconcile.failed", what=what, target=target)


def _release(services: Services, seen: Run) -> None:
    dead = seen.lease_owner is not None and is_dead(seen.lease_owner)
    with writing(services.engine) as session:
        outcome = runs.release(session, seen, services.clock(), owner_is_dead=dead)
        run = runs.get(session, seen.id)
    if outcome in {ReleaseOutcome.FAILED, ReleaseOutcome.CANCELLED} and run is not None:
        # It ended while nobody drove it, so nobody else will say so.
        tell_ending(services, run)


def _tell_place(services: Services, run: Run, place: int) -> None:
    """Noted first: a GitHub that does not answer is asked again when the place changes, not at
    every look."""
    with writing(services.engine) as session:
        runs.mark_place(session, run.id, place)
    with services.gateway(handle_of(run)) as gateway:
        tell_place(services, gateway, run.id)


def _run_seen(run: Run, place: int | None) -> RunSeen:
    return RunSeen(
        id=run.id,
        queued=run.lease_owner is None,
        updated_at=run.updated_at.timestamp(),
        lease_owner=run.lease_owner,
        lease_until=run.lease_until.timestamp() if run.lease_until else None,
        place=told_place(place) if place is not None else None,
        told_place=run.told_place,
    )


def _machines_seen(services: Services) -> list[MachineSeen]:
    """Return this host's machines; none where its provider cannot say, which is no reason to
    leave everything else unhealed."""
    try:
        machines = services.provider.list()
        return [MachineSeen(each.id, each.run_id, each.waits) for each in machines]
    except ProviderFailed as error:
        log.warning("reconcile.no_machines", error=str(error))
        return []
