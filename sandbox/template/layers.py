"""What a virtual machine needs besides a template's root file system: a kernel, and a disk.

    <state>/templates/vm/kernel-<digest>/   vmlinuz, busybox, *.ko
    <state>/templates/vm/disk-<digest>/     disk.raw (ext4, sparse), disk.json

Both are made when they are first asked for, under the store's lock; each appears by one rename and
is complete from then on. The kernel is Debian's for clouds, as a package, unpacked and never
installed; the disk is the template's tree. No step needs root: without it, `mkfs.ext4` runs where
whoever bakes is mapped to root, so that the tree's files are root's inside.
"""

from __future__ import annotations

import json
import lzma
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.provider import Template
from sandbox.template import host
from sandbox.template.bake import BakeFailed, Progress, check_host_tools, phase
from sandbox.template.definition import sha256_json
from sandbox.template.recipe import DebianRecipe, Scratch, StepFailed
from sandbox.template.store import TemplateStore, tree_size

# Raise it when what is left behind by the steps here changes.
LAYERS_VERSION = 1
KERNEL_PACKAGES = ("linux-image-cloud-amd64", "busybox-static")
# What that kernel has as modules and a machine needs; each loads after those it depends on.
MODULES = ("virtio_mmio", "virtio_blk", "virtio_console", "virtio-rng", "virtio_ring", "virtio")
HOST_TOOLS = {"mkfs.ext4": "e2fsprogs", "mmdebstrap": "mmdebstrap", "unshare": "util-linux"}

_MIB = 1024 * 1024
# Free space for the first boot, and for what the file system itself takes: its tables.
_SLACK_BYTES, _OVERHEAD = 64 * _MIB, 1.06
_BYTES_PER_INODE = 32768
_MODULE_SUFFIXES = (".ko", ".ko.xz")


@dataclass(frozen=True)
class Baking:
    """What a bake has in hand; `lock_fd` is the store's lock, held."""

    recipe: DebianRecipe
    progress: Progress
    lock_fd: int


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: `modules` by name, ready to be loaded."""

    digest: str
    path: Path

    @property
    def image(self) -> Path:
        return self.path / "vmlinuz"

    def busybox(self) -> bytes:
        return (self.path / "busybox").read_bytes()

    def modules(self) -> dict[str, bytes]:
        return {path.stem: path.read_bytes() for path in sorted(self.path.glob("*.ko"))}


@dataclass(frozen=True)
class Disk:
    """A template as an image. `size` in bytes is its file system's, almost full."""

    digest: str
    image: Path
    size: int


def kernel_digest(suite: str) -> str:
    return sha256_json(
        {
            "layers": LAYERS_VERSION,
            "architecture": host.architecture(),
            "suite": suite,
            "packages": KERNEL_PACKAGES,
            "modules": MODULES,
        }
    )


def disk_digest(template: Template) -> str:
    return sha256_json({"layers": LAYERS_VERSION, "template": template.digest})


def ensure_kernel(store: TemplateStore, suite: str, baking: Baking) -> Kernel:
    """Find or make the kernel of a suite; the lock is held. Errors: `BakeFailed`, `StepFailed`."""
    digest = kernel_digest(suite)
    path = store.vm_layer("kernel", digest)
    if not path.is_dir():
        check_host_tools(tools=HOST_TOOLS)
        with phase(baking.progress, "kernel"), store.scratch(baking.lock_fd) as scratch:
            made = scratch.path / "kernel"
            made.mkdir()
            tar = scratch.path / "kernel.tar"
            baking.recipe.extract(suite, KERNEL_PACKAGES, tar, scratch)
            unpack_kernel(tar, made)
            publish(made, path)
    return Kernel(digest, path)


def ensure_disk(store: TemplateStore, template: Template, baking: Baking) -> Disk:
    """Find or make the image of a template; the lock is held. Errors as `ensure_kernel`."""
    digest = disk_digest(template)
    path = store.vm_layer("disk", digest)
    if not path.is_dir():
        check_host_tools(tools=HOST_TOOLS)
        with phase(baking.progress, "disk image"), store.scratch(baking.lock_fd) as scratch:
            made = scratch.path / "disk"
            made.mkdir()
            size = make_image(template.path / "rootfs", made / "disk.raw", baking.recipe, scratch)
            facts = {"template_digest": template.digest, "size": size}
            (made / "disk.json").write_text(json.dumps(facts))
            publish(made, path)
    size = json.loads((path / "disk.json").read_bytes())["size"]
    return Disk(digest, path / "disk.raw", size)


def publish(made: Path, path: Path) -> None:
    """Make a folder of files the layer `path`, in one step and not before it is on the disk."""
    for file in made.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    path.parent.mkdir(exist_ok=True)
    made.rename(path)


def unpack_kernel(tar: Path, into: Path) -> None:
    """Take the image, busybox and `MODULES` out of the packages' files. `BakeFailed` if not all."""
    wanted = {"bin/busybox": "busybox", "usr/bin/busybox": "busybox"}
    wanted |= {f"{name}{end}": f"{name}.ko" for name in MODULES for end in _MODULE_SUFFIXES}
    with tarfile.open(tar) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            target = wanted.get(name) or wanted.get(Path(name).name)
            if Path(name).name.startswith("vmlinuz-"):
                target = "vmlinuz"
            source = archive.extractfile(member) if target and member.isfile() else None
            if target and source:
                (into / target).write_bytes(_unpacked(name, source.read()))
    missing = {"vmlinuz", *wanted.values()} - {path.name for path in into.iterdir()}
    if missing:
        raise BakeFailed(f"{', '.join(KERNEL_PACKAGES)} hold no {', '.join(sorted(missing))}")


def make_image(rootfs: Path, image: Path, recipe: DebianRecipe, scratch: Scratch) -> int:
    """Write a tree as an ext4 image; returns its size in bytes."""
    size = int(tree_size(rootfs) * _OVERHEAD) + _SLACK_BYTES
    size -= size % _MIB
    as_root: Sequence[str] = () if recipe.is_root else ("unshare", "--map-root-user")
    argv = [
        *as_root,
        "mkfs.ext4",
        *mkfs_options(),
        "-d",
        str(rootfs),
        str(image),
        f"{size // 1024}k",
    ]
    try:
        recipe.host_tool(argv, scratch, "mkfs")
    except StepFailed as error:
        raise BakeFailed(f"the disk image was not made: {error}") from error
    return size


def mkfs_options() -> list[str]:
    """No journal: a machine that ends in the middle of a write is thrown away with its disk."""
    return ["-q", "-F", "-b", "4096", "-m", "0", "-i", str(_BYTES_PER_INODE), "-O", "^has_journal"]


def _unpacked(name: str, data: bytes) -> bytes:
    return lzma.decompress(data) if name.endswith(".xz") else data
