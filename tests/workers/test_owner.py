from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from workers.owner import is_dead, this_owner


def test_this_process_lives() -> None:
    assert not is_dead(this_owner())
    assert this_owner() == this_owner()


def test_a_process_that_has_ended_is_dead() -> None:
    code = "from workers.owner import this_owner; print(this_owner())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"]},
        cwd=os.getcwd(),  # noqa: PTH109
        capture_output=True,
        text=True,
        check=True,
    )
    assert is_dead(done.stdout.strip())


def test_a_pid_that_the_kernel_gave_to_somebody_else_is_not_the_owner() -> None:
    host, boot, pid, start = this_owner().split("/")
    assert is_dead(f"{host}/{boot}/{pid}/{int(start) - 1}")


def test_what_ran_before_the_host_was_started_again_is_dead() -> None:
    host, _, pid, start = this_owner().split("/")
    assert is_dead(f"{host}/00000000/{pid}/{start}")


@pytest.mark.parametrize("owner", ["elsewhere/1/1/1", "", "w", "a/b", f"{socket.gethostname()}/x"])
def test_of_an_owner_elsewhere_nothing_is_known(owner: str) -> None:
    assert not is_dead(owner)
