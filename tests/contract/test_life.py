"""What every provider promises of a machine's life: how it begins, and each way it may end.

See `sandbox.provider`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sandbox.machine import Machine
from sandbox.provider import MachineLost, MachineSpec, Provider, ProviderFailed, Template
from sandbox.providers import make_provider
from sandbox.supervisor import descendants, start_time
from tests.contract.conftest import MakeMachine
from tests.contract.inside import in_background
from tests.sandbox.waiting import PATIENCE_S, eventually


class TestCreate:
    def test_the_receipt_names_tier_and_template(
        self, provider: Provider, shared: Machine, template: Template
    ) -> None:
        assert shared.receipt.tier == shared.tier
        assert shared.tier.partition("-")[0] == provider.name
        assert shared.receipt.template_digest == template.digest

    def test_a_template_without_a_root_file_system_is_refused(
        self, isolating: Provider, tmp_path: Path
    ) -> None:
        spec = MachineSpec(run_id="r", template=Template("gone", "0" * 64, tmp_path))
        with pytest.raises(ProviderFailed, match="drydock template"):
            isolating.create(spec, lambda _: None)

    def test_a_machine_that_cannot_start_says_why_and_leaves_nothing(
        self, isolating: Provider, tmp_path: Path
    ) -> None:
        python = tmp_path / "rootfs/usr/bin/python3"
        python.parent.mkdir(parents=True)
        python.write_text("not a program")
        python.chmod(0o755)
        spec = MachineSpec(run_id="r", template=Template("broken", "0" * 64, tmp_path))
        with pytest.raises(ProviderFailed, match=r"did not start|is no baked template"):
            isolating.create(spec, lambda _: None)
        assert [info for info in isolating.list() if info.run_id == "r"] == []

    def test_it_works_here(self, provider: Provider) -> None:
        assert provider.probe().ok


class TestEnd:
    def test_kill_while_a_command_runs(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        started = threading.Event()
        thread, raised = in_background(
            lambda: machine.exec(
                ["sh", "-c", "echo; exec sleep 1000"], on_output=lambda *_: started.set()
            )
        )
        assert started.wait(PATIENCE_S)
        processes = _processes(machine)
        machine.kill()
        thread.join(PATIENCE_S)
        assert _lost_reason(raised) == "killed"
        _assert_gone(machine, processes)

    def test_kill_is_idempotent_and_works_from_several_threads(
        self, make_machine: MakeMachine
    ) -> None:
        machine = make_machine()
        threads = [in_background(machine.kill) for _ in range(5)]
        for thread, raised in threads:
            thread.join(PATIENCE_S)
            assert not raised
        machine.kill()
        with pytest.raises(MachineLost, match="killed"):
            machine.exec(["true"])

    def test_the_deadline_ends_it_within_a_second(self, make_machine: MakeMachine) -> None:
        machine = make_machine(ttl_s=1.0)
        with pytest.raises(MachineLost) as caught:
            machine.exec(["sleep", "1000"])
        assert caught.value.reason == "deadline"
        assert 0.9 < time.time() - machine.receipt.created_at < 2.0
        assert not machine.directory.exists()

    def test_a_machine_that_ends_by_itself_is_lost(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        os.kill(_record(machine)["machine_pid"], signal.SIGKILL)
        with pytest.raises(MachineLost) as caught:
            machine.exec(["sleep", "1000"])
        assert caught.value.reason == "exited"

    def test_memory_is_bounded(self, isolating: Provider, make_machine: MakeMachine) -> None:
        machine = make_machine(memory_mib=128, disk_mib=64)
        hog = "x = bytearray(1_000_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1"
        try:
            result = machine.exec(["/usr/bin/python3", "-c", hog])
        except MachineLost as lost:
            ended_by = lost.reason
        else:
            ended_by = f"signal {result.signal}"
        assert ended_by in ("oom", f"signal {signal.SIGKILL}")


def _record(machine: Machine) -> dict[str, int]:
    record: dict[str, int] = json.loads((machine.directory / "machine.json").read_text())
    return record


def _processes(machine: Machine) -> dict[int, int]:
    supervisor = _record(machine)["supervisor_pid"]
    return {pid: start_time(pid) for pid in [supervisor, *descendants(supervisor)]}


def _assert_gone(machine: Machine, processes: dict[int, int]) -> None:
    assert [pid for pid, started in processes.items() if start_time(pid) == started] == []
    assert not machine.directory.exists()


def _lost_reason(raised: list[BaseException]) -> str:
    [error] = raised
    assert isinstance(error, MachineLost)
    return error.reason


class TestOtherProcesses:
    def test_a_workers_death_takes_its_machine_along(
        self, provider: Provider, template: Template, tmp_path: Path
    ) -> None:
        with Creator(provider.name, template, tmp_path) as creator:
            assert creator.processes
            os.kill(creator.pid, signal.SIGKILL)
            creator.assert_machine_gone()

    def test_the_deadline_counts_while_the_worker_is_stopped(
        self, provider: Provider, template: Template, tmp_path: Path
    ) -> None:
        with Creator(provider.name, template, tmp_path, ttl_s=1.5) as creator:
            os.kill(creator.pid, signal.SIGSTOP)
            creator.assert_machine_gone()
            os.kill(creator.pid, signal.SIGKILL)

    def test_another_process_lists_and_reaps(
        self, provider: Provider, template: Template, tmp_path: Path
    ) -> None:
        with Creator(provider.name, template, tmp_path) as creator:
            listed = creator.provider.list()
            assert [(info.run_id, info.alive) for info in listed] == [("run-1", True)]
            assert creator.provider.reap("another-run") == 0
            assert creator.provider.reap("run-1") == 1
            creator.assert_machine_gone()
            assert creator.provider.list() == []
            assert creator.provider.reap("run-1") == 0

    def test_a_killed_supervisor_takes_its_machine_along_and_its_leftover_is_reaped(
        self, provider: Provider, template: Template, tmp_path: Path
    ) -> None:
        with Creator(provider.name, template, tmp_path) as creator:
            [info] = creator.provider.list()
            os.kill(info.supervisor_pid, signal.SIGKILL)
            if provider.name != "fake":  # whose commands no namespace ties to it
                eventually(lambda: not creator.living())
            eventually(lambda: not any(info.alive for info in creator.provider.list()))
            assert creator.provider.reap("run-1") == 1
            assert creator.provider.list() == []
            creator.sweep()


class Creator:
    """A worker of its own: a process that makes a machine, runs a command in it and waits."""

    SCRIPT = """
