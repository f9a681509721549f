"""Whether this host's KVM is of use: found out by booting, remembered with its reason.

/dev/kvm may exist, answer, and be useless: nested hosts, on which a kernel that is not made for
them hangs. So KVM counts only when the agent of a machine answered under it within seconds.

    <state>/qemu-acceleration.json      the last trial's verdict, for one host, kernel and QEMU
"""

from __future__ import annotations

import json
import logging
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from sandbox.provider import ProviderFailed
from sandbox.providers.qemu.command import KVM, KVM_PATH, TCG

AUTO = "auto"
SETTINGS = (AUTO, KVM, TCG)
# With KVM the agent answers in about a second.
TRIAL_TIMEOUT_S = 8.0

_EXTENSIONS = frozenset({"vmx", "svm"})
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Verdict:
    """What machines here are accelerated by, and why."""

    accel: str
    reason: str


@dataclass(frozen=True)
class Host:
    """What a verdict holds for. `can_open` says whether this user may use /dev/kvm."""

    name: str
    kernel: str
    program: str
    can_open: bool
    has_extensions: bool

    @property
    def key(self) -> str:
        return f"{self.name} {self.kernel} {self.program}"


def this_host(program: Path) -> Host:
    status = program.stat()
    flags = _flags(Path("/proc/cpuinfo").read_text())
    return Host(
        name=_machine_id(),
        kernel=platform.release() + " " + platform.version(),
        program=f"{status.st_size}-{status.st_mtime_ns}",
        can_open=os.access(KVM_PATH, os.R_OK | os.W_OK),
        has_extensions=not _EXTENSIONS.isdisjoint(flags),
    )


def without_trial(setting: str, host: Host) -> Verdict | None:
    """What can be said without booting anything; None when only a trial tells (pure)."""
    if setting == TCG:
        return Verdict(TCG, "emulated, as configured")
    if setting == KVM:
        return Verdict(KVM, "KVM, as configured")
    if not host.can_open:
        return Verdict(TCG, f"emulated: {KVM_PATH} is not there, or not for this user")
    if not host.has_extensions:
        return Verdict(
            TCG,
            f"emulated: the processor shows neither VMX nor SVM, so {KVM_PATH} is a "
            "paravirtual one, on which a distribution's kernel does not boot",
        )
    return None


def decide(setting: str, host: Host, state_dir: Path, trial: Callable[[], None]) -> Verdict:
    """The verdict for this host, by a trial if there is none yet. `trial` raises ProviderFailed."""
    verdict = without_trial(setting, host) or remembered(host, state_dir)
    if verdict is None:
        verdict = _try(trial)
        _remember(verdict, host, state_dir)
        _log.info("%s", verdict.reason)
    return verdict


def remembered(host: Host, state_dir: Path) -> Verdict | None:
    """The last trial's verdict, if it was on this host, kernel and QEMU."""
    try:
        data = json.loads(_file(state_dir).read_bytes())
        return Verdict(data["accel"], data["reason"]) if data["host"] == host.key else None
    except (OSError, ValueError, KeyError, TypeError):  # none, or a broken one: try again
        return None


def _try(trial: Callable[[], None]) -> Verdict:
    try:
        trial()
    except ProviderFailed as error:
        return Verdict(TCG, f"emulated: a machine did not start under KVM: {error}"[:2000])
    return Verdict(KVM, "KVM: a machine's agent answered under it")


def _remember(verdict: Verdict, host: Host, state_dir: Path) -> None:
    path = _file(state_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps({"host": host.key, **asdict(verdict)}) + "\n")
    partial.rename(path)


def _file(state_dir: Path) -> Path:
    return state_dir / "qemu-acceleration.json"


def _machine_id() -> str:
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return platform.node()


def _flags(cpuinfo: str) -> set[str]:
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()
