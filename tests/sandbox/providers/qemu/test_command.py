"""QEMU's command line and bubblewrap's, as tables."""

from __future__ import annotations

import itertools
import re

import pytest

from sandbox.providers.qemu.bake import processors
from sandbox.providers.qemu.command import (
    KVM,
    TCG,
    Descriptors,
    Shape,
    confined_argv,
    kernel_command,
    nested,
    node_options,
    qemu_argv,
)

FILES = Descriptors(base=10, layers=(11, 12), overlay=(13, 14), qmp=15)


def argv(accel: str = TCG, *, private: bool = True, kernel: str | None = None) -> list[str]:
    return qemu_argv("/q", accel, Shape(512, 2), FILES, private=private, kernel=kernel)


def values(flags: list[str], name: str) -> list[str]:
    return [value for flag, value in itertools.pairwise(flags) if flag == name]


DEVICES = [
    "virtio-blk-device,drive=disk0,werror=report,rerror=report",
    "virtio-rng-device",
    "virtio-serial-device",
    "virtserialport,chardev=channel,name=drydock",
]


class TestMachine:
    def test_these_are_all_of_its_devices(self) -> None:
        assert values(argv(), "-device") == DEVICES

    def test_nothing_comes_by_default(self) -> None:
        assert {"-nodefaults", "-no-user-config", "-no-reboot"} <= set(argv())
        assert not {"-netdev", "-nic", "-net", "-fsdev", "-virtfs", "-gdb"} & set(argv())

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            (
                "-sandbox",
                "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
            ),
            ("-display", "none"),
            ("-smp", "2"),
            ("-m", "512M"),
            ("-mon", "chardev=qmp,mode=control"),
        ],
    )
    def test_it_is_confined_and_of_the_asked_shape(self, name: str, value: str) -> None:
        assert values(argv(), name) == [value]

    @pytest.mark.parametrize(
        ("accel", "option", "cpu"),
        [(TCG, "tcg,thread=multi,tb-size=256", "max"), (KVM, "kvm", "host")],
    )
    def test_acceleration_decides_the_processor(self, accel: str, option: str, cpu: str) -> None:
        assert values(argv(accel), "-accel") == [option]
        assert values(argv(accel), "-cpu") == [cpu]

    def test_no_path_of_the_host_but_the_program_is_named(self) -> None:
        named = re.findall(r"(?<![\w/])/[\w/.-]+", " ".join(argv()[1:]))
        assert {path for path in named if not path.startswith("/dev/fdset/")} == {"/memory"}


class TestBeginning:
    def test_a_clone_maps_memory_privately_and_waits_for_its_state(self) -> None:
        [memory] = values(argv(), "-object")
        assert memory.endswith("size=512M,mem-path=/memory,share=off")
        assert values(argv(), "-incoming") == ["defer"]
        assert "-S" in argv()
        assert "-kernel" not in argv()

    def test_a_boot_shares_memory_with_its_file(self) -> None:
        flags = argv(private=False, kernel="quiet")
        [memory] = values(flags, "-object")
        assert memory.endswith("share=on")
        assert values(flags, "-append") == ["quiet"]
        assert not {"-S", "-incoming"} & set(flags)

    def test_an_emulated_kernel_is_told_the_hosts_clock_rate(self) -> None:
        told = kernel_command(TCG, 2_600_000)
        assert "tsc=reliable tsc_early_khz=2600000 lpj=10400000" in told
        assert "tsc" not in kernel_command(KVM, 0)


class TestDisk:
    def test_each_image_lies_on_the_one_below(self) -> None:
        nodes = [dict(o.split("=", 1) for o in v.split(",")) for v in values(argv(), "-blockdev")]
        chain = [(n["node-name"], n["driver"], n["read-only"], n.get("backing")) for n in nodes]
        assert chain == [
            ("base", "raw", "on", None),
            ("layer0", "qcow2", "on", "base"),
            ("layer1", "qcow2", "on", "layer0"),
            ("disk0", "qcow2", "off", "layer1"),
        ]

    def test_only_the_top_is_given_for_writing_and_again_for_reading(self) -> None:
        assert values(argv(), "-add-fd") == [
            "fd=10,set=10",
            "fd=11,set=11",
            "fd=12,set=12",
            "fd=13,set=13",
            "fd=14,set=13",
        ]

    def test_options_become_the_json_of_qmp(self) -> None:
        tree = nested(node_options("disk1", "qcow2", 3, read_only=False))
        assert tree["node-name"] == "disk1"
        assert tree["file"]["filename"] == "/dev/fdset/3"
        assert tree["file"]["cache"] == {"no-flush": True}


class TestConfinement:
    def test_only_usr_is_there_read_only_and_nothing_can_be_written(self) -> None:
        flags = confined_argv(
            "/b", ["/q", "-S"], is_root=False, links={"/lib": "usr/lib"}, data={"/kernel": 12}
        )
        assert values(flags, "--ro-bind") == ["/usr"]
        assert values(flags, "--remount-ro") == ["/"]
        assert not {"--bind", "--tmpfs", "--proc", "--dev"} & set(flags)
        assert flags[-2:] == ["/q", "-S"]

    @pytest.mark.parametrize("is_root", [True, False])
    def test_every_namespace_is_new_and_no_capability_is_left(self, is_root: bool) -> None:
        flags = confined_argv("/b", [], is_root=is_root, links={}, data={})
        for name in ("ipc", "pid", "net", "uts", "cgroup-try"):
            assert f"--unshare-{name}" in flags
        assert ("--unshare-user" in flags) is not is_root
        assert values(flags, "--cap-drop") == ["ALL"]
        assert "--share-net" not in flags


@pytest.mark.parametrize(
    ("wanted", "accel", "of_host", "given"),
    [(2, TCG, 2, 1), (2, TCG, 1, 1), (2, TCG, 8, 2), (8, TCG, 8, 4), (2, KVM, 2, 2)],
)
def test_an_emulated_machine_leaves_the_host_a_processor(
    wanted: int, accel: str, of_host: int, given: int
) -> None:
    assert processors(wanted, accel, of_host) == given
