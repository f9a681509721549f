"""How machines end: never after their time, and never leaving anything of themselves.

Each is made by a worker: a process of its own, which is killed or stopped in the middle of it.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

from cli.figures import Figure
from sandbox.machines import machines_dir, read_record
from sandbox.pool import refuse
from sandbox.provider import MachineLost, MachineSpec
from sandbox.providers import make_provider
from sandbox.supervisor import descendants, start_time

DEADLINES, A_WORKER = 100, 10
TTL_S = (2.0, 8.0)
KILLS = 50
MIDDLE_S = (0.5, 3.0)  # after the worker's start: while its machines are made and used
GONE_WITHIN_S = 10.0
_LOOK_EVERY_S = 0.02
_CHANCE = random.SystemRandom()
_FATES = (signal.SIGKILL, signal.SIGSTOP, None)  # what befalls the worker

Processes = dict[int, int]  # pid → when it started, which makes it one process


def measure_lives(
    provider: str, spec: MachineSpec, folder: Path, say: Callable[[str], None]
) -> list[Figure]:
    return [_deadlines(provider, spec, folder, say), *_orphans(provider, spec, folder, say)]


# ---- deadlines -------------------------------------------------------------------------------


def _deadlines(
    provider: str, spec: MachineSpec, folder: Path, say: Callable[[str], None]
) -> Figure:
    missed_by: list[float] = []
    while len(missed_by) < DEADLINES:
        say(f"deadlines: {len(missed_by)} of {DEADLINES}")
        missed_by += _deadlines_of_a_worker(provider, spec, folder)
    reference = f"the worst of {DEADLINES} machines, their worker killed, stopped or left alone"
    return Figure("machine_deadline_missed_s", max(missed_by), "s", reference, bar=1.0)


def _deadlines_of_a_worker(provider: str, spec: MachineSpec, folder: Path) -> list[float]:
    """By how many seconds each machine outlived its deadline; below 0 for one that ended before."""
    with closing(Worker(provider, spec, folder)) as worker:
        watch = Watch(worker, machines_dir(folder))
        while watch.made < A_WORKER:
            watch.look()
        worker.meet(_CHANCE.choice(_FATES))
        while watch.alive:
            watch.look()
        return watch.late


class Watch:
    """The machines of one worker, from the moment on at which it tells of them."""

    def __init__(self, worker: Worker, directory: Path) -> None:
        self.made = 0
        self.alive: dict[str, tuple[float, Processes]] = {}
        self.late: list[float] = []
        self._worker = worker
        self._directory = directory

    def look(self) -> None:
        for name, deadline in self._worker.news(_LOOK_EVERY_S):
            self.made += 1
            self.alive[name] = (deadline, self._worker.machine(name))
        for name, (deadline, processes) in list(self.alive.items()):
            late = time.time() - deadline
            is_gone = not (living(processes) or (self._directory / name).exists())
            if is_gone or late > GONE_WITHIN_S:
                del self.alive[name]
                self.late.append(late)


def _hold_machines(pipe: Connection, provider: str, spec: MachineSpec, folder: Path) -> None:
    """A worker's part: make machines one by one, tell each one's deadline, and use them all."""
    for _ in range(A_WORKER):
        ttl_s = _CHANCE.uniform(*TTL_S)
        machine = make_provider(provider, folder).create(replace(spec, ttl_s=ttl_s), refuse)
        pipe.send((machine.id, machine.receipt.created_at + ttl_s))
        threading.Thread(target=_use, args=(machine.exec,), daemon=True).start()
    pipe.recv()  # for ever: the parent says nothing


def _use(run: Callable[[list[str]], object]) -> None:
    with suppress(MachineLost):
        run(["sleep", "1000"])


# ---- orphans ---------------------------------------------------------------------------------


def _orphans(
    provider: str, spec: MachineSpec, folder: Path, say: Callable[[str], None]
) -> list[Figure]:
    """What is left of machines whose worker was killed at any moment, from their making on."""
    processes = files = 0
    for number in range(KILLS):
        say(f"orphans: {number} of {KILLS} workers killed")
        alive = _kill_a_worker(provider, spec, folder)
        _await(lambda alive=alive: not (living(alive) or _entries(folder)))  # type: ignore[misc]
        processes += len(living(alive))
        files += len(_entries(folder))
    reference = f"after {KILLS} times kill -9 of the worker in the middle of it"
    return [
        Figure("machine_orphan_processes", processes, "", reference, bar=0),
        Figure("machine_orphan_files", files, "", f"{reference}; sockets are among them", bar=0),
    ]


def _kill_a_worker(provider: str, spec: MachineSpec, folder: Path) -> Processes:
    """Returns all the processes that it had."""
    with closing(Worker(provider, spec, folder)) as worker:
        time.sleep(_CHANCE.uniform(*MIDDLE_S))
        alive = worker.processes()
        worker.meet(signal.SIGKILL)
    return alive


def _entries(folder: Path) -> list[Path]:
    return [path for path in machines_dir(folder).rglob("*") if not path.is_dir()]


def _await(condition: Callable[[], bool]) -> None:
    """Return when it is true, or has not become true within `GONE_WITHIN_S`."""
    give_up = time.monotonic() + GONE_WITHIN_S
    while not condition() and time.monotonic() < give_up:
        time.sleep(_LOOK_EVERY_S)


# ---- workers ---------------------------------------------------------------------------------


class Worker:
    """A process that makes machines. It ends with this one at the latest."""

    def __init__(self, provider: str, spec: MachineSpec, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = folder
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_hold_machines, args=(theirs, provider, spec, folder), daemon=True
        )
        self._process.start()
        self._is_over = False
        theirs.close()

    def news(self, patience_s: float) -> Iterator[tuple[str, float]]:
        """Names and deadlines of machines that are new. EOFError when the worker failed."""
        time.sleep(patience_s)
        while not self._is_over and self._pipe.poll():
            name, deadline = self._pipe.recv()
            yield str(name), float(deadline)

    def processes(self) -> Processes:
        """All that it has started, and that they have."""
        return {pid: start_time(pid) for pid in descendants(self._process.pid or 0)}

    def machine(self, name: str) -> Processes:
        record = read_record(machines_dir(self._folder) / name)
        if record is None:
            return {}
        pids = [record.supervisor.pid, *descendants(record.supervisor.pid)]
        return {pid: start_time(pid) for pid in pids}

    def meet(self, fate: signal.Signals | None) -> None:
        """Once it has told all it will. A signal, or nothing."""
        self._is_over = True
        if fate is not None:
            os.kill(self._process.pid or 0, fate)

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def living(processes: Processes) -> list[int]:
    return [pid for pid, began in processes.items() if began and start_time(pid) == began]
