"""Bake a warm machine: boot a template once, rehearse, and keep it as a snapshot.

    <state>/templates/vm/warm-<digest>/   memory, state, disk.qcow2, empty.qcow2, warm.json

The digest covers all that decides what is in it: kernel, disk, agent, QEMU, the host's processor,
the shape, and the program that is kept warm. So a changed agent boots anew and builds nothing
else. Made under the store's lock, visible by one rename; of each template the last used are kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sandbox.launch import Identity
from sandbox.machine import Tier
from sandbox.machines import machines_dir
from sandbox.provider import (
    GUEST_PROXY_PORT,
    WAITING,
    MachineSpec,
    ProviderFailed,
    Template,
    Warmth,
)
from sandbox.providers.common import (
    GUEST_AGENT_DIR,
    PROGRAM_PATH,
    agent_files,
    find_program,
    new_machine_id,
)
from sandbox.providers.qemu import snapshot as snapshots
from sandbox.providers.qemu.acceleration import TRIAL_TIMEOUT_S
from sandbox.providers.qemu.command import TCG, Shape, kernel_command
from sandbox.providers.qemu.launch import PACKAGE, PROGRAM, BootFiles, plan_boot
from sandbox.providers.qemu.machine import Boot, VirtualMachine
from sandbox.providers.qemu.snapshot import DISK_BYTES, EMPTY, MEMORY, Snapshot
from sandbox.providers.qemu.tsc import measure_tsc_khz
from sandbox.template import host, initramfs
from sandbox.template.bake import BakeFailed, Progress, clear_errors, phase
from sandbox.template.definition import sha256_json
from sandbox.template.layers import (
    Baking,
    Disk,
    Kernel,
    disk_digest,
    ensure_disk,
    ensure_kernel,
    kernel_digest,
    publish,
)
from sandbox.template.recipe import DebianRecipe
from sandbox.template.store import TemplateStore

# Raise it when what a snapshot holds changes in a way that nothing below says.
SNAPSHOT_VERSION = 1
# Emulated, a boot takes 5 s on an idle host, and waking the warm program a minute.
BOOT_TIMEOUT_S = 120.0
WARM_TIMEOUT_S = 1200.0
BAKE_TTL_S = 1800.0
KEPT = 6
AGENT = ("/usr/bin/python3", "-I", "-S", f"{GUEST_AGENT_DIR}/vm.py", str(GUEST_PROXY_PORT))
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Oven:
    """Makes and finds the snapshots that machines of one kind of acceleration start from."""

    state_dir: Path
    accel: str
    progress: Progress

    def find(self, spec: MachineSpec) -> Snapshot | None:
        path = self._path(spec)
        if not path.is_dir():
            return None
        os.utime(path)  # what was used last is kept longest
        return snapshots.read(path)

    def ensure(self, spec: MachineSpec) -> Snapshot:
        """Find or make it. ProviderFailed when it cannot be made here, and why."""
        found = self.find(spec)
        if found:
            return found
        store = store_of(spec.template)
        with _in_words(), clear_errors(store), store.lock() as lock_fd:
            return self.find(spec) or self._bake(spec, store, lock_fd)

    def _path(self, spec: MachineSpec) -> Path:
        facts = {
            "version": SNAPSHOT_VERSION,
            "kernel": kernel_digest(suite_of(spec.template)),
            "disk": disk_digest(spec.template),
            "agent": vm_files_digest(),
            "qemu": program_identity(),
            "processor": processor(),
            "accel": self.accel,
            "shape": asdict(self._shape(spec)),
            "disk_mib": spec.disk_mib,
            "warm": asdict(spec.warm) if spec.warm else None,
        }
        return store_of(spec.template).vm_layer("warm", sha256_json(facts))

    def _bake(self, spec: MachineSpec, store: TemplateStore, lock_fd: int) -> Snapshot:
        kernel, disk = self._layers(spec, store, lock_fd)
        path = self._path(spec)
        name = f"machine of {spec.memory_mib} MiB ({self.accel})"
        with phase(self.progress, name), store.scratch(lock_fd) as scratch:
            made = scratch.path / "warm"
            made.mkdir()
            self._boot_and_save(spec, kernel, disk, made, path)
            publish(made, path)
        self._prune(store, spec.template, path)
        return snapshots.read(path)

    def _boot_and_save(
        self, spec: MachineSpec, kernel: Kernel, disk: Disk, made: Path, path: Path
    ) -> None:
        files = prepare_files(spec, kernel, disk, made)
        machine = self.boot(spec, files)
        try:
            warmth = self._wake(machine) if spec.warm else None
            machine.rehearse()
            machine.save(made)
        finally:
            machine.kill()
        files.initrd.unlink()
        saved = Snapshot(
            path=path,
            template_digest=spec.template.digest,
            accel=self.accel,
            shape=self._shape(spec),
            base=disk.image,
            layers=(path / files.overlay.name,),
            filled=disk.size,
            warmth=warmth,
        )
        snapshots.write(saved, made, created_at=time.time())

    def _wake(self, machine: VirtualMachine) -> Warmth:
        """How its warm program is: also one that will not be ready is kept, to start cold."""
        begun = time.monotonic()
        warmth = machine.await_warm(WARM_TIMEOUT_S)
        if not warmth.ready and time.monotonic() - begun >= WARM_TIMEOUT_S:
            raise ProviderFailed(
                f"Aider did not wake up within {WARM_TIMEOUT_S / 60:.0f} minutes in the machine "
                "that is being baked; is this host busy? `drydock template bake --qemu` tries again"
            )
        return warmth

    def boot(
        self, spec: MachineSpec, files: BootFiles, timeout_s: float = BOOT_TIMEOUT_S
    ) -> VirtualMachine:
        """Boot once, on files that it may write. ProviderFailed when the agent does not answer."""
        # As of one that waits for a run, nobody but this process has a say in its end.
        owner = f"{WAITING}bake-{os.getpid()}"
        identity = Identity(new_machine_id(), owner, "qemu", spec.template.digest, time.time())
        directory = machines_dir(self.state_dir) / identity.id
        directory.parent.mkdir(parents=True, exist_ok=True)
        told = kernel_command(self.accel, measure_tsc_khz() if self.accel == TCG else 0)
        launch = plan_boot(files, self.accel, self._shape(spec), told, spec, identity.id)
        return VirtualMachine(
            launch,
            identity,
            directory,
            Tier(f"qemu-{self.accel}", two_users=True),
            replace(spec, ttl_s=BAKE_TTL_S),
            lambda connection: connection.close(),
            Boot(files.filled, timeout_s),
        )

    def _shape(self, spec: MachineSpec) -> Shape:
        return Shape(spec.memory_mib, processors(spec.cpus, self.accel, os.cpu_count() or 1))

    def try_boot(self, spec: MachineSpec) -> None:
        """Boot once and throw it away: ProviderFailed unless the agent answers in seconds."""
        with self.booted(spec, f"trial of {self.accel}", TRIAL_TIMEOUT_S):
            pass

    @contextmanager
    def booted(
        self, spec: MachineSpec, name: str, timeout_s: float = BOOT_TIMEOUT_S
    ) -> Iterator[VirtualMachine]:
        """A machine that has begun with its kernel; it and its files are thrown away."""
        store = store_of(spec.template)
        with _in_words(), clear_errors(store), store.lock() as lock_fd:
            kernel, disk = self._layers(spec, store, lock_fd)
            with phase(self.progress, name), store.scratch(lock_fd) as scratch:
                files = prepare_files(spec, kernel, disk, scratch.path)
                machine = self.boot(spec, files, timeout_s)
                try:
                    yield machine
                finally:
                    machine.kill()

    def _layers(self, spec: MachineSpec, store: TemplateStore, lock_fd: int) -> tuple[Kernel, Disk]:
        suite = suite_of(spec.template)
        recipe = DebianRecipe(host.collect(suite), host.read_certificates(store.ca_bundle))
        baking = Baking(recipe, self.progress, lock_fd)
        return ensure_kernel(store, suite, baking), ensure_disk(store, spec.template, baking)

    def _prune(self, store: TemplateStore, template: Template, newest: Path) -> None:
        """Remove all but the last used of this template's snapshots; clones keep what they have."""
        mine = [
            path
            for path, facts in store.vm_layers("warm")
            if facts["template_digest"] == template.digest and path != newest
        ]
        for path in sorted(mine, key=lambda path: -path.stat().st_mtime)[KEPT - 1 :]:
            store.discard(path)


