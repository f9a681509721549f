"""Machines, measured: how soon one answers, what one costs, and whether one ever outlives its time.

Virtual machines against a floor taken in the same rounds: QEMU alone, with a machine's command
line, until it says that it is there. Nothing below that can be had by anything but another QEMU.
How machines end is measured by `bench_lives`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cli.bench_aider import measure_restored
from cli.bench_lives import measure_lives
from cli.figures import Figure, middle
from sandbox.pool import Pool, refuse
from sandbox.provider import WORK_DIR, MachineSpec, Sandbox, Template
from sandbox.providers.common import find_program
from sandbox.providers.qemu import QemuProvider
from sandbox.providers.qemu.command import KVM, MEMORY_PATH, Descriptors, qemu_argv
from sandbox.providers.qemu.launch import PACKAGE, PROGRAM
from sandbox.providers.qemu.machine import QMP_TIMEOUT_S
from sandbox.providers.qemu.qmp import Qmp
from sandbox.supervisor import descendants

if TYPE_CHECKING:
    from cli.bench import Bench

ROUNDS = 15
BOOTS = 3
CLONES = 20
CLOCK_S = 60.0
FIRST = ("sh", "-c", "echo ready")
FLOW_BYTES = 64 * 1024 * 1024
FLOW_ROUNDS = 3
SLOWER_WITHOUT_KVM, SLOWER_WITH_KVM = 4.5, 2.0
_MIB = 1024 * 1024


@dataclass
class Lab:
    """A provider of virtual machines with a state directory of its own, and what was seen."""

    provider: QemuProvider
    spec: MachineSpec
    folder: Path
    say: Callable[[str], None]
    seconds: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.seconds.setdefault(name, []).append(time.perf_counter() - begun)

    def median(self, name: str) -> float:
        return middle(self.seconds[name])

    @property
    def is_accelerated(self) -> bool:
        return self.provider.verdict().accel == KVM


def measure_machines(bench: Bench) -> list[Figure]:
    lab = _lab(bench.template, bench.folder / "machines", bench.say)
    return [
        *measure_starts(lab),
        *_channel(lab),
        _private_memory(lab),
        *measure_restored(lab.provider, bench.template, bench.say),
        *_with_clock(lab, lambda: _lives(lab)),
    ]


def _lives(lab: Lab) -> list[Figure]:
    """In a state directory of their own, of which nothing is to be left."""
    return measure_lives(lab.provider.name, lab.spec, lab.folder / "lives", lab.say)


def _lab(template: Template, folder: Path, say: Callable[[str], None]) -> Lab:
    folder.mkdir(parents=True)
    provider = QemuProvider(folder, progress=lambda step: say(str(step)))
    spec = MachineSpec("bench", template)
    say(f"virtual machines: {provider.prepare(spec).reason}")
    return Lab(provider, spec, folder, say)


# ---- starts ----------------------------------------------------------------------------------


def measure_starts(lab: Lab) -> list[Figure]:
    """Each way to a machine in turn, so that a busy host slows all of them alike."""
    with _pool(lab) as pool:
        for number in range(ROUNDS):
            lab.say(f"machines' starts: round {number + 1} of {ROUNDS}")
            _floor(lab)
            _restore(lab)
            _fork(lab)
            _take(lab, pool)
    for number in range(BOOTS):
        lab.say(f"machines' starts: cold boot {number + 1} of {BOOTS}")
        _boot(lab)
    return _figures_of_starts(lab)


def _figures_of_starts(lab: Lab) -> list[Figure]:
    floor = lab.median("floor")
    held_to = f"QEMU alone to its greeting: {floor * 1000:.0f} ms, p50 of {ROUNDS}"
    boots = f"a cold boot to the first command: {lab.median('boot'):.2f} s, p50 of {BOOTS}"
    bars = {
        "restore": SLOWER_WITH_KVM if lab.is_accelerated else SLOWER_WITHOUT_KVM,
        "fork": 5.0,
        "pool": 1.2,
    }
    figures = [Figure("machine_floor_ms", floor * 1000, "ms", held_to)]
    for name, bar in bars.items():
        seconds = lab.median(name)
        figures += [
            Figure(f"machine_{name}_ms", seconds * 1000, "ms", "to its first command's result"),
            Figure(f"machine_{name}_ratio", seconds / floor, "x", held_to, bar),
        ]
    share = lab.median("restore") / lab.median("boot")
    return [*figures, Figure("machine_restore_over_boot", share, "x", boots, bar=1 / 20)]


def _first_result(machine: Sandbox) -> None:
    done = machine.exec(FIRST)
    if done.stdout != b"ready\n":
        raise RuntimeError(f"a machine's first command failed: {done}")


def _restore(lab: Lab) -> None:
    with ExitStack() as stack, lab.timing("restore"):
        machine = lab.provider.create(lab.spec, refuse)
        stack.callback(machine.kill)
        _first_result(machine)


def _fork(lab: Lab) -> None:
    """A working machine: it has run commands and holds a file."""
    with ExitStack() as stack:
        parent = lab.provider.create(lab.spec, refuse)
        stack.callback(parent.kill)
        parent.write_file(f"{WORK_DIR}/held", os.urandom(_MIB))
        _first_result(parent)
        with lab.timing("fork"):
            [child] = lab.provider.fork(parent, [(lab.spec, refuse)])
            stack.callback(child.kill)
            _first_result(child)


def _take(lab: Lab, pool: Pool) -> None:
    with ExitStack() as stack, lab.timing("pool"):
        machine = pool.create(lab.spec, refuse)
        stack.callback(machine.kill)
        _first_result(machine)
    pool.await_ready(60.0)  # else making the next one would slow what is measured next


@contextmanager
def _pool(lab: Lab) -> Iterator[Pool]:
    pool = Pool(lab.provider, 1, lambda: lab.spec, lab.folder / "pool.lock")
    pool.open()
    try:
        pool.await_ready(60.0)
        yield pool
    finally:
        pool.close()


def _boot(lab: Lab) -> None:
    with ExitStack() as stack, lab.timing("boot"):
        machine = stack.enter_context(lab.provider.booted(lab.spec))
        _first_result(machine)


def _floor(lab: Lab) -> None:
    """The machine's own command line, on the snapshot's own files; nothing around it."""
    with ExitStack() as stack:
        argv, fds, qmp = _bare_qemu(lab, stack)
        _, far_end = (stack.enter_context(each) for each in socket.socketpair())
        with lab.timing("floor"):
            process = subprocess.Popen(argv, pass_fds=fds, env={}, stdin=far_end.fileno())
            stack.callback(process.wait)
            stack.callback(process.kill)
            qmp.greet()
        qmp.execute("quit")


def _bare_qemu(lab: Lab, stack: ExitStack) -> tuple[list[str], list[int], Qmp]:
    """A command line, the descriptors that it names, and the way to ask it."""
    snapshot = lab.provider.snapshot_of(lab.spec)

    def opened(path: Path, flags: int = os.O_RDONLY) -> int:
        fd = os.open(path, flags)
        stack.callback(os.close, fd)
        return fd

    overlay = lab.folder / "floor.qcow2"
    overlay.write_bytes(snapshot.empty.read_bytes())
    ours, theirs = (stack.enter_context(each) for each in socket.socketpair())
    descriptors = Descriptors(
        base=opened(snapshot.base),
        layers=tuple(opened(layer) for layer in snapshot.layers),
        overlay=(opened(overlay, os.O_RDWR), opened(overlay)),
        qmp=theirs.fileno(),
    )
    program = find_program(PROGRAM, PACKAGE)
    argv = qemu_argv(program, snapshot.accel, snapshot.shape, descriptors, private=True)
    argv = [word.replace(MEMORY_PATH, str(snapshot.memory)) for word in argv]
    fds = [descriptors.base, *descriptors.layers, *descriptors.overlay, descriptors.qmp]
    return argv, fds, Qmp(ours, QMP_TIMEOUT_S)


# ---- what one costs and carries --------------------------------------------------------------


def _private_memory(lab: Lab) -> Figure:
    """What clones of one template, idle after a command, do not share: smaps' private pages."""
    lab.say(f"memory of {CLONES} idle clones")
    with ExitStack() as stack:
        machines = []
        for _ in range(CLONES):
            machine = lab.provider.create(lab.spec, refuse)
            stack.callback(machine.kill)
            _first_result(machine)
            machines.append(machine)
        supervisors = {each.id: each.supervisor_pid for each in lab.provider.list()}
        sizes = [_private_bytes(supervisors[machine.id]) / _MIB for machine in machines]
    reference = f"the largest of {CLONES} clones after one command; all its processes, by smaps"
    return Figure("machine_private_mib", max(sizes), "MiB", reference, bar=100.0)


