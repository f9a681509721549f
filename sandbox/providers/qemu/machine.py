"""One virtual machine: how it begins, what is renewed first, and how it is saved."""

from __future__ import annotations

import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.channel import Stream
from sandbox.launch import Identity, Launch, Supervised
from sandbox.machine import Machine, Tier
from sandbox.machines import read_record
from sandbox.provider import (
    EgressHandler,
    GuestMisbehaved,
    MachineLost,
    MachineSpec,
    ProviderFailed,
    Receipt,
    WarmProgram,
    Warmth,
)
from sandbox.providers.qemu import memory, snapshot
from sandbox.providers.qemu.command import DISK, nested, node_options
from sandbox.providers.qemu.qmp import Qmp, QmpFailed
from sandbox.providers.qemu.snapshot import Snapshot
from sandbox.supervisor import descendants

QMP_TIMEOUT_S = 20.0
ANSWER_TIMEOUT_S = 20.0
SEED_BYTES = 64
# Harmless, and most of what a first command needs: emulated, it leaves its translated code behind.
REHEARSAL = (("sh", "-c", "id; ls /work; git --version"), ("python3", "-c", "print(1)"))
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Restore:
    """Begin from a snapshot, whose device state QEMU finds at descriptor `state_fd`.

    `wait` returns when the snapshot is whole: QEMU is started meanwhile.
    """

    snapshot: Snapshot
    state_fd: int
    how: str
    wait: Callable[[], None]


@dataclass(frozen=True)
class Boot:
    """Begin with the kernel. `filled`: what the template takes of the disk, in bytes."""

    filled: int
    timeout_s: float
    how: str = "booted"


