"""The machines that a state directory knows of: finding and ending them from any process.

Each machine is a directory `<state_dir>/machines/<id>/` with `machine.json`, written by its
supervisor. A process is named by its pid and its start time, so that a pid which the kernel has
given to somebody else is never signalled.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from sandbox.provider import MachineInfo, ProviderFailed
from sandbox.supervisor import descendants, start_time

# The supervisor itself gives up after 10 s (`supervisor.CLEANUP_S`).
_END_TIMEOUT_MS = 15_000


@dataclass(frozen=True)
class Process:
    """One process for good: `started` is in clock ticks since boot."""

    pid: int
    started: int

    def is_alive(self) -> bool:
        return self.pid > 0 and self.started > 0 and start_time(self.pid) == self.started

    def end(self, number: signal.Signals, timeout_ms: int) -> bool:
        """Signal it and wait for its end; whether it has ended. Nothing if it had already."""
        if not self.is_alive():
            return True
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return True
        try:
            if not self.is_alive():  # looked at again, now that the pidfd pins the process
                return True
            signal.pidfd_send_signal(pidfd, number)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            return bool(poll.poll(timeout_ms))
        finally:
            os.close(pidfd)


@dataclass(frozen=True)
class Record:
    """What `machine.json` says."""

    id: str
    run_id: str
    provider: str
    created_at: float
    supervisor: Process
    machine: Process
    cgroups: tuple[str, ...]
    directory: Path

    def info(self) -> MachineInfo:
        return MachineInfo(
            id=self.id,
            run_id=self.run_id,
            provider=self.provider,
            supervisor_pid=self.supervisor.pid,
            alive=self.supervisor.is_alive(),
            created_at=self.created_at,
        )


def machines_dir(state_dir: Path) -> Path:
    return state_dir / "machines"


def find_records(state_dir: Path, provider: str) -> list[Record]:
    """All records of a provider, oldest first. ProviderFailed for one that cannot be read."""
    paths = machines_dir(state_dir).glob("*/machine.json")
    records = [record for path in paths if (record := read_record(path.parent))]
    return sorted((r for r in records if r.provider == provider), key=lambda r: r.created_at)


def read_record(directory: Path) -> Record | None:
    """None when there is no such machine any more. ProviderFailed when it cannot be read."""
    path = directory / "machine.json"
    try:
        raw = json.loads(path.read_text())
        return Record(
            id=raw["id"],
            run_id=raw["run_id"],
            provider=raw["provider"],
            created_at=raw["created_at"],
            supervisor=Process(raw["supervisor_pid"], raw["supervisor_started"]),
            machine=Process(raw["machine_pid"], raw["machine_started"]),
            cgroups=tuple(raw["cgroups"]),
            directory=directory,
        )
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError) as error:
        raise ProviderFailed(
            f"{path} is not a machine's record ({error!r}): remove its directory"
        ) from error


def reap_run(state_dir: Path, provider: str, run_id: str) -> int:
    """End a run's machines and clear their files; how many there were."""
    records = [record for record in find_records(state_dir, provider) if record.run_id == run_id]
    for record in records:
        end_machine(record)
    return len(records)


def end_machine(record: Record) -> None:
    """End one machine: by its supervisor, which clears up; by force and by hand if that fails."""
    if record.supervisor.end(signal.SIGTERM, _END_TIMEOUT_MS) and not record.directory.exists():
        return
    below = descendants(record.machine.pid) if record.machine.is_alive() else []
    for process in [record.supervisor, record.machine, *(Process(p, start_time(p)) for p in below)]:
        if not process.end(signal.SIGKILL, _END_TIMEOUT_MS):
            raise ProviderFailed(f"process {process.pid} of machine {record.id} cannot be killed")
    for path in record.cgroups:
        _remove_cgroup(Path(path))
    shutil.rmtree(record.directory, ignore_errors=True)


def _remove_cgroup(path: Path) -> None:
    """Remove it when its last process has gone: one with much memory takes a moment to."""
    give_up = time.monotonic() + _END_TIMEOUT_MS / 1000
    while True:
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
