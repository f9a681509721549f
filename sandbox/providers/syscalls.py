"""The seccomp filter of machines that share the host's kernel: which sockets they may make.

A network namespace does not hold every address family: AF_VSOCK reaches the hypervisor from
inside one, and the rarer families are mostly a way to the kernel's rarer code. The guest has a use
for four; any other is answered EAFNOSUPPORT, as by a kernel without it. io_uring makes sockets
past such a filter, so it is answered ENOSYS, as by a kernel without it; programs then do without.
Calls of another architecture's numbers (32-bit programs) would go past it too and are not let in.

https://docs.kernel.org/userspace-api/seccomp_filter.html
https://github.com/torvalds/linux/blob/v6.1/include/uapi/linux/audit.h (architectures)
"""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass

from sandbox.provider import ProviderFailed

__all__ = ["FAMILIES", "socket_filter"]

FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)

_IO_URING = (425, 426, 427)  # setup, enter, register: the same numbers everywhere
_X32 = 0x40000000  # x86-64 knows each call by a second number, for 32-bit pointers
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in `struct seccomp_data`
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF's codes


@dataclass(frozen=True)
class _Numbers:
    architecture: int
    socket: int
    socketpair: int


_KNOWN = {
    "x86_64": _Numbers(0xC000003E, 41, 53),
    "aarch64": _Numbers(0xC00000B7, 198, 199),
}


def socket_filter(machine: str) -> bytes:
    """The filter as a BPF program (pure). `machine` as `uname -m` says it.

    ProviderFailed for an architecture whose numbers are not known here.
    """
    if machine not in _KNOWN:
        raise ProviderFailed(f"no seccomp filter is known for {machine}: use another provider")
    numbers = _KNOWN[machine]
    return b"".join(
        (
            _load(_ARCHITECTURE),
            *_unless(numbers.architecture, _KILL_PROCESS),
            _load(_NUMBER),
            *_from(_X32, _ERRNO | errno.ENOSYS),
            *(part for number in _IO_URING for part in _when(number, _ERRNO | errno.ENOSYS)),
            _step(_JUMP_EQUAL, numbers.socket, if_so=2),
            _step(_JUMP_EQUAL, numbers.socketpair, if_so=1),
            _return(_ALLOW),
            _load(_FIRST_ARGUMENT),  # its lower half; the kernel reads no more of a family
            *(part for family in FAMILIES for part in _when(family, _ALLOW)),
            _return(_ERRNO | errno.EAFNOSUPPORT),
        )
    )


def _load(offset: int) -> bytes:
    return _step(_LOAD, offset)


def _return(verdict: int) -> bytes:
    return _step(_RETURN, verdict)


def _when(value: int, verdict: int) -> tuple[bytes, bytes]:
    return _step(_JUMP_EQUAL, value, if_not=1), _return(verdict)


def _unless(value: int, verdict: int) -> tuple[bytes, bytes]:
    return _step(_JUMP_EQUAL, value, if_so=1), _return(verdict)


def _from(value: int, verdict: int) -> tuple[bytes, bytes]:
    return _step(_JUMP_AT_LEAST, value, if_not=1), _return(verdict)


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    """One instruction: `if_so` and `if_not` are how many of the next ones are left out."""
    return struct.pack("<HBBI", code, if_so, if_not, value)