class VirtualMachine(Machine):
    """A `Sandbox` in a kernel of its own."""

    def __init__(
        self,
        launch: Launch,
        identity: Identity,
        directory: Path,
        tier: Tier,
        spec: MachineSpec,
        egress: EgressHandler,
        begin: Restore | Boot,
    ) -> None:
        """Start it, load its state, renew what must be its own. ProviderFailed when that fails."""
        self._held = begin.snapshot if isinstance(begin, Restore) else None
        self._filled = begin.snapshot.filled if isinstance(begin, Restore) else begin.filled
        self._begin = begin
        self._how = begin.how
        self._disks = 1
        self._renewed: Mapping[str, str] = {}
        if isinstance(begin, Boot):
            self.start_timeout_s = begin.timeout_s
        super().__init__(launch, identity, directory, tier, spec, egress)

    @property
    def receipt(self) -> Receipt:
        receipt = super().receipt
        return replace(receipt, facts={**receipt.facts, "begun": self._how, **self._renewed})

    # The beginning

    def _supervise(self, launch: Launch, machine_fd: int) -> Supervised:
        ours, theirs = socket.socketpair()
        self._qmp = Qmp(ours, QMP_TIMEOUT_S)
        with theirs:
            fds = (machine_fd, theirs.fileno())
            return Supervised(launch, self._identity, self.directory, self._spec.ttl_s, *fds)

    def _greet(self) -> dict[str, str]:
        with self._failing("start"):
            self._qmp.greet()
            if isinstance(self._begin, Restore):
                self._begin.wait()
                self._load(self._begin.state_fd)
        hello = super()._greet()
        with self._failing("start"):
            self._renew()
        return hello

    def _load(self, state_fd: int) -> None:
        """Load the devices' state; memory is there already, mapped."""
        capability = {"capability": "events", "state": True}
        self._qmp.execute("migrate-set-capabilities", capabilities=[capability])
        self._qmp.execute("migrate-incoming", uri=f"fd:{state_fd}")
        while (status := self._qmp.wait_for("MIGRATION")["status"]) != "completed":
            if status == "failed":
                raise QmpFailed("QEMU cannot load the state: its version may have changed")
        self._qmp.execute("cont")

    def _renew(self) -> None:
        """Give it the time, randomness, a name: before anything of a run executes."""
        hostname = f"drydock-{self.id.removeprefix('m-')[:8]}"
        machine_id = secrets.token_hex(16)
        disk = self._spec.disk_mib * _MIB
        result = self._ask(
            ("kind", "renew"),
            ("hostname", hostname),
            ("machine_id", machine_id),
            ("disk_bytes", str(self._filled + disk)),
            ("file_bytes", str(disk)),
            ("entropy", secrets.token_hex(SEED_BYTES)),
            ("time_ns", str(time.time_ns())),
        )
        if "stepped_ns" not in result:
            raise QmpFailed(f"the guest was not renewed: {result}")
        self._renewed = {
            "clock_stepped_ns": result["stepped_ns"][:24],
            "entropy_bytes": str(SEED_BYTES),
            "hostname": hostname,
            "machine_id": machine_id,
        }

    def _ask(self, *fields: tuple[str, str]) -> dict[str, str]:
        stream = self._channel.open(fields)
        try:
            if stream.receive(ANSWER_TIMEOUT_S) is not None:
                self._channel.misbehaved("data where a result was asked for")
        except TimeoutError as error:
            raise QmpFailed("the agent did not answer") from error
        return dict(stream.result or ())

    @contextmanager
    def _failing(self, doing: str) -> Iterator[None]:
        """End the machine when QEMU or the guest fails here, and say what they said last."""
        try:
            yield
        except (QmpFailed, OSError, MachineLost, GuestMisbehaved) as error:
            self.kill()
            said = self._supervised.report.stderr.strip() if self._supervised.report else ""
            detail = f"{error}; {said[-2000:]}" if said else str(error)
            raise ProviderFailed(f"a {self.tier} machine did not {doing}: {detail}") from error

    def kill(self) -> None:
        super().kill()
        self._qmp.close()

    # A warm program

    def _start_warm(self, warm: WarmProgram) -> Stream | None:
        """A restored machine's is awake already."""
        return None if self._held else super()._start_warm(warm)

    def await_warm(self, timeout_s: float) -> Warmth:
        if self._held and self._held.warmth:
            return self._held.warmth
        return super().await_warm(timeout_s)

    # Waiting for a run

    def rehearse(self) -> None:
        for argv in REHEARSAL:
            self.exec(argv, env={"LANG": "C.UTF-8"})

    def pause(self) -> None:
        """Stop until `hand_over`."""
        with self._failing("pause"):
            self._qmp.execute("stop")

    def hand_over(self, spec: MachineSpec, egress: EgressHandler) -> None:
        """Give a paused machine to a run. What it shares with the template is renewed again."""
        super().hand_over(spec, egress)
        self._how = "waiting"
        with self._failing("continue"):
            self._qmp.execute("cont")
            self._renew()

    # Saving

    def save(self, into: Path) -> None:
        """Stop for good, with the devices' state in a folder that has the memory already."""
        with self._failing("save"):
            self._leave()
            self._qmp.execute("stop")
            self._save_state(into / snapshot.STATE)

    def freeze(self, into: Path) -> Snapshot:
        """Stop, and begin a checkpoint in a folder: its disk is whole. `fill`, `resume` follow.

        Errors: ProviderFailed. A machine that is busy goes on; after anything else it is dead.
        """
        held = self.held
        with self._failing("stop"):
            self._leave()
            self._qmp.execute("stop")
            chain = (*held.layers, self._put_overlay(held.empty))
            layers = tuple(
                snapshot.keep(layer, into, f"layer{number}.qcow2")
                for number, layer in enumerate(chain)
            )
            snapshot.keep(held.empty, into, snapshot.EMPTY)
            (into / snapshot.STATE).touch(exist_ok=False)
        self._held = replace(held, layers=chain)
        return replace(held, path=into, layers=layers)

    def fill(self, frozen: Snapshot) -> None:
        """Write what is missing of a checkpoint: the state, and the memory that has changed.

        Its folder has a copy of the memory that this machine began with.
        """
        with self._failing("save"):
            self._save_state(frozen.state)
            memory.add_changes(self._qemu_pid(), self.held.memory, frozen.memory)
            snapshot.write(frozen, frozen.path, run_id=self._spec.run_id, created_at=time.time())

    def resume(self) -> None:
        """Go on after `freeze`."""
        with self._failing("resume"):
            self._qmp.execute("cont")
            self.hello = self._channel.restart(ANSWER_TIMEOUT_S)
            self._renew()

    @property
    def held(self) -> Snapshot:
        """What it began with, and all layers below its disk's top. Not a booted one's."""
        if self._held is None:
            raise ProviderFailed("only a restored machine can be saved again")
        return self._held

    def _leave(self) -> None:
        """Have the agent forget this connection. ProviderFailed, and no harm, when it is busy."""
        if self._ask(("kind", "leave")):
            raise ProviderFailed("a command of this machine still runs: it cannot be saved now")

    def _save_state(self, path: Path) -> None:
        """`xen-save-devices-state` is the one command that writes all devices and no memory."""
        with path.open("wb") as file:
            fdset = self._qmp.execute("add-fd", fd=file.fileno())["fdset-id"]
        self._qmp.execute("xen-save-devices-state", filename=f"/dev/fdset/{fdset}", live=False)
        self._qmp.execute("remove-fd", fdset_id=fdset)

    def _put_overlay(self, empty: Path) -> Path:
        """Put an empty overlay on the disk; returns what was its top, which changes no more."""
        number = self._disks
        overlay = self.directory / f"{DISK}{number}.qcow2"
        shutil.copyfile(empty, overlay)
        options = node_options(f"{DISK}{number}", "qcow2", self._add_file(overlay), read_only=False)
        self._qmp.execute("blockdev-add", **nested(options), backing=None)
        self._qmp.execute(
            "blockdev-snapshot", node=f"{DISK}{number - 1}", overlay=f"{DISK}{number}"
        )
        self._disks += 1
        return self.directory / f"{DISK}{number - 1}.qcow2"

    def _add_file(self, path: Path) -> int:
        """Hand QEMU a file, for writing and for when it will only be read; the set's number."""
        with path.open("r+b") as file:
            fdset = int(self._qmp.execute("add-fd", fd=file.fileno())["fdset-id"])
        with path.open("rb") as file:
            self._qmp.execute("add-fd", fd=file.fileno(), fdset_id=fdset)
        return fdset

    def _qemu_pid(self) -> int:
        record = read_record(self.directory)
        if record is None:
            raise MachineLost("exited")
        for pid in (record.machine.pid, *descendants(record.machine.pid)):
            if memory.find_mapping(pid, self.held.memory):
                return pid
        raise QmpFailed("no process of this machine has its memory")
