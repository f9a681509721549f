"""The provider: which acceleration, which snapshot, and clones of it."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from sandbox.launch import Identity, Launch
from sandbox.machine import Tier
from sandbox.machines import machines_dir
from sandbox.provider import (
    WAITING,
    Checkpoint,
    EgressHandler,
    MachineSpec,
    Probe,
    ProviderFailed,
    Sandbox,
    Template,
    Unsupported,
)
from sandbox.providers.common import LocalProvider, find_program, new_machine_id, rootfs_of
from sandbox.providers.qemu import acceleration, memory, snapshot
from sandbox.providers.qemu.acceleration import Verdict
from sandbox.providers.qemu.bake import Oven
from sandbox.providers.qemu.command import KVM, TCG
from sandbox.providers.qemu.launch import PACKAGE, PROGRAM, plan_restore
from sandbox.providers.qemu.machine import Restore, VirtualMachine
from sandbox.providers.qemu.snapshot import Snapshot
from sandbox.template.bake import BakeProgress, Progress
from sandbox.template.store import TemplateStore, remove_tree

# Which template a trial boots when none is asked for.
TRIAL_TEMPLATE = "default"
NOT_TRIED = Verdict(TCG, "emulated, until a template is baked and KVM is tried with it")
CHECKPOINTS = "checkpoints"

_log = logging.getLogger(__name__)


def tell(step: BakeProgress) -> None:
    _log.info("template: %s", step)


class QemuProvider(LocalProvider):
    """`accel` is `auto`, `kvm` or `tcg`. `progress` hears of what has to be baked."""

    name = "qemu"

    def __init__(self, state_dir: Path, accel: str = "auto", progress: Progress = tell) -> None:
        if accel not in acceleration.SETTINGS:
            raise ValueError(f"unknown acceleration {accel!r}: one of {acceleration.SETTINGS}")
        super().__init__(state_dir)
        self._setting = accel
        self._progress = progress
        self._verdict: Verdict | None = None

    # Acceleration

    def probe(self) -> Probe:
        """Whether QEMU is here, and what it is accelerated by. Boots once, where only that tells.

        Without a baked template there is nothing to boot: then it is emulation, for the time being.
        """
        try:
            find_program("bwrap", "bubblewrap")
            return Probe(ok=True, reason=self.verdict().reason)
        except ProviderFailed as error:
            return Probe(ok=False, reason=str(error))

    def verdict(self, template: Template | None = None) -> Verdict:
        """What its machines are accelerated by. ProviderFailed without QEMU."""
        if self._verdict is None:
            host = acceleration.this_host(Path(find_program(PROGRAM, PACKAGE)))
            template = template or TemplateStore(self._state_dir).find(TRIAL_TEMPLATE)
            if template is None:
                return acceleration.without_trial(self._setting, host) or NOT_TRIED
            spec = MachineSpec("trial", template)
            self._verdict = acceleration.decide(
                self._setting, host, self._state_dir, lambda: self._oven(KVM).try_boot(spec)
            )
        return self._verdict

    def tier(self) -> Tier:
        return tier_of(self.verdict().accel)

    def _oven(self, accel: str) -> Oven:
        return Oven(self._state_dir, accel, self._progress)

    # Machines

    def plan(self, spec: MachineSpec, machine_id: str, directory: Path) -> Launch:
        return plan_restore(self.snapshot_of(spec), spec, machine_id, directory).launch

    def snapshot_of(self, spec: MachineSpec) -> Snapshot:
        """What this machine starts from, baked now if it is not there."""
        rootfs_of(spec)
        return self._oven(self.verdict(spec.template).accel).ensure(spec)

    def prepare(self, spec: MachineSpec) -> Verdict:
        """Do beforehand what the first such machine would wait for; nothing is left running."""
        self.snapshot_of(spec)
        return self.verdict()

    @contextmanager
    def booted(self, spec: MachineSpec) -> Iterator[Sandbox]:
        """A machine that has begun with its kernel instead, which is what a restore is held to."""
        accel = self.verdict(spec.template).accel
        with self._oven(accel).booted(spec, f"boot ({accel})") as machine:
            yield machine

    def create(self, spec: MachineSpec, egress: EgressHandler) -> Sandbox:
        machine = self._clone(self.snapshot_of(spec), spec, egress)
        if spec.run_id.startswith(WAITING):
            machine.rehearse()
            machine.pause()
        return machine

    def reap(self, run_id: str) -> int:
        for path in (self._state_dir / CHECKPOINTS).glob(f"*/{snapshot.FACTS}"):
            if json.loads(path.read_bytes()).get("run_id") == run_id:
                remove_tree(path.parent)
        return super().reap(run_id)

    def _clone(
        self,
        source: Snapshot,
        spec: MachineSpec,
        egress: EgressHandler,
        how: str = "restored",
        wait: Callable[[], None] = lambda: None,
    ) -> VirtualMachine:
        identity = Identity(
            new_machine_id(), spec.run_id, self.name, spec.template.digest, time.time()
        )
        directory = machines_dir(self._state_dir) / identity.id
        directory.parent.mkdir(parents=True, exist_ok=True)
        planned = plan_restore(source, spec, identity.id, directory)
        begin = Restore(planned.held, planned.state_fd, how, wait)
        tier = tier_of(source.accel)
        return VirtualMachine(planned.launch, identity, directory, tier, spec, egress, begin)

    # Checkpoints

    def checkpoint(self, sandbox: Sandbox) -> Checkpoint:
        """Save a machine that runs no command, and let it go on.

        Errors: `ProviderFailed`; the machine is dead then, unless it was only busy. `Unsupported`
        for one of another provider.
        """
        machine = _ours(sandbox)
        with self._freezing(machine) as (frozen, copied):
            copied.result()
            machine.fill(frozen)
            machine.resume()
        return Checkpoint(frozen.path.name, frozen.path)

    def restore(self, checkpoint: Checkpoint, spec: MachineSpec, egress: EgressHandler) -> Sandbox:
        """Make a machine that goes on where the saved one was, with a time and name of its own.

        Its memory and CPUs are the saved machine's, whatever `spec` says.
        """
        return self._clone(snapshot.read(checkpoint.path), spec, egress)

    def discard(self, checkpoint: Checkpoint) -> None:
        """Remove a checkpoint's files. Machines that were made from it go on."""
        remove_tree(checkpoint.path)

    def fork(
        self, sandbox: Sandbox, children: Sequence[tuple[MachineSpec, EgressHandler]]
    ) -> list[Sandbox]:
        """Make as many machines as there are specs out of a running one, which goes on.

        They share its memory and disk copy-on-write, and hold what they need: parent and siblings
        may end before them. All or none. Errors as `checkpoint` and `restore`. The children's QEMUs
        start while the memory is being written.
        """
        machine = _ours(sandbox)
        whole: Future[None] = Future()
        with (
            ThreadPoolExecutor(max(1, len(children))) as threads,
            self._freezing(machine) as (frozen, copied),
            _promising(whole),
        ):
            clones = [
                threads.submit(self._clone, frozen, spec, egress, "forked", whole.result)
                for spec, egress in children
            ]
            copied.result()
            machine.fill(frozen)
            whole.set_result(None)
            machine.resume()
        remove_tree(frozen.path)  # each child holds what it needs of it
        return _all_or_none(clones)

    @contextmanager
    def _freezing(self, machine: VirtualMachine) -> Iterator[tuple[Snapshot, Future[None]]]:
        """Stop a machine, with a new checkpoint's folder into which its first memory is copied.

        Nothing is left of a checkpoint that fails; the machine is dead then, unless it was busy.
        """
        folder = self._state_dir / CHECKPOINTS / f"c-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700, parents=True)
        (folder / snapshot.MEMORY).touch()
        try:
            with ThreadPoolExecutor(1) as thread:
                base, target = machine.held.memory, folder / snapshot.MEMORY
                copied = thread.submit(memory.copy_sparse, base, target)
                frozen = machine.freeze(folder)
                with _killing_on_failure(machine):
                    yield frozen, copied
        except BaseException:
            remove_tree(folder)
            raise


def tier_of(accel: str) -> Tier:
    return Tier(f"qemu-{accel}", two_users=True)


@contextmanager
def _promising(whole: Future[None]) -> Iterator[None]:
    """Tell who waits for the checkpoint that it will not come."""
    try:
        yield
    except BaseException as error:
        if not whole.done():
            whole.set_exception(ProviderFailed(f"the parent was not saved: {error}"))
        raise


@contextmanager
def _killing_on_failure(machine: VirtualMachine) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        machine.kill()
        if isinstance(error, OSError):
            raise ProviderFailed(f"a checkpoint was not written: {error}") from error
        raise


def _all_or_none(clones: Sequence[Future[VirtualMachine]]) -> list[Sandbox]:
    """The clones; if one failed, its error, with all others killed."""
    errors = [error for clone in clones if (error := clone.exception())]
    if errors:
        for clone in clones:
            if not clone.exception():
                clone.result().kill()
        raise errors[0]
    return [clone.result() for clone in clones]


def _ours(sandbox: Sandbox) -> VirtualMachine:
    if not isinstance(sandbox, VirtualMachine):
        raise Unsupported(f"a {sandbox.tier} machine cannot be saved by qemu")
    return sandbox
