"""Real virtual machines, on the baked template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.provider import MachineSpec, Sandbox, Template
from sandbox.providers.qemu import QemuProvider
from sandbox.providers.qemu.machine import VirtualMachine
from tests.sandbox.baked import template

__all__ = ["template"]

MakeMachine = Callable[..., VirtualMachine]
MakeSpec = Callable[..., MachineSpec]


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[QemuProvider]:
    made = QemuProvider(tmp_path)
    yield made
    assert made.list() == [], "a test left a machine behind"
    checkpoints = tmp_path / "checkpoints"
    assert not checkpoints.exists() or not list(checkpoints.iterdir())


@pytest.fixture
def make_spec(template: Template) -> MakeSpec:
    def make(run_id: str = "run-1", **limits: object) -> MachineSpec:
        return MachineSpec(run_id=run_id, template=template, **limits)  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_machine(provider: QemuProvider, make_spec: MakeSpec) -> Iterator[MakeMachine]:
    """Make machines that are gone after the test."""
    machines: list[Sandbox] = []

    def make(**options: object) -> VirtualMachine:
        machine = provider.create(make_spec(**options), refuse)
        machines.append(machine)
        assert isinstance(machine, VirtualMachine)
        return machine

    yield make
    for machine in machines:
        machine.kill()


@pytest.fixture(scope="module")
def shared(template: Template, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One machine for tests that leave it as it was."""
    spec = MachineSpec(run_id="shared", template=template)
    machine = QemuProvider(tmp_path_factory.mktemp("shared")).create(spec, refuse)
    yield machine
    machine.kill()


def refuse(connection: object) -> None:
    connection.close()  # type: ignore[attr-defined]
