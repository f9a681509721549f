"""A kernel out of packages and a disk out of a tree: small ones, with the real tools."""

from __future__ import annotations

import io
import lzma
import os
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from sandbox.provider import Template
from sandbox.template import layers
from sandbox.template.bake import BakeFailed, BakeProgress
from sandbox.template.host import Certificates, HostConfig
from sandbox.template.layers import MODULES, Baking, ensure_disk, ensure_kernel, unpack_kernel
from sandbox.template.recipe import DebianRecipe, Scratch, extract_argv
from sandbox.template.store import TemplateStore

HERE = "./lib/modules/6.1.0-cloud/kernel/drivers"


def packages(tar: Path, without: Sequence[str] = (), suffix: str = ".ko") -> None:
    """A tar as mmdebstrap makes it of the kernel's packages."""
    pack = lzma.compress if suffix.endswith(".xz") else bytes
    files = {f"{HERE}/{name}{suffix}": pack(name.encode()) for name in MODULES}
    files |= {"./boot/vmlinuz-6.1.0-cloud": b"kernel", "./bin/busybox": b"busybox"}
    files |= {f"{HERE}/other.ko": b"unwanted", "./etc/shadow": b"unwanted"}
    with tarfile.open(tar, "w") as archive:
        for name, data in files.items():
            if Path(name).name not in without:
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))


class Recipe(DebianRecipe):
    """Brings packages without a registry; all other steps are real."""

    fails = False

    def extract(self, suite: str, names: Sequence[str], tar: Path, scratch: Scratch) -> None:
        packages(tar)
        if self.fails:
            raise KeyboardInterrupt


@pytest.fixture
def told() -> list[BakeProgress]:
    return []


@pytest.fixture
def store(tmp_path: Path) -> TemplateStore:
    return TemplateStore(tmp_path / "state")


@pytest.fixture
def recipe() -> Recipe:
    return Recipe(HostConfig(), Certificates({}))


@pytest.fixture
def template(store: TemplateStore) -> Template:
    path = store.root / "d1"
    rootfs = path / "rootfs"
    (rootfs / "etc").mkdir(parents=True)
    (rootfs / "etc/hosts").write_text("127.0.0.1 localhost\n")
    (path / "template.json").write_text("{}")
    return Template("default", "d1", path)


class TestKernel:
    @pytest.mark.parametrize("suffix", [".ko", ".ko.xz"])
    def test_only_what_is_needed_is_taken_and_unpacked(self, tmp_path: Path, suffix: str) -> None:
        packages(tmp_path / "tar", suffix=suffix)
        into = tmp_path / "into"
        into.mkdir()
        unpack_kernel(tmp_path / "tar", into)
        wanted = {"vmlinuz", "busybox", *(f"{name}.ko" for name in MODULES)}
        assert {path.name for path in into.iterdir()} == wanted
        assert (into / "virtio_blk.ko").read_bytes() == b"virtio_blk"

    def test_a_missing_module_is_named(self, tmp_path: Path) -> None:
        packages(tmp_path / "tar", without=["virtio_blk.ko"])
        (tmp_path / "into").mkdir()
        with pytest.raises(BakeFailed, match=r"hold no virtio_blk\.ko"):
            unpack_kernel(tmp_path / "tar", tmp_path / "into")

    def test_it_is_made_once_and_tells_its_seconds(
        self, store: TemplateStore, recipe: Recipe, told: list[BakeProgress]
    ) -> None:
        with store.lock() as lock_fd:
            baking = Baking(recipe, told.append, lock_fd)
            one, two = (ensure_kernel(store, "bookworm", baking) for _ in range(2))
        assert one == two
        assert one.modules().keys() == set(MODULES)
        assert [step.seconds is None for step in told] == [True, False]

    def test_an_interrupted_one_leaves_nothing(self, store: TemplateStore, recipe: Recipe) -> None:
        Recipe.fails = True
        try:
            with store.lock() as lock_fd, pytest.raises(KeyboardInterrupt):
                ensure_kernel(store, "bookworm", Baking(recipe, lambda _: None, lock_fd))
        finally:
            Recipe.fails = False
        assert {path.name for path in store.root.iterdir()} <= {"layers", ".lock", "vm"}
        assert not list((store.root / "vm").glob("*"))

    def test_packages_are_unpacked_and_never_installed(self) -> None:
        argv = extract_argv("bookworm", ["linux-image-cloud-amd64"], Path("/t.tar"), None)
        assert "--variant=extract" in argv
        assert argv[-2:] == ["bookworm", "/t.tar"]


class TestDisk:
    def test_it_holds_the_tree_as_roots(
        self, store: TemplateStore, recipe: Recipe, template: Template
    ) -> None:
        with store.lock() as lock_fd:
            disk = ensure_disk(store, template, Baking(recipe, lambda _: None, lock_fd))
        assert disk.image.stat().st_size == disk.size
        assert disk.image.stat().st_blocks * 512 < disk.size  # sparse
        shown = ask(disk.image, "stat /etc/hosts")
        assert "User:     0   Group:     0" in shown

    def test_a_tool_that_is_missing_is_named_with_its_package(
        self,
        store: TemplateStore,
        recipe: Recipe,
        template: Template,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(layers, "HOST_TOOLS", {"mkfs.no-such": "e2fsprogs"})
        with store.lock() as lock_fd, pytest.raises(BakeFailed, match="apt-get install e2fsprogs"):
            ensure_disk(store, template, Baking(recipe, lambda _: None, lock_fd))

    def test_it_goes_with_its_template(
        self, store: TemplateStore, recipe: Recipe, template: Template
    ) -> None:
        with store.lock() as lock_fd:
            disk = ensure_disk(store, template, Baking(recipe, lambda _: None, lock_fd))
            (template.path / "template.json").unlink()
            store.collect_vm_layers()
        assert not disk.image.exists()


def ask(image: Path, request: str) -> str:
    done = subprocess.run(
        ["debugfs", "-R", request, str(image)],
        env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert os.fsdecode(done.stdout)
    return done.stdout.decode()