def processors(wanted: int, accel: str, of_host: int) -> int:
    """How many CPUs a guest gets (pure). Emulated, at most half of the host's: QEMU itself needs
    one, and the code for one alone, which needs no atomic instructions, runs a fifth faster."""
    return min(wanted, max(1, of_host // 2)) if accel == TCG else wanted


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except (BakeFailed, host.HostError) as error:
        raise ProviderFailed(str(error)) from error


def prepare_files(spec: MachineSpec, kernel: Kernel, disk: Disk, folder: Path) -> BootFiles:
    """Make what a cold boot needs: empty memory, an empty overlay, the first file system."""
    empty, overlay = folder / EMPTY, folder / "disk.qcow2"
    qemu_img = find_program("qemu-img", "qemu-utils")
    subprocess.run(
        [qemu_img, "create", "-q", "-f", "qcow2", str(empty), str(DISK_BYTES)],
        env={"PATH": PROGRAM_PATH},
        check=True,
        stdin=subprocess.DEVNULL,
    )
    shutil.copyfile(empty, overlay)
    memory, initrd = folder / MEMORY, folder / "initrd"
    with memory.open("xb") as file:
        file.truncate(spec.memory_mib * _MIB)
    agent = {name: text.encode() for name, text in vm_files().items()}
    initrd.write_bytes(
        initramfs.build(kernel.busybox(), kernel.modules(), agent, GUEST_AGENT_DIR, AGENT)
    )
    return BootFiles(disk.image, disk.size, overlay, memory, kernel.image, initrd)


@functools.cache
def vm_files() -> Mapping[str, str]:
    """The agent's files, by their names in the guest: every provider's, and this one's own.

    Read once, so that a process whose code is replaced under it goes on with what it knows.
    """
    files = {Path(name).name: text for name, text in agent_files().items()}
    guest = Path(initramfs.__file__).parents[1] / "guest"
    return {**files, **{name: (guest / name).read_text() for name in ("vm.py", "confine.py")}}


def vm_files_digest() -> str:
    """Of all code of ours that is in the machine's memory: a change of it is another snapshot."""
    return sha256_json({**vm_files(), "init": Path(initramfs.__file__).read_text()})


def program_identity() -> list[Any]:
    """QEMU's, without asking it: another version may not load a state."""
    status = Path(find_program(PROGRAM, PACKAGE)).stat()
    return [status.st_size, status.st_mtime_ns]


def processor() -> str:
    """The host's, with all that a guest may see of it."""
    text = Path("/proc/cpuinfo").read_text()
    first = text.split("\n\n")[0].splitlines()
    kept = [line for line in first if line.startswith(("model", "flags"))]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()


def store_of(template: Template) -> TemplateStore:
    """The store in which a template is, whoever's state directory that may be."""
    return TemplateStore(template.path.parent.parent)


def suite_of(template: Template) -> str:
    """ProviderFailed when the template says nothing of itself (removed, or never finished)."""
    try:
        return str(json.loads((template.path / "template.json").read_bytes())["suite"])
    except (OSError, KeyError, ValueError) as error:
        raise ProviderFailed(
            f"{template.path} is no baked template: bake it again with `drydock template`"
        ) from error
