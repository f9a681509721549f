"""Which opens are answered with a descriptor of ours, on a real child."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.substitute import Substitutes, filter_code

NAME = "/no/such/path/memory"


def run_child(substitutes: Substitutes, act: Callable[[], int]) -> int:
    """Fork, filter, act; answer its opens until it ends; its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            substitutes.install()
            code = act()
        finally:
            os._exit(code)
    substitutes.receive()
    ended = os.pidfd_open(pid)
    poll = select.poll()
    for fd in (ended, substitutes.fd):
        poll.register(fd, select.POLLIN)
    while ended not in (ready := [fd for fd, _ in poll.poll(5000)]):
        assert ready, "the child hangs"
        substitutes.answer()
    os.close(ended)
    os.close(substitutes.fd)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "template"
    path.write_bytes(b"the template's")
    return path


def test_a_program_gets_what_we_hold_and_cannot_write_to_it(template: Path) -> None:
    held = os.open(template, os.O_RDONLY)

    def act() -> int:
        fd = os.open(NAME, os.O_RDWR)
        if os.read(fd, 100) != b"the template's":
            return 1
        try:
            os.pwrite(fd, b"changed", 0)
        except OSError:
            return 0
        return 2

    assert run_child(Substitutes({NAME: held}), act) == 0
    assert template.read_bytes() == b"the template's"
    os.close(held)


def test_every_other_open_goes_on_as_before(template: Path, tmp_path: Path) -> None:
    held = os.open(template, os.O_RDONLY)

    def act() -> int:
        own = os.open(tmp_path / "own", os.O_RDWR | os.O_CREAT)
        os.write(own, b"mine")
        try:
            os.open(NAME, os.O_RDONLY)
        except FileNotFoundError:
            return 0
        return 1

    assert run_child(Substitutes({NAME: held}), act) == 0
    assert (tmp_path / "own").read_bytes() == b"mine"
    os.close(held)


def test_a_child_that_ends_before_its_filter_leaves_none() -> None:
    substitutes = Substitutes({})
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    substitutes.receive()
    assert substitutes.fd == -1
    os.waitpid(pid, 0)


def test_the_filter_is_whole_steps_and_ends_by_returning() -> None:
    code = filter_code(0xC000003E, 257)
    assert len(code) % 8 == 0
    assert code[-8:-6] == b"\x06\x00"
