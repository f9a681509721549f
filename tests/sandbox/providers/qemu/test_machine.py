"""What a virtual machine promises beyond the contract: renewal, forks, and a hostile guest."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sandbox.guest.confine import KEPT_CAPABILITIES
from sandbox.pool import Pool
from sandbox.provider import (
    WAITING,
    WORK_DIR,
    GuestUser,
    MachineLost,
    MachineSpec,
    ProviderFailed,
    Sandbox,
    Unsupported,
    WarmProgram,
)
from sandbox.providers.fake import FakeProvider
from sandbox.providers.qemu import QemuProvider
from sandbox.providers.qemu.command import KVM
from sandbox.providers.qemu.machine import VirtualMachine
from sandbox.providers.qemu.memory import copy_sparse
from tests.sandbox.providers.qemu.conftest import MakeMachine, MakeSpec, refuse

pytestmark = pytest.mark.machine

ROOT = {"user": GuestUser.ROOT}
# One for most that wants a small one: each shape is booted once, and that takes its time.
SMALL = {"memory_mib": 192, "disk_mib": 256}


def sh(machine: Sandbox, script: str, **options: object) -> str:
    result = machine.exec(["sh", "-c", script], **options)  # type: ignore[arg-type]
    assert result.exit_code == 0, result
    return result.stdout.decode()


RANDOM = """
head -c 16 /dev/urandom | od -An -tx8
cat /proc/sys/kernel/random/uuid
python3 -c 'import random, secrets; print(random.random(), secrets.token_hex())'
"""


class TestRenewal:
    def test_the_receipt_says_what_was_renewed(self, make_machine: MakeMachine) -> None:
        facts = make_machine().receipt.facts
        assert facts["begun"] == "restored"
        assert int(facts["clock_stepped_ns"]) > 0
        assert facts["entropy_bytes"] == "64"

    def test_time_is_the_hosts(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        before = time.time()
        guest = float(sh(machine, "date +%s.%N"))
        assert before - 0.5 < guest < time.time() + 0.5

    @pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.slow)])
    def test_guest_time_keeps_host_time(self, make_machine: MakeMachine, seconds: int) -> None:
        """Within 1 %. Each reading lies between two of the host's, so slowness is no error."""
        machine = make_machine()

        def read() -> tuple[float, float, float]:
            before = time.monotonic()
            text = sh(machine, "cat /proc/uptime")
            return before, float(text.split()[0]), time.monotonic()

        read()
        first = read()
        threading.Event().wait(seconds)
        last = read()
        passed = last[1] - first[1]
        resolution = 0.02
        assert (last[0] - first[2]) * 0.99 - resolution < passed
        assert passed < (last[2] - first[0]) * 1.01 + resolution

    def test_the_clock_is_the_processors_and_not_ticks(self, make_machine: MakeMachine) -> None:
        source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        assert sh(make_machine(), f"cat {source}") in ("tsc\n", "kvm-clock\n")

    def test_two_machines_have_nothing_random_in_common(self, make_machine: MakeMachine) -> None:
        script = f"{RANDOM}\nuname -n; cat /etc/machine-id"
        one, two = (set(sh(make_machine(), script).split()) for _ in range(2))
        assert not one & two

    def test_its_own_name_resolves(self, make_machine: MakeMachine) -> None:
        assert sh(make_machine(), "getent hosts $(uname -n)").startswith("127.0.0.1")

    def test_the_disk_is_as_large_as_was_asked_for(self, make_machine: MakeMachine) -> None:
        free = "df --block-size=1M --output=avail / | tail -1"
        small, large = (
            int(sh(machine, free)) for machine in (make_machine(**SMALL), make_machine())
        )
        asked = MachineSpec.disk_mib - SMALL["disk_mib"]
        assert large - small == pytest.approx(asked, rel=0.05)


