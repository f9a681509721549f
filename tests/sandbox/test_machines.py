from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sandbox.machines import Process, find_records, reap_run
from sandbox.provider import ProviderFailed
from sandbox.supervisor import start_time


def write_record(state_dir: Path, machine_id: str, **changes: Any) -> Path:
    directory = state_dir / "machines" / machine_id
    directory.mkdir(parents=True)
    record = {
        "id": machine_id,
        "run_id": "run-1",
        "provider": "fake",
        "created_at": 1.0,
        "supervisor_pid": 0,
        "supervisor_started": 0,
        "machine_pid": 0,
        "machine_started": 0,
        "cgroups": [],
        **changes,
    }
    (directory / "machine.json").write_text(json.dumps(record))
    return directory


@pytest.fixture
def sleeper() -> Any:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def test_there_are_none_before_there_is_a_directory(tmp_path: Path) -> None:
    assert find_records(tmp_path, "fake") == []


def test_records_are_listed_by_provider_oldest_first(tmp_path: Path) -> None:
    write_record(tmp_path, "m-1", created_at=2.0)
    write_record(tmp_path, "m-2", created_at=1.0)
    write_record(tmp_path, "m-3", provider="gvisor")
    assert [record.id for record in find_records(tmp_path, "fake")] == ["m-2", "m-1"]


def test_a_leftover_is_listed_as_dead_and_reaped(tmp_path: Path) -> None:
    directory = write_record(tmp_path, "m-1")
    [record] = find_records(tmp_path, "fake")
    assert not record.info().alive
    assert reap_run(tmp_path, "fake", "run-1") == 1
    assert not directory.exists()


def test_only_that_runs_machines_are_reaped(tmp_path: Path) -> None:
    write_record(tmp_path, "m-1", run_id="run-2")
    assert reap_run(tmp_path, "fake", "run-1") == 0
    assert len(find_records(tmp_path, "fake")) == 1


def test_a_pid_that_was_given_to_somebody_else_is_never_killed(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    another_start = start_time(sleeper.pid) - 1
    write_record(
        tmp_path,
        "m-1",
        supervisor_pid=sleeper.pid,
        supervisor_started=another_start,
        machine_pid=sleeper.pid,
        machine_started=another_start,
    )
    [record] = find_records(tmp_path, "fake")
    assert not record.info().alive
    assert reap_run(tmp_path, "fake", "run-1") == 1
    assert sleeper.poll() is None


def test_a_machine_that_outlived_its_supervisor_is_killed(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    write_record(tmp_path, "m-1", machine_pid=sleeper.pid, machine_started=start_time(sleeper.pid))
    reap_run(tmp_path, "fake", "run-1")
    assert sleeper.wait(10) == -signal.SIGKILL


def test_a_record_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    (write_record(tmp_path, "m-1") / "machine.json").write_text("{}")
    with pytest.raises(ProviderFailed, match="remove its directory"):
        find_records(tmp_path, "fake")


def test_a_process_is_named_by_its_start_too() -> None:
    mine = start_time(os.getpid())
    assert Process(os.getpid(), mine).is_alive()
    assert not Process(os.getpid(), mine + 1).is_alive()
    assert not Process(0, 0).is_alive()
