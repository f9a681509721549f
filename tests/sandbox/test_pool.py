"""Machines that wait, with ordinary processes for machines."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sandbox import pool as pool_module
from sandbox.machine import Machine
from sandbox.pool import Pool, default_size, fits
from sandbox.provider import (
    WAITING,
    Duplex,
    EgressHandler,
    MachineInfo,
    MachineSpec,
    ProviderFailed,
    Sandbox,
    Template,
)
from sandbox.providers.fake import FakeProvider
from tests.sandbox.waiting import eventually as wait_until

PATIENCE_S = 20.0
eventually = partial(wait_until, within_s=PATIENCE_S)
CHECKOUT = Path(__file__).parents[2]
# Not that of the virtual environment, whose path may begin like a path in the guest.
PYTHON = os.path.realpath(sys.executable)


@pytest.fixture
def spec(tmp_path: Path) -> MachineSpec:
    return MachineSpec("run-1", Template("none", "0" * 64, tmp_path), ttl_s=60)


@pytest.fixture
def provider(tmp_path: Path) -> FakeProvider:
    return FakeProvider(tmp_path / "state")


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "waking.lock"


@pytest.fixture
def make_pool(
    provider: FakeProvider, spec: MachineSpec, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Pool]]:
    # What is wanted is looked at every half minute; a test asks sooner.
    monkeypatch.setattr(pool_module, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(pool_module, "LOOK_AGAIN_S", 0.05)
    made: list[Pool] = []

    def make(
        size: int = 1, wanted: Callable[[], MachineSpec | None] = lambda: spec, cpus: int = 2
    ) -> Pool:
        pool = Pool(provider, size, wanted, lock, cpus)
        made.append(pool)
        pool.open()
        return pool

    yield make
    for pool in made:
        pool.close()
    assert provider.list() == []


def waiting(provider: FakeProvider) -> list[MachineInfo]:
    return [machine for machine in provider.list() if machine.waits]


def refuse(connection: Duplex) -> None:
    connection.close()


def test_a_taken_machine_is_the_runs_by_name_deadline_and_way_out(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    pool = make_pool()
    eventually(lambda: len(waiting(provider)) == 1)
    waited = waiting(provider)[0]
    heard = threading.Event()

    def egress(connection: Duplex) -> None:
        heard.set()
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")

    machine = pool.create(spec, egress)
    assert isinstance(machine, Machine)
    assert machine.id == waited.id
    eventually(lambda: [m.run_id for m in provider.list()] == ["run-1"])
    record = json.loads((machine.directory / "machine.json").read_text())
    assert (record["id"], record["run_id"]) == (machine.id, "run-1")
    assert machine.spec.ttl_s == spec.ttl_s
    assert float(machine.receipt.facts["taken_at"]) >= machine.receipt.created_at
    port = machine.hello["proxy_port"]
    machine.exec([PYTHON, "-c", CONNECT.format(port=port)])
    assert heard.is_set()
    machine.kill()


CONNECT = "import socket; print(socket.create_connection(('127.0.0.1', {port})).recv(9))"


def test_a_machine_that_waits_has_no_way_out(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    pool = make_pool()
    assert not pool.await_ready(PATIENCE_S), "without a warm program it cannot be"
    machine = pool._waiting[0]
    port = machine.hello["proxy_port"]
    assert machine.exec([PYTHON, "-c", CONNECT.format(port=port)]).stdout == b"b''\n"


def test_the_next_one_is_made_when_the_taken_one_has_ended(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    pool = make_pool()
    eventually(lambda: len(waiting(provider)) == 1)
    first = pool.create(spec, refuse)
    time.sleep(0.3)  # nothing is to happen, so there is no event to wait for
    assert waiting(provider) == []
    first.kill()
    eventually(lambda: len(waiting(provider)) == 1)
    assert waiting(provider)[0].id != first.id


def test_on_a_host_with_cpus_to_spare_the_next_one_is_made_at_once(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    pool = make_pool(cpus=8)
    eventually(lambda: len(waiting(provider)) == 1)
    machine = pool.create(spec, refuse)
    eventually(lambda: len(waiting(provider)) == 1)
    machine.kill()


def test_while_another_process_wakes_one_up_this_one_waits(
    make_pool: Callable[..., Pool], provider: FakeProvider, lock: Path
) -> None:
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        make_pool()
        time.sleep(0.3)  # nothing is to happen, so there is no event to wait for
        assert provider.list() == []
    eventually(lambda: len(waiting(provider)) == 1)


def test_more_runs_than_machines_that_wait_get_new_ones(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    pool = make_pool(size=2)
    eventually(lambda: len(waiting(provider)) == 2)
    ids = {machine.id for machine in waiting(provider)}
    taken = [pool.create(replace(spec, run_id=f"run-{n}"), refuse) for n in range(3)]
    assert ids < {machine.id for machine in taken}
    for machine in taken:
        machine.kill()


def test_a_machine_of_another_template_is_dropped(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    wanted = [spec]
    make_pool(wanted=lambda: wanted[0])
    eventually(lambda: len(waiting(provider)) == 1)
    before = waiting(provider)[0].id
    wanted[0] = replace(spec, template=replace(spec.template, digest="1" * 64))
    eventually(lambda: [m.id for m in waiting(provider)] not in ([before], []))


def test_a_run_of_another_size_gets_a_machine_of_its_own(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    pool = make_pool()
    eventually(lambda: len(waiting(provider)) == 1)
    machine = pool.create(replace(spec, memory_mib=4096), refuse)
    assert machine.id != waiting(provider)[0].id
    machine.kill()


def test_a_machine_that_died_waiting_is_not_handed_out_and_is_replaced(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    pool = make_pool()
    eventually(lambda: len(waiting(provider)) == 1)
    dead = waiting(provider)[0]
    provider.reap(dead.run_id)
    machine = pool.create(spec, refuse)
    assert machine.exec(["true"]).exit_code == 0
    assert machine.id != dead.id
    machine.kill()


def test_nothing_waits_while_it_is_not_known_what_for(
    make_pool: Callable[..., Pool], provider: FakeProvider, spec: MachineSpec
) -> None:
    wanted: list[MachineSpec | None] = [spec]
    make_pool(wanted=lambda: wanted[0])
    eventually(lambda: len(waiting(provider)) == 1)
    wanted[0] = None
    eventually(lambda: waiting(provider) == [])


def test_a_pool_that_is_not_open_or_has_no_size_is_the_provider_itself(
    provider: FakeProvider, spec: MachineSpec, lock: Path
) -> None:
    Pool(provider, 1, lambda: spec, lock).close()
    empty = Pool(provider, 0, lambda: spec, lock)
    empty.open()
    machine = empty.create(spec, refuse)
    assert [m.run_id for m in empty.list()] == ["run-1"]
    assert empty.reap("run-1") == 1
    machine.kill()
    assert (empty.name, empty.probe().ok) == ("fake", True)


def test_a_provider_that_fails_is_tried_again_and_runs_still_reach_it(
    spec: MachineSpec, tmp_path: Path, lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "RETRY_S", 0.01)
    tried = threading.Semaphore(0)

    class Failing(FakeProvider):
        def create(self, spec: MachineSpec, egress: EgressHandler) -> Sandbox:
            if spec.run_id.startswith(WAITING):
                tried.release()
                raise ProviderFailed("no room")
            return super().create(spec, egress)

    pool = Pool(Failing(tmp_path / "state"), 1, lambda: spec, lock)
    pool.open()
    assert tried.acquire(timeout=PATIENCE_S)
    assert tried.acquire(timeout=PATIENCE_S)
    pool.create(spec, refuse).kill()
    pool.close()


def test_machines_that_wait_die_with_the_process_that_keeps_them(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, threading
        from pathlib import Path
        from sandbox.pool import Pool
        from sandbox.provider import MachineSpec, Template
        from sandbox.providers.fake import FakeProvider
        spec = MachineSpec("", Template("none", "0" * 64, Path(sys.argv[1])))
        folder = Path(sys.argv[1])
        Pool(FakeProvider(folder), 2, lambda: spec, folder / "waking.lock").open()
        threading.Event().wait()
    """)
    provider = FakeProvider(tmp_path)
    owner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], cwd=CHECKOUT, env={"PATH": os.defpath}
    )
    eventually(lambda: len(waiting(provider)) == 2)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    eventually(lambda: provider.list() == [])
    eventually(lambda: not any((tmp_path / "machines").iterdir()))


def test_a_process_that_was_forked_off_has_no_part_in_it(
    make_pool: Callable[..., Pool], provider: FakeProvider
) -> None:
    pool = make_pool()
    eventually(lambda: len(waiting(provider)) == 1)
    child = os.fork()
    if child == 0:
        took = pool._is_open()
        pool.close()
        os._exit(int(took))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(waiting(provider)) == 1


def test_what_a_machine_was_made_of_decides_whether_it_fits(spec: MachineSpec) -> None:
    assert fits(replace(spec, run_id=f"{WAITING}1", ttl_s=9), spec)
    assert not fits(replace(spec, disk_mib=1), spec)
    assert not fits(replace(spec, cpus=1), spec)


@pytest.mark.parametrize(
    ("name", "size"), [("gvisor", 1), ("bubblewrap", 1), ("qemu", 0), ("fake", 0)]
)
def test_by_default_one_waits_where_machines_are_processes(name: str, size: int) -> None:
    assert default_size(name) == size
