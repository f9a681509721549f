"""What providers decide, as values: command lines, the OCI configuration, the registry."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from sandbox.provider import WORK_DIR, MachineSpec, Probe, ProviderFailed, Template
from sandbox.providers import NAMES, bubblewrap, fake, gvisor, make_provider
from sandbox.providers.common import CAPABILITIES, find_program, memory_ceiling, scratch_mounts
from sandbox.providers.qemu import QemuProvider
from sandbox.providers.qemu.acceleration import Verdict

SPEC = MachineSpec("run-1", Template("default", "d" * 64, Path("/t")), memory_mib=100, disk_mib=50)


def pairs(argv: list[str]) -> set[tuple[str, str]]:
    return set(itertools.pairwise(argv))


class TestRegistry:
    def test_every_name_but_auto_makes_its_provider(self, tmp_path: Path) -> None:
        for name in NAMES[1:]:
            assert make_provider(name, tmp_path).name == name

    def test_an_unknown_name_is_refused_with_the_known_ones(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="gvisor"):
            make_provider("docker", tmp_path)

    def test_auto_takes_gvisor_where_it_works(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gvisor.GvisorProvider, "probe", lambda _: Probe(True, "works"))
        assert make_provider("auto", tmp_path).name == "gvisor"

    def test_auto_never_falls_back_to_what_shares_the_kernel(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gvisor.GvisorProvider, "probe", lambda _: Probe(False, "no ptrace"))
        monkeypatch.setattr(QemuProvider, "probe", lambda _: Probe(False, "no qemu"))
        with pytest.raises(ProviderFailed, match="gvisor: no ptrace; qemu: no qemu"):
            make_provider("auto", tmp_path)

    @pytest.mark.parametrize(
        ("accel", "gvisor_works", "chosen"),
        [("kvm", True, "qemu"), ("tcg", True, "gvisor"), ("tcg", False, "qemu")],
    )
    def test_auto_takes_the_strongest_that_works(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        accel: str,
        gvisor_works: bool,
        chosen: str,
    ) -> None:
        monkeypatch.setattr(gvisor.GvisorProvider, "probe", lambda _: Probe(gvisor_works, ""))
        monkeypatch.setattr(QemuProvider, "probe", lambda _: Probe(True, ""))
        monkeypatch.setattr(QemuProvider, "verdict", lambda _: Verdict(accel, ""))
        assert make_provider("auto", tmp_path).name == chosen

    def test_a_missing_program_is_named_with_its_package(self) -> None:
        with pytest.raises(ProviderFailed, match="apt-get install some-package"):
            find_program("no-such-program", "some-package")

    def test_disk_counts_as_memory(self) -> None:
        assert memory_ceiling(SPEC) == 150 * 1024 * 1024


class TestBubblewrap:
    def test_every_namespace_is_new(self) -> None:
        rootless = bubblewrap.arguments(SPEC, (), is_root=False)
        for name in ("user", "ipc", "pid", "net", "uts", "cgroup-try"):
            assert f"--unshare-{name}" in rootless
        as_root = bubblewrap.arguments(SPEC, (), is_root=True)
        assert set(rootless) - set(as_root) >= {"--unshare-user"}
        assert "--share-net" not in as_root

    @pytest.mark.parametrize("is_root", [True, False])
    def test_it_ends_with_its_parent_and_has_no_terminal(self, is_root: bool) -> None:
        argv = bubblewrap.arguments(SPEC, (), is_root)
        assert {"--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"} <= set(argv)

    def test_root_keeps_only_the_named_capabilities(self) -> None:
        argv = bubblewrap.arguments(SPEC, (), is_root=True)
        assert ("--cap-drop", "ALL") in pairs(argv)
        kept = {name for flag, name in pairs(argv) if flag == "--cap-add"}
        assert kept == {f"CAP_{name}" for name in CAPABILITIES}

    def test_no_path_of_the_host_is_on_its_command_line(self) -> None:
        argv = bubblewrap.arguments(SPEC, ("agent.py", "protocol.py"), is_root=True)
        assert ("--ro-bind", "/proc/self/fd/10") in pairs(argv)
        assert ("--seccomp", "11") in pairs(argv)
        assert ("--ro-bind-data", "12") in pairs(argv)
        scratch = scratch_mounts(SPEC)
        assert not [item for item in argv if item.startswith("/t") and item not in scratch]

    def test_whatever_is_writable_has_a_size(self) -> None:
        argv = bubblewrap.arguments(SPEC, (), is_root=True)
        for index, item in enumerate(argv):
            if item == "--tmpfs":
                assert argv[index - 2] == "--size"
        assert "--bind" not in argv
        assert "--dev-bind" not in argv


class TestGvisor:
    def test_the_configuration_is_exactly_this(self) -> None:
        config = gvisor.oci_config(SPEC, Path("/t/rootfs"), {"/run/drydock": "/s/m/agent"})
        disk, small = 50 * 1024 * 1024, 64 * 1024 * 1024
        capabilities = [f"CAP_{name}" for name in CAPABILITIES]
        assert config["root"] == {"path": "/t/rootfs", "readonly": False}
        assert config["hostname"] == "drydock"
        assert config["linux"]["namespaces"] == [
            {"type": name} for name in ("pid", "network", "ipc", "uts", "mount")
        ]
        process = config["process"]
        assert process["args"][-2:] == ["3128", "two"]
        assert process["env"] == ["PATH=/usr/bin:/bin"]
        assert process["noNewPrivileges"] is True
        assert process["terminal"] is False
        for kind in ("bounding", "effective", "permitted"):
            assert process["capabilities"][kind] == capabilities
        for kind in ("inheritable", "ambient"):
            assert process["capabilities"][kind] == []
        mounts = {m["destination"]: (m["type"], m.get("options", [])[:2]) for m in config["mounts"]}
        assert mounts == {
            "/proc": ("proc", []),
            "/dev": ("tmpfs", []),
            WORK_DIR: ("tmpfs", ["mode=0755", f"size={disk}"]),
            "/tmp": ("tmpfs", ["mode=1777", f"size={disk}"]),  # noqa: S108
            "/var/tmp": ("tmpfs", ["mode=1777", f"size={disk}"]),  # noqa: S108
            "/home": ("tmpfs", ["mode=0755", f"size={disk}"]),
            "/root": ("tmpfs", ["mode=0700", f"size={small}"]),
            "/run": ("tmpfs", ["mode=0755", f"size={small}"]),
            "/run/drydock": ("bind", ["ro"]),
        }

    def test_there_is_no_network_and_no_write_to_the_template(self) -> None:
        argv = gvisor.arguments("m-1", Path("/s/m-1"))
        assert {"--network=none", "--overlay2=root:memory", "--ignore-cgroups"} <= set(argv)
        assert argv[-3:] == ["run", "--bundle=/s/m-1", "m-1"]


class TestFake:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (WORK_DIR, f"/d{WORK_DIR}"),
            (f"{WORK_DIR}/a/b", f"/d{WORK_DIR}/a/b"),
            (f"--dir={WORK_DIR}/a", f"--dir=/d{WORK_DIR}/a"),
            (f"{WORK_DIR}/a:{WORK_DIR}/b", f"/d{WORK_DIR}/a:/d{WORK_DIR}/b"),
            ("cd /work && ls '/home/work'", "cd /d/work && ls '/d/home/work'"),
            ("/home/work/.config", "/d/home/work/.config"),
            ("/working", "/working"),
            ("/srv/work", "/srv/work"),
            ("./work", "./work"),
            ("/work.txt", "/work.txt"),
            ("http://127.0.0.1:3128/model/x", "http://127.0.0.1:999/model/x"),
            ("localhost:31280", "localhost:31280"),
        ],
    )
    def test_the_guests_names_become_the_hosts(self, text: str, expected: str) -> None:
        assert fake.translate(text, Path("/d"), "999") == expected
