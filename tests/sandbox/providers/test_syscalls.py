"""The seccomp filter, run by a small interpreter; the contract suite tries it on a kernel."""

from __future__ import annotations

import errno
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.provider import ProviderFailed
from sandbox.providers.syscalls import FAMILIES, socket_filter

ALLOW, KILL = 0x7FFF0000, 0x80000000
UNSUPPORTED = 0x00050000 | errno.EAFNOSUPPORT
NO_SUCH_CALL = 0x00050000 | errno.ENOSYS
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET = {"x86_64": 41, "aarch64": 198}
SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
IO_URING_SETUP = 425
I386 = 0x40000003

machines = pytest.mark.parametrize("machine", ARCHITECTURES)


def judge(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Run the filter on one call: `struct seccomp_data` in, a verdict out."""
    told = ARCHITECTURES[machine] if architecture is None else architecture
    padded = (*arguments, *[0] * 6)[:6]
    return run(socket_filter(machine), struct.pack("<IIQ6Q", number, told, 0, *padded))


def run(program: bytes, data: bytes) -> int:
    """Interpret the four instructions that the filter is made of; anything else is an error."""
    steps = list(struct.iter_unpack("<HBBI", program))
    at = accumulator = 0
    while True:
        code, if_so, if_not, value = steps[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == 0x15:
            at += if_so if accumulator == value else if_not
        elif code == 0x35:
            at += if_so if accumulator >= value else if_not
        else:
            assert code == 0x06
            return int(value)


@machines
@pytest.mark.parametrize("call", [SOCKET, SOCKETPAIR])
@pytest.mark.parametrize("family", range(64))
def test_only_four_families_of_sockets_can_be_had(
    machine: str, call: dict[str, int], family: int
) -> None:
    told = ALLOW if family in FAMILIES else UNSUPPORTED
    assert judge(machine, call[machine], family, 1, 0) == told


@machines
def test_a_family_is_judged_by_the_half_that_the_kernel_reads(machine: str) -> None:
    upper = 7 << 32
    assert judge(machine, SOCKET[machine], upper | socket.AF_INET) == ALLOW
    assert judge(machine, SOCKET[machine], upper | socket.AF_VSOCK) == UNSUPPORTED


@machines
def test_io_uring_which_would_go_past_it_is_not_there(machine: str) -> None:
    for number in range(IO_URING_SETUP, IO_URING_SETUP + 3):
        assert judge(machine, number) == NO_SUCH_CALL


@machines
def test_a_call_by_the_numbers_of_another_architecture_is_the_last(machine: str) -> None:
    assert judge(machine, 102, architecture=I386) == KILL
    assert judge(machine, SOCKET[machine], socket.AF_UNIX, architecture=I386) == KILL


def test_the_second_numbers_of_x86_64_are_no_way_round() -> None:
    assert judge("x86_64", 0x40000000 | SOCKET["x86_64"], socket.AF_VSOCK) == NO_SUCH_CALL


@machines
@given(number=st.integers(0, 0x3FFFFFFF), first=st.integers(0, 2**64 - 1))
def test_every_other_call_is_allowed(machine: str, number: int, first: int) -> None:
    special = {SOCKET[machine], SOCKETPAIR[machine], *range(425, 428)}
    if number not in special:
        assert judge(machine, number, first) == ALLOW


def test_an_architecture_without_known_numbers_is_refused_by_name() -> None:
    with pytest.raises(ProviderFailed, match="riscv64"):
        socket_filter("riscv64")
