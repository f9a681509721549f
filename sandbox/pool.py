"""Machines that wait, started and warm, so that a run need not wait for them.

A `Pool` stands before a provider and is one itself. While it is open it keeps `size` machines of
the wanted kind ready; `create` hands over one that fits, or makes another. A machine still serves
one run and dies. What waits belongs to this process alone: each machine's supervisor ends it when
this process dies, however that happens, and a deadline of its own runs meanwhile.

A machine that waits has taken the memory of its warm program (about 0.36 GB under gVisor, 0.3 GB
under bubblewrap). Waking one up keeps a CPU busy for ten seconds. So on one host one wakes up at a
time, however many processes have a pool, and none while half of the CPUs are taken by runs: on a
small host the next one is made when the run that took one has ended.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO

from sandbox.machine import Machine
from sandbox.provider import (
    WAITING,
    Duplex,
    EgressHandler,
    GuestMisbehaved,
    MachineInfo,
    MachineLost,
    MachineSpec,
    Probe,
    Provider,
    ProviderFailed,
    Sandbox,
)

# A machine does not wait longer than this (seconds): then it is replaced, an hour before its end.
MAX_WAIT_S = 7 * 3600.0
WAITING_TTL_S = MAX_WAIT_S + 3600.0
# How often what is wanted is looked at again; how soon, where it cannot be had now.
LOOK_EVERY_S = 30.0
LOOK_AGAIN_S = 0.5
RETRY_S = 60.0
WAKING_LIMIT_S = 180.0
# Machines that share this host's memory as processes: the default is that one waits.
PROCESS_TIERS = frozenset({"gvisor", "bubblewrap"})

_log = logging.getLogger(__name__)

Wanted = Callable[[], MachineSpec | None]


class Pool:
    """A `Provider` (see `sandbox.provider`) that keeps machines ready while it is open.

    `wanted` says what the next run will ask for (its `run_id` and `ttl_s` do not matter), None when
    that cannot be known. It is asked in the pool's own thread, which nothing but `open` starts, so
    that a process may fork before. `lock` is a file that all pools of the host have in common.
    """

    def __init__(
        self, provider: Provider, size: int, wanted: Wanted, lock: Path, cpus: int | None = None
    ) -> None:
        self.name = provider.name
        self._provider = provider
        self._size = size
        self._wanted = wanted
        self._lock = lock
        self._cpus = cpus or os.cpu_count() or 1
        self._changed = threading.Condition()
        self._waiting: list[Machine] = []
        self._takes = 0
        self._handing_over = 0  # taken, but their records do not say so yet
        self._is_making = False
        self._keeper: threading.Thread | None = None
        self._owner_pid = 0

    # A provider

    def probe(self) -> Probe:
        return self._provider.probe()

    def list(self) -> list[MachineInfo]:
        return self._provider.list()

    def reap(self, run_id: str) -> int:
        return self._provider.reap(run_id)

    def create(self, spec: MachineSpec, egress: EgressHandler) -> Sandbox:
        """Hand over a machine that waits, or make one. Errors as the provider's `create`."""
        machine = self._take(spec)
        if machine is None:
            return self._provider.create(spec, egress)
        try:
            machine.hand_over(spec, egress)
        finally:
            with self._changed:
                self._handing_over -= 1
        return machine

    def _take(self, spec: MachineSpec) -> Machine | None:
        if not self._is_open():
            return None
        with self._changed:
            # One that is being made now is there sooner than another one would be.
            self._changed.wait_for(lambda: self._fitting(spec) or not self._is_making)
            machine = self._fitting(spec)
            if machine is not None:
                self._waiting.remove(machine)
                self._takes += 1
                self._handing_over += 1
                self._changed.notify_all()
        return machine

    def _fitting(self, spec: MachineSpec) -> Machine | None:
        fitting = (m for m in self._waiting if fits(m.spec, spec) and not m.is_over())
        return next(fitting, None)

    # Its life

    def open(self) -> None:
        """Begin to keep machines ready. Nothing when the size is 0, or when it is open already."""
        if self._size and not self._is_open():
            self._owner_pid = os.getpid()
            self._waiting, self._is_making = [], False
            self._changed = threading.Condition()
            self._keeper = threading.Thread(target=self._keep, name="pool", daemon=True)
            self._keeper.start()

    def close(self) -> None:
        """End what waits; idempotent. Machines that were handed over are their runs'."""
        if not self._is_open():
            return
        keeper, self._keeper = self._keeper, None
        with self._changed:
            self._changed.notify_all()
        self._drop(lambda _machine: True)  # the keeper may wait for one to wake up
        if keeper is not None:
            keeper.join()
        self._drop(lambda _machine: True)

    def await_ready(self, timeout_s: float) -> bool:
        """Wait until as many machines as wanted are there and their warm programs are ready."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            full = self._changed.wait_for(lambda: len(self._waiting) >= self._size, timeout_s)
            machines = list(self._waiting)
        return full and all(
            machine.await_warm(max(0.0, deadline - time.monotonic())).ready for machine in machines
        )

    def _is_open(self) -> bool:
        """Also False in a process that was forked off: the machines are its parent's."""
        return self._keeper is not None and self._owner_pid == os.getpid()

    def _keep(self) -> None:
        while self._keeper is threading.current_thread():
            takes = self._takes
            try:
                pause_s = self._look()
            except Exception:  # noqa: BLE001  without a pool runs are slower, and no more than that
                _log.exception("no machine can be kept ready")
                pause_s = RETRY_S
            self._rest(pause_s, takes)

    def _rest(self, pause_s: float, takes: int) -> None:
        """Wait so long, or until the pool is closed or one more machine has been taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._keeper is None or self._takes > takes, pause_s)

    def _look(self) -> float:
        """Drop what does not fit any more, make one that is missing; how long to rest then."""
        spec = self._wanted()
        self._drop(lambda m: spec is None or m.is_over() or is_stale(m) or not fits(m.spec, spec))
        with self._changed:
            missing = len(self._waiting) < self._size
        if spec is None or not missing:
            return LOOK_EVERY_S
        with self._lock.open("a") as lock:
            if self._is_busy() or not _try_lock(lock):
                return LOOK_AGAIN_S
            self._await(self._add(spec))
        return 0.0

    def _is_busy(self) -> bool:
        with self._changed:
            running = self._handing_over
        running += sum(each.alive and not each.waits for each in self._provider.list())
        return 2 * running >= max(self._cpus, 2)

    def _add(self, spec: MachineSpec) -> Machine:
        with self._changed:
            self._is_making = True
        made: list[Machine] = []
        try:
            made.append(self._make(spec))
        finally:
            with self._changed:
                self._waiting += made
                self._is_making = False
                self._changed.notify_all()
        return made[0]

    @staticmethod
    def _await(machine: Machine) -> None:
        """Stay until it has woken up. It may be taken meanwhile, and killed."""
        with suppress(MachineLost, GuestMisbehaved):
            warmth = machine.await_warm(WAKING_LIMIT_S)
            _log.info("a machine waits: %s, %s", machine.id, warmth)

    def _make(self, spec: MachineSpec) -> Machine:
        run_id = f"{WAITING}{os.getpid()}-{secrets.token_hex(4)}"
        waiting = replace(spec, run_id=run_id, ttl_s=WAITING_TTL_S)
        machine = self._provider.create(waiting, refuse)
        if not isinstance(machine, Machine):
            machine.kill()
            raise ProviderFailed(f"{self.name} machines cannot wait for a run")
        return machine

    def _drop(self, is_unfit: Callable[[Machine], bool]) -> None:
        with self._changed:
            dropped = [machine for machine in self._waiting if is_unfit(machine)]
            self._waiting = [machine for machine in self._waiting if machine not in dropped]
        for machine in dropped:
            machine.kill()


def fits(made: MachineSpec, asked: MachineSpec) -> bool:
    """Whether a machine that was made for one may serve the other.

    The warm program may have rehearsed something else: a command that it does not suit runs cold.
    """
    same = ("template", "memory_mib", "cpus", "disk_mib")
    return all(getattr(made, name) == getattr(asked, name) for name in same)


def is_stale(machine: Machine) -> bool:
    return time.time() - machine.receipt.created_at > MAX_WAIT_S


def default_size(provider_name: str) -> int:
    return 1 if provider_name in PROCESS_TIERS else 0


def _try_lock(file: IO[str]) -> bool:
    """Whether the lock is ours now; the kernel drops it when the file is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def refuse(connection: Duplex) -> None:
    """The way out of a machine that waits: there is none."""
    with suppress(OSError):
        connection.close()
