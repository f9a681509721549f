"""Real machines for the contract suite: one that tests share and leave as it was, or fresh."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sandbox.machine import Machine
from sandbox.provider import Duplex, EgressHandler, MachineSpec, Provider, Template
from sandbox.providers import make_provider
from tests.sandbox.baked import template

__all__ = ["template"]

MakeMachine = Callable[..., Machine]


@pytest.fixture(
    scope="session",
    params=[
        "fake",
        pytest.param("bubblewrap", marks=pytest.mark.machine),
        pytest.param("gvisor", marks=pytest.mark.machine),
        pytest.param("qemu", marks=pytest.mark.machine),
    ],
)
def provider(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Provider]:
    made = make_provider(request.param, tmp_path_factory.mktemp("state"))
    yield made
    assert made.list() == [], "a test left a machine behind"


@pytest.fixture(scope="session")
def isolating(provider: Provider) -> Provider:
    """For tests of what only a real machine can promise."""
    if provider.name == "fake":
        pytest.skip("fake isolates nothing")
    return provider


@pytest.fixture
def make_machine(provider: Provider, template: Template) -> Iterator[MakeMachine]:
    """Make machines that are gone after the test."""
    machines: list[Machine] = []

    def make(egress: EgressHandler = refuse, run_id: str = "run-1", **limits: float) -> Machine:
        spec = MachineSpec(run_id=run_id, template=template, **limits)
        machine = provider.create(spec, egress)
        machines.append(machine)
        return machine

    yield make
    for machine in machines:
        machine.kill()


@pytest.fixture(scope="session")
def shared(provider: Provider, template: Template) -> Iterator[Machine]:
    machine = provider.create(MachineSpec(run_id="shared", template=template), echo)
    yield machine
    machine.kill()


def refuse(connection: Duplex) -> None:
    connection.close()


def echo(connection: Duplex) -> None:
    """Read to the end, then answer with all of it in capitals: needs the half-close both ways."""
    received = b""
    while piece := connection.recv(4096):
        received += piece
    connection.sendall(received.upper())
    connection.close()
