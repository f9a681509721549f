"""A machine that is being made beside other work."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from sandbox.provider import ProviderFailed, Sandbox
from workers.opening import Opening


class _Machine:
    def __init__(self) -> None:
        self.kills = 0

    def kill(self) -> None:
        self.kills += 1


def test_who_waits_gets_the_machine_and_closing_kills_it() -> None:
    machine = _Machine()
    opening = Opening(lambda: cast(Sandbox, machine))
    assert opening.wait() is cast(Sandbox, machine)
    opening.close()
    assert machine.kills == 1


def test_its_error_is_raised_to_who_waits_and_not_to_who_closes() -> None:
    def create() -> Sandbox:
        raise ProviderFailed("no room")

    opening = Opening(create)
    with pytest.raises(ProviderFailed, match="no room"):
        opening.wait()
    opening.close()


def test_closing_early_waits_for_the_machine_and_kills_it() -> None:
    machine, go_on = _Machine(), threading.Event()

    def create() -> Sandbox:
        go_on.wait(10)
        return cast(Sandbox, machine)

    opening = Opening(create)
    closer = threading.Thread(target=opening.close)
    closer.start()
    assert machine.kills == 0, "nobody has heard of it yet"
    go_on.set()
    closer.join(10)
    assert machine.kills == 1