import sys
from pathlib import Path
from sandbox.provider import MachineSpec, Template
from sandbox.providers import make_provider

name, state_dir, path, digest, ttl_s = sys.argv[1:]
spec = MachineSpec("run-1", Template("default", digest, Path(path)), ttl_s=float(ttl_s))
machine = make_provider(name, Path(state_dir)).create(spec, lambda connection: None)
machine.exec(["sh", "-c", "setsid sleep 4001 & echo up; exec sleep 4002"],
             on_output=lambda *_: print("up", flush=True))
"""

    def __init__(self, name: str, template: Template, state_dir: Path, ttl_s: float = 60) -> None:
        self.provider = make_provider(name, state_dir)
        argv = [name, str(state_dir), str(template.path), template.digest, str(ttl_s)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT, *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self._state_dir = state_dir

    def __enter__(self) -> Creator:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"up\n"
        [info] = self.provider.list()
        pids = [info.supervisor_pid, *descendants(info.supervisor_pid)]
        self.processes = {pid: start_time(pid) for pid in pids}
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.communicate()
        self.provider.reap("run-1")

    def living(self) -> list[int]:
        return [pid for pid, started in self.processes.items() if start_time(pid) == started]

    def assert_machine_gone(self) -> None:
        eventually(lambda: not self.living())
        eventually(lambda: not list((self._state_dir / "machines").iterdir()))

    def sweep(self) -> None:
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)
