"""QEMU's command line, and bubblewrap's around it (pure).

The machine is `microvm` with what a run needs and nothing else: memory, one disk, one serial port
for the channel, a source of randomness. No network card, no vsock, no console, no display, no
clock chip.

QEMU gets everything by descriptor, so its mount namespace holds the host's /usr, read-only, and
nothing that it could write to. With `-sandbox` it may neither start programs nor gain privileges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KVM, TCG = "kvm", "tcg"
CHANNEL_FD = 0
PORT_NAME = "drydock"
DISK = "disk"  # the node of the writable disk is DISK0, and after each fork the next
MEMORY_PATH = "/memory"  # no such file: `sandbox.substitute` gives the template's
KVM_PATH = "/dev/kvm"
# Where the boot's files lie for QEMU; memory, put there by bubblewrap.
KERNEL_PATH, INITRD_PATH = "/kernel", "/initrd"
# Translated code, in MiB. It is QEMU's own, besides the guest's memory.
TCG_CACHE_MIB = 256

_BPF = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_KERNEL = "panic=-1 reboot=t quiet mitigations=off"


@dataclass(frozen=True)
class Shape:
    """What the guest sees of the host's resources."""

    memory_mib: int
    cpus: int


@dataclass(frozen=True)
class Descriptors:
    """The numbers of QEMU's open files. `overlay` is the disk's top, for writing and for reading;
    `layers` are what lies between it and `base`, the lowest first."""

    base: int
    layers: tuple[int, ...]
    overlay: tuple[int, int]
    qmp: int


def qemu_argv(
    program: str,
    accel: str,
    shape: Shape,
    descriptors: Descriptors,
    *,
    private: bool,
    kernel: str | None = None,
) -> list[str]:
    """The command line. `private`: memory is a copy-on-write mapping of its file.

    With `kernel`, its command line, the machine boots; without, it waits for a state to load.
    """
    return [
        program,
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none"),
        *("-sandbox", _BPF),
        *("-machine", f"{_machine()},memory-backend=ram"),
        *("-accel", f"tcg,thread=multi,tb-size={TCG_CACHE_MIB}" if accel == TCG else "kvm"),
        *("-cpu", "max" if accel == TCG else "host"),
        *("-smp", str(shape.cpus)),
        *("-m", f"{shape.memory_mib}M"),
        *("-object", _memory(shape, private)),
        *_chardev("qmp", descriptors.qmp),
        *("-mon", "chardev=qmp,mode=control"),
        *_disk(descriptors),
        *("-device", "virtio-rng-device"),
        *("-device", "virtio-serial-device"),
        *_chardev("channel", CHANNEL_FD),
        *("-device", f"virtserialport,chardev=channel,name={PORT_NAME}"),
        *(_boot(kernel) if kernel else _restore()),
    ]


def kernel_command(accel: str, tsc_khz: int) -> str:
    """The guest kernel's command line.

    Emulated, it has no other clock to measure the time-stamp counter by, and QEMU hands it the
    host's. It is told to rely on it and at what rate it runs (`lpj` is the same, in loops per tick
    of 4 ms): with the wrong rate its time would run wrong, and without it by lost ticks.
    """
    tsc = f" tsc=reliable tsc_early_khz={tsc_khz} lpj={4 * tsc_khz}"
    return _KERNEL + (tsc if accel == TCG else "")


def _machine() -> str:
    return "microvm,acpi=on,pit=off,pic=on,rtc=off,isa-serial=off,suppress-vmdesc=on"


def _memory(shape: Shape, private: bool) -> str:
    share = "off" if private else "on"
    return (
        f"memory-backend-file,id=ram,size={shape.memory_mib}M,mem-path={MEMORY_PATH},share={share}"
    )


def _chardev(name: str, fd: int) -> tuple[str, str]:
    return ("-chardev", f"socket,id={name},fd={fd}")


def _disk(descriptors: Descriptors) -> list[str]:
    """The chain of images, from the template's to the machine's own; nothing is kept on a crash."""
    flags = [*_fd(descriptors.base), *_node("base", "raw", descriptors.base, read_only=True)]
    below = "base"
    for number, fd in enumerate(descriptors.layers):
        flags += _fd(fd) + _node(f"layer{number}", "qcow2", fd, read_only=True, backing=below)
        below = f"layer{number}"
    top, top_again = descriptors.overlay
    flags += _fd(top) + _fd(top_again, top)
    flags += _node(f"{DISK}0", "qcow2", top, read_only=False, backing=below)
    # A full host disk is the guest's IO error, not a machine that stands still.
    device = f"virtio-blk-device,drive={DISK}0,werror=report,rerror=report"
    return [*flags, "-device", device]


def _fd(fd: int, number: int | None = None) -> list[str]:
    return ["-add-fd", f"fd={fd},set={fd if number is None else number}"]


def _node(name: str, driver: str, fd: int, *, read_only: bool, backing: str = "") -> list[str]:
    options = node_options(name, driver, fd, read_only=read_only, backing=backing)
    return ["-blockdev", ",".join(f"{key}={_text(value)}" for key, value in options.items())]


def node_options(
    name: str, driver: str, fdset: int, *, read_only: bool, backing: str = ""
) -> dict[str, str | bool]:
    """One image as `blockdev-add` takes it, flattened. What is only read is shared: no locks."""
    return {
        "node-name": name,
        "driver": driver,
        "read-only": read_only,
        "cache.no-flush": True,
        "file.driver": "file",
        "file.filename": f"/dev/fdset/{fdset}",
        "file.read-only": read_only,
        "file.locking": "off" if read_only else "auto",
        "file.cache.no-flush": True,
        **({"backing": backing} if backing else {}),
    }


def nested(options: Mapping[str, Any]) -> dict[str, Any]:
    """Flattened options as the JSON that QMP wants: `file.driver` is `driver` in `file`."""
    tree: dict[str, Any] = {}
    for key, value in options.items():
        *folders, name = key.split(".")
        place = tree
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    return tree


def _text(value: str | bool) -> str:
    return value if isinstance(value, str) else ("on" if value else "off")


def _boot(kernel: str) -> list[str]:
    return ["-kernel", KERNEL_PATH, "-initrd", INITRD_PATH, "-append", kernel]


def _restore() -> list[str]:
    """The state has no configuration section: `xen-save-devices-state` writes none."""
    return ["-S", "-incoming", "defer", "-global", "migration.send-configuration=off"]


def confined_argv(
    bwrap: str,
    command: Sequence[str],
    *,
    is_root: bool,
    links: Mapping[str, str],
    data: Mapping[str, int],
) -> list[str]:
    """Run `command` in namespaces of its own. `links` are symbolic links of the host's root that
    lead into /usr; `data` are files to put there, path → descriptor.

    For root the supervisor has made the user namespace already: uid 0 there is nobody's here.
    """
    argv = [bwrap, *([] if is_root else ["--unshare-user", "--uid", "1000", "--gid", "1000"])]
    argv += [f"--unshare-{name}" for name in ("ipc", "pid", "net", "uts", "cgroup-try")]
    argv += ["--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
    argv += ["--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]
    argv += ["--dev-bind", "/dev/null", "/dev/null"]  # QEMU tries locks on it
    for path, target in links.items():
        argv += ["--symlink", target, path]
    for path, fd in data.items():
        argv += ["--ro-bind-data", str(fd), path]
    return [*argv, "--remount-ro", "/", "--chdir", "/", "--", *command]