class TestFork:
    @pytest.fixture
    def parent(self, make_machine: MakeMachine) -> VirtualMachine:
        """A working machine: a tree, a daemon, memory that it has changed."""
        machine = make_machine()
        sh(machine, "mkdir tree; echo 1 > tree/file; setsid sleep 5001 >/dev/null 2>&1 &")
        sh(machine, "head -c 20000000 /dev/urandom > /dev/shm/warm; sha1sum /dev/shm/warm > sum")
        return machine

    @pytest.fixture
    def children(
        self, provider: QemuProvider, parent: VirtualMachine, make_spec: MakeSpec
    ) -> Iterator[list[Sandbox]]:
        made = provider.fork(parent, [(make_spec(f"run-{n}"), refuse) for n in range(3)])
        yield made
        for child in made:
            child.kill()

    def test_three_children_work_in_the_same_tree_at_once(
        self, parent: VirtualMachine, children: list[Sandbox]
    ) -> None:
        def work(number: int) -> str:
            script = f"sha1sum -c sum; echo child{number} >> tree/file; cat tree/file{RANDOM}"
            return sh(children[number], script + "pgrep -f 'sleep 5001' >/dev/null && echo awake")

        with ThreadPoolExecutor(3) as threads:
            said = [text.split() for text in threads.map(work, range(3))]
        drawn: list[set[str]] = []
        for number, words in enumerate(said):
            assert words[:4] == ["/dev/shm/warm:", "OK", "1", f"child{number}"]  # noqa: S108
            assert words[-1] == "awake"
            drawn.append(set(words[4:-1]))
        assert len(set.union(*drawn)) == 3 * 5
        assert sh(parent, "cat tree/file; sha1sum -c sum").split()[0] == "1"

    def test_children_outlive_their_parent_and_can_be_forked_again(
        self,
        provider: QemuProvider,
        parent: VirtualMachine,
        children: list[Sandbox],
        make_spec: MakeSpec,
    ) -> None:
        parent.kill()
        sh(children[0], "echo more >> tree/file")
        [grandchild] = provider.fork(children[0], [(make_spec(), refuse)])
        children[0].kill()
        try:
            assert sh(grandchild, "cat tree/file; sha1sum -c sum").split()[:2] == ["1", "more"]
        finally:
            grandchild.kill()

    def test_a_fork_has_a_receipt_of_its_own(
        self, parent: VirtualMachine, children: list[Sandbox]
    ) -> None:
        receipts = [machine.receipt.facts for machine in (parent, *children)]
        assert [facts["begun"] for facts in receipts] == ["restored", *["forked"] * 3]
        assert len({facts["machine_id"] for facts in receipts}) == 4

    def test_a_busy_machine_is_not_forked_and_goes_on(
        self, provider: QemuProvider, parent: VirtualMachine, make_spec: MakeSpec
    ) -> None:
        started = threading.Event()
        with ThreadPoolExecutor(1) as thread:
            busy = thread.submit(
                parent.exec,
                ["sh", "-c", "echo; until [ -e go ]; do sleep 0.05; done"],
                on_output=lambda *_: started.set(),
            )
            assert started.wait(20)
            with pytest.raises(ProviderFailed, match="still runs"):
                provider.fork(parent, [(make_spec(), refuse)])
            parent.write_file(f"{WORK_DIR}/go", b"")
            assert busy.result(20).exit_code == 0

    def test_a_checkpoint_lasts_until_it_is_discarded(
        self, provider: QemuProvider, parent: VirtualMachine, make_spec: MakeSpec
    ) -> None:
        saved = provider.checkpoint(parent)
        sh(parent, "echo later >> tree/file")
        parent.kill()
        for _ in range(2):
            machine = provider.restore(saved, make_spec(), refuse)
            assert sh(machine, "cat tree/file; echo more >> tree/file") == "1\n"
            machine.kill()
        provider.discard(saved)
        with pytest.raises(ProviderFailed, match="no checkpoint"):
            provider.restore(saved, make_spec(), refuse)

    def test_reaping_a_run_takes_its_checkpoints_along(
        self, provider: QemuProvider, parent: VirtualMachine
    ) -> None:
        saved = provider.checkpoint(parent)
        provider.reap("run-1")
        assert not saved.path.exists()

    def test_another_providers_machine_is_refused(
        self, provider: QemuProvider, make_spec: MakeSpec, tmp_path: Path
    ) -> None:
        other = FakeProvider(tmp_path / "fake").create(make_spec(), refuse)
        with pytest.raises(Unsupported):
            provider.checkpoint(other)
        other.kill()


