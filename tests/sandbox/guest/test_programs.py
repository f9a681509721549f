"""Starting a program: its descriptors, and the agent's that it is started by."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sandbox.guest.programs import start

TRUE = "/usr/bin/true"


@pytest.fixture
def low(tmp_path: Path) -> int:
    """A descriptor of the agent's, written to while a program starts."""
    return os.open(tmp_path / "low", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC)


def over(low: int) -> list[int]:
    """As many descriptors for a program that one of them takes this number."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    return [null, *(os.dup(null) for _ in range(low + 1))]


def write(fd: int) -> None:
    os.write(fd, b"joined")


def close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def test_what_is_done_last_finds_the_agents_descriptors(tmp_path: Path, low: int) -> None:
    fds = over(low)
    pid = start(TRUE, ["true"], {}, fds, lambda: write(low))
    assert os.waitpid(pid, 0)[1] == 0
    assert (tmp_path / "low").read_bytes() == b"joined"
    close(low, *fds)


def test_why_it_could_not_start_is_told_whatever_its_descriptors_are(low: int) -> None:
    fds = over(low)
    close(low)  # so that the report's is one of those that are replaced
    with pytest.raises(FileNotFoundError):
        start("/nonexistent", ["x"], {}, fds, lambda: None)
    close(*fds)


def test_a_program_that_may_not_enter_is_not_started() -> None:
    def refuse() -> None:
        raise PermissionError(errno.EPERM, "no")

    fds = over(2)
    with pytest.raises(PermissionError):
        start(TRUE, ["true"], {}, fds, refuse)
    close(*fds)
