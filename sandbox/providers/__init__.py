"""The registry of providers, and which one `auto` means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sandbox.provider import Provider, ProviderFailed
from sandbox.providers.bubblewrap import BubblewrapProvider
from sandbox.providers.fake import FakeProvider
from sandbox.providers.gvisor import GvisorProvider
from sandbox.providers.qemu import QemuProvider
from sandbox.providers.qemu.command import KVM

AUTO = "auto"
NAMES = (AUTO, "gvisor", "bubblewrap", "qemu", "fake")


def make_provider(name: str, state_dir: Path, qemu_accel: str = AUTO) -> Provider:
    """Return the provider of that name. ValueError for an unknown one.

    `qemu_accel` is what qemu's machines may be accelerated by: `auto`, `kvm` or `tcg`.
    `auto` tries each that it may take; ProviderFailed, with every reason, when none works.
    """
    makers: dict[str, Callable[[], Provider]] = {
        "gvisor": lambda: GvisorProvider(state_dir),
        "bubblewrap": lambda: BubblewrapProvider(state_dir),
        "qemu": lambda: QemuProvider(state_dir, qemu_accel),
        "fake": lambda: FakeProvider(state_dir),
    }
    if name == AUTO:
        return _choose(QemuProvider(state_dir, qemu_accel), GvisorProvider(state_dir))
    if name not in makers:
        raise ValueError(f"unknown provider {name!r}: one of {', '.join(NAMES)}")
    return makers[name]()


def _choose(qemu: QemuProvider, gvisor: GvisorProvider) -> Provider:
    """Take the strongest that works: qemu on KVM, gvisor, qemu emulated.

    Not bubblewrap: it shares the host's kernel, so it is taken only where the operator names it.
    Never fake.
    """
    hardware = qemu.probe()
    if hardware.ok and qemu.verdict().accel == KVM:
        return qemu
    process = gvisor.probe()
    if process.ok:
        return gvisor
    if hardware.ok:
        return qemu
    reasons = f"gvisor: {process.reason}; qemu: {hardware.reason}"
    raise ProviderFailed(f"no provider works on this host; {reasons}")