class TestWaiting:
    def test_a_machine_waits_stopped_and_becomes_the_runs(
        self, make_machine: MakeMachine, make_spec: MakeSpec, provider: QemuProvider
    ) -> None:
        machine = make_machine(run_id=f"{WAITING}1")
        assert [info.waits for info in provider.list()] == [True]
        name = machine.receipt.facts["machine_id"]
        machine.hand_over(make_spec("run-7"), refuse)
        assert sh(machine, "echo works") == "works\n"
        assert machine.receipt.facts["machine_id"] != name
        assert [info.run_id for info in provider.list()] == ["run-7"]

    def test_a_pool_keeps_one_ready(
        self, provider: QemuProvider, make_spec: MakeSpec, tmp_path: Path
    ) -> None:
        pool = Pool(provider, 1, make_spec, tmp_path / "pool.lock")
        pool.open()
        try:
            with pool._changed:
                assert pool._changed.wait_for(lambda: pool._waiting, 60)
            machine = pool.create(make_spec("run-9"), refuse)
            assert machine.receipt.facts["begun"] == "waiting"
            machine.kill()
        finally:
            pool.close()


class TestHostileGuest:
    def test_powering_off_is_a_loss_and_no_hang(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        with pytest.raises(MachineLost) as caught:
            machine.exec(["sh", "-c", "echo o > /proc/sysrq-trigger; exec sleep 60"], **ROOT)  # type: ignore[arg-type]
        assert caught.value.reason == "exited"
        assert not machine.directory.exists()

    def test_a_panic_is_a_loss_and_no_hang(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        with pytest.raises(MachineLost) as caught:
            machine.exec(["sh", "-c", "echo c > /proc/sysrq-trigger; exec sleep 60"], **ROOT)  # type: ignore[arg-type]
        assert caught.value.reason == "exited"

    def test_memory_ends_inside_and_the_machine_lives_on(self, make_machine: MakeMachine) -> None:
        machine = make_machine(**SMALL)
        hog = "x = bytearray(2_000_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1"
        assert machine.exec(["python3", "-c", hog]).signal == 9
        assert sh(machine, "echo alive") == "alive\n"

    def test_every_way_to_fill_memory_ends_inside(self, make_machine: MakeMachine) -> None:
        """By several at once, by root, and by files that lie in memory."""
        machine = make_machine(**SMALL)
        hog = "python3 -c 'x = bytearray(500_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1'"
        many = f"for n in 1 2 3 4; do {hog} & done; wait; echo over"
        assert sh(machine, many) == "over\n"
        assert machine.exec(["sh", "-c", f"exec {hog}"], **ROOT).signal == 9  # type: ignore[arg-type]
        machine.exec(["sh", "-c", f"head -c 90M /dev/zero > /dev/shm/f; exec {hog}"])
        sh(machine, "rm -f /dev/shm/f", **ROOT)
        assert sh(machine, "echo alive") == "alive\n"

    def test_a_flood_of_the_channel_is_no_harm_to_a_small_machine(
        self, make_machine: MakeMachine
    ) -> None:
        """What the agent writes is not the commands': the kernel has to make room by itself."""
        machine = make_machine(memory_mib=128)
        machine.write_file(f"{WORK_DIR}/large", bytes(200_000_000))
        assert sh(machine, "wc -c < large") == "200000000\n"

    def test_a_fork_bomb_is_bounded(self, make_machine: MakeMachine) -> None:
        """The machine goes on, or is ended in good time because it does not answer any more."""
        machine = make_machine()
        try:
            machine.exec(["sh", "-c", "b() { b | b & b; }; b 2>/dev/null"], timeout_s=5)
            processes = int(sh(machine, "ls -d /proc/[0-9]* | wc -l", timeout_s=60, **ROOT))
        except MachineLost as lost:
            processes = 0
            reason = lost.reason
        else:
            reason = "none"
        assert reason in ("none", "channel")
        assert processes < 5000

    def test_a_full_disk_is_an_error_inside(self, make_machine: MakeMachine) -> None:
        machine = make_machine(**SMALL)
        script = "for n in 1 2 3 4 5 6; do head -c 200000000 /dev/zero > f$n || exit 7; done"
        result = machine.exec(["sh", "-c", script])
        assert result.exit_code == 7
        assert b"No space" in result.stderr
        assert sh(machine, "rm -f f*; echo alive") == "alive\n"

    def test_the_templates_memory_and_disk_stay_as_they_were(
        self, make_machine: MakeMachine, provider: QemuProvider, make_spec: MakeSpec
    ) -> None:
        snapshot = provider.snapshot_of(make_spec())
        files = (snapshot.memory, snapshot.state, snapshot.base, *snapshot.layers)
        before = [(path.stat().st_mtime_ns, path.stat().st_size) for path in files]
        machine = make_machine()
        sh(machine, "head -c 50000000 /dev/urandom > /dev/shm/f; rm -rf /opt/aider", **ROOT)
        machine.kill()
        assert before == [(path.stat().st_mtime_ns, path.stat().st_size) for path in files]


class TestConfinement:
    """Of root's commands: `work` can do less still."""

    def test_a_command_is_in_the_fence_and_the_agent_is_not(
        self, make_machine: MakeMachine
    ) -> None:
        script = "cat /proc/self/cgroup /proc/1/cgroup; ls -A /sys/fs/cgroup /run/cgroups"
        result = make_machine().exec(["sh", "-c", script], **ROOT)  # type: ignore[arg-type]
        assert result.stdout == b"0::/commands\n0::/\n/sys/fs/cgroup:\n"

    def test_a_warm_program_waits_in_the_fence_and_becomes_its_command(
        self, make_machine: MakeMachine
    ) -> None:
        name = "/usr/bin/py3versions"
        env = {"LC_ALL": "C.UTF-8"}  # or else Python sets one like it by itself
        program = WarmProgram("/usr/bin/python3", name, (), tuple(env.items()))
        machine = make_machine(**SMALL, warm=program)
        assert machine.await_warm(60).ready
        group = sh(machine, "cat /proc/$(pgrep -of warm_aider.py)/cgroup", **ROOT)
        assert group == "0::/commands\n"
        result = machine.exec([name, "-i"], env=env)
        assert (result.exit_code, result.warm) == (0, True)

    def test_root_keeps_what_it_keeps_in_every_other_machine(
        self, make_machine: MakeMachine
    ) -> None:
        status = sh(make_machine(), "cat /proc/self/status", **ROOT)
        masks = {
            line.split()[0]: int(line.split()[1], 16)
            for line in status.splitlines()
            if line.startswith("Cap")
        }
        kept = sum(1 << number for number in KEPT_CAPABILITIES.values())
        assert masks == {
            "CapInh:": 0,
            "CapPrm:": kept,
            "CapEff:": kept,
            "CapBnd:": kept,
            "CapAmb:": 0,
        }

    @pytest.mark.parametrize(
        "script",
        [
            "cat /dev/mem",
            "mknod /dev/mem c 1 1",
            "head -c 1 /dev/vda",
            f"mknod {WORK_DIR}/disk b 254 0",
            "echo x > /proc/sys/kernel/core_pattern",
            "echo x > /sys/kernel/uevent_helper",
            "mount -t cgroup2 none /mnt",
            "mount -o remount,rw /proc/sys",
            "umount /proc/sys",
            "cat /proc/1/mem",
            "readlink /proc/1/fd/0",
            "date -s 2001-01-01",
            "hostname other",
        ],
    )
    def test_root_may_not(self, shared: VirtualMachine, script: str) -> None:
        result = shared.exec(["sh", "-c", script], **ROOT)  # type: ignore[arg-type]
        assert result.exit_code not in (0, 127), result


class TestBake:
    def test_a_trial_that_does_not_answer_says_so_and_leaves_nothing(
        self, provider: QemuProvider, make_spec: MakeSpec
    ) -> None:
        if provider.verdict().accel == KVM:
            pytest.skip("KVM works here")
        with pytest.raises(ProviderFailed, match="did not start"):
            provider._oven(KVM).try_boot(make_spec())

    def test_a_state_that_cannot_be_loaded_says_so(
        self, provider: QemuProvider, make_spec: MakeSpec, tmp_path: Path
    ) -> None:
        machine = provider.create(make_spec(), refuse)
        saved = provider.checkpoint(machine)
        machine.kill()
        broken = saved.path / "broken"
        copy_sparse(saved.path / "state", broken)
        broken.write_bytes(b"no state" + broken.read_bytes())
        broken.rename(saved.path / "state")
        with pytest.raises(ProviderFailed, match="did not start"):
            provider.restore(saved, make_spec(), refuse)
        provider.discard(saved)