def _private_bytes(supervisor: int) -> int:
    total = 0
    for pid in (supervisor, *descendants(supervisor)):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Private_"):
                total += int(line.split()[1]) * 1024
    return total


def _channel(lab: Lab) -> list[Figure]:
    """Bytes a second out of the machine, against a pipe through the same program inside."""
    lab.say("the channel's throughput")
    script = f"head -c {FLOW_BYTES} /dev/zero"
    machine = lab.provider.create(lab.spec, refuse)
    try:
        _first_result(machine)
        for _ in range(FLOW_ROUNDS):
            with lab.timing("pipe"):
                machine.exec(["sh", "-c", f"{script} | cat > /dev/null"])
            with lab.timing("channel"):
                machine.exec(["sh", "-c", script], output_cap=FLOW_BYTES)
    finally:
        machine.kill()
    pipe, channel = (FLOW_BYTES / lab.median(name) / _MIB for name in ("pipe", "channel"))
    reference = f"a pipe inside the machine, from the same program: {pipe:.0f} MiB/s"
    return [
        Figure("machine_channel_mib_s", channel, "MiB/s", reference),
        Figure("machine_channel_share", channel / pipe, "x", reference),
    ]


# ---- its clock -------------------------------------------------------------------------------


def _with_clock(lab: Lab, meanwhile: Callable[[], list[Figure]]) -> list[Figure]:
    """Compare a guest's clock with the host's over a minute or more, with the host at work."""
    machine = lab.provider.create(replace(lab.spec, run_id="clock"), refuse)
    try:
        _uptime(machine)
        first = _uptime(machine)
        figures = meanwhile()
        time.sleep(max(0.0, first[0] + CLOCK_S - time.monotonic()))
        last = _uptime(machine)
    finally:
        machine.kill()
    host, guest = last[0] - first[0], last[1] - first[1]
    reference = f"the host's {host:.0f} s, in which the guest's clock ran {guest:.2f}"
    error = abs(guest / host - 1) * 100
    return [*figures, Figure("machine_clock_error_percent", error, "%", reference, bar=1.0)]


def _uptime(machine: Sandbox) -> tuple[float, float]:
    """The host's clock in the middle of the asking, and the guest's."""
    before = time.monotonic()
    text = machine.exec(["cat", "/proc/uptime"]).stdout
    return (before + time.monotonic()) / 2, float(text.split()[0])
