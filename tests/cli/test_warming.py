"""Who prepares virtual machines, and with what; QEMU itself is tried elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import Settings
from cli import warming
from sandbox.provider import MachineSpec, Template
from sandbox.providers.qemu import QemuProvider
from sandbox.providers.qemu.acceleration import Verdict
from sandbox.template.bake import BakeProgress, Progress


@pytest.mark.parametrize(("provider", "expected"), [("qemu", True), ("fake", False)])
def test_only_virtual_machines_are_prepared(tmp_path: Path, provider: str, expected: bool) -> None:
    assert warming.is_virtual(Settings(state_dir=tmp_path, provider=provider)) is expected


def test_without_a_model_the_usual_machine_is_prepared_and_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[MachineSpec] = []

    class Qemu(QemuProvider):
        def prepare(self, spec: MachineSpec) -> Verdict:
            asked.append(spec)
            self._progress(BakeProgress("kernel"))
            return Verdict("tcg", "emulated")

    monkeypatch.setattr(warming, "QemuProvider", Qemu)
    told: list[str] = []
    progress: Progress = lambda step: told.append(str(step))  # noqa: E731
    template = Template("mine", "0" * 64, tmp_path)
    (tmp_path / "prices.json").write_text("{}")
    assert warming.prepare_machines(Settings(state_dir=tmp_path), progress, template) == "emulated"
    assert told == ["kernel …"]
    assert asked == [MachineSpec("bake", template)]


def test_what_goes_wrong_in_another_installation_is_told_line_by_line(tmp_path: Path) -> None:
    told: list[str] = []
    environment = {"PATH": "/usr/bin:/bin", "DRYDOCK_STATE_DIR": str(tmp_path)}
    assert not warming.prepare_for(environment, "no-such-template", told.append)
    assert any("no-such-template" in line for line in told)
