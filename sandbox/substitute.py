"""Answers a program's own open(2) of some paths with descriptors of ours. Standard library only.

QEMU before 8.2 opens its memory file for writing even where it only maps a private copy, so that a
guest that has taken QEMU over could change the template of every later machine. Here the kernel
asks us instead (seccomp_unotify(2)): for a path that we substitute, the program gets the descriptor
that we hold, read-only if it is, whatever it asked for; every other open goes on as if nothing had
been. It works for any version, without privileges, and the path need not exist for the program:
that is also how QEMU gets /dev/kvm where it may not open it.

Only an `openat` that asks for reading *and* writing is looked at. The descriptor that is given may
still be less than that.

Requires Linux 5.9 (SECCOMP_IOCTL_NOTIF_ADDFD).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PATH = 4096

# <linux/seccomp.h>, <linux/audit.h>, <linux/filter.h>
_SYSCALLS = {"x86_64": (0xC000003E, 317, 257), "aarch64": (0xC00000B7, 277, 56)}
_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_LOAD, _AND, _EQUALS, _RETURN = 0x20, 0x54, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FLAGS_AT = 0, 4, 32
_RECEIVE, _SEND, _ADD_FD = 0xC0502100, 0xC0182101, 0x40182103
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_ADDITION = struct.Struct("=QIIII")
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


class Substitutes:
    """The names and descriptors of one program. Made before it is forked, used on both sides."""

    def __init__(self, descriptors: Mapping[str, int]) -> None:
        self.fd = -1  # readable when an open waits for its answer
        self._descriptors = descriptors
        self._ours, self._theirs = socket.socketpair()

    def install(self) -> None:
        """In the child: put the filter on this process and all that it becomes."""
        socket.send_fds(self._theirs, [b"x"], [_install_filter()])

    def receive(self) -> None:
        """In the parent: wait for the child's filter. Nothing comes when the child ended."""
        self._theirs.close()
        _, received, _, _ = socket.recv_fds(self._ours, 1, 1)
        self.fd = received[0] if received else -1
        self._ours.close()

    def answer(self) -> None:
        """Answer one open that waits. A program that ended meanwhile is no error."""
        request = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.fd, _RECEIVE, request)
            number, pid, _, _, _, _, _, address, *_ = _NOTIFICATION.unpack(request)
            self._respond(number, self._descriptors.get(_read_text(pid, address)))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINTR):
                raise

    def _respond(self, number: int, given: int | None) -> None:
        value, flags = 0, _CONTINUE
        if given is not None:
            addition = bytearray(_ADDITION.pack(number, 0, given, 0, 0))
            value, flags = fcntl.ioctl(self.fd, _ADD_FD, addition), 0
        fcntl.ioctl(self.fd, _SEND, bytearray(_RESPONSE.pack(number, value, 0, flags)))


def _install_filter() -> int:
    architecture, seccomp, openat = _SYSCALLS[os.uname().machine]
    code = filter_code(architecture, openat)
    program = _Program(len(code) // 8, code)
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _os_error("prctl(PR_SET_NO_NEW_PRIVS)")
    listener = _libc.syscall(seccomp, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        raise _os_error("seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)")
    return int(listener)


def filter_code(architecture: int, openat: int) -> bytes:
    """The filter in classic BPF: ask for an openat whose access mode is O_RDWR, allow the rest."""
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUALS, 0, 5, architecture),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_EQUALS, 0, 3, openat),
        (_LOAD, 0, 0, _FLAGS_AT),
        (_AND, 0, 0, os.O_ACCMODE),
        (_EQUALS, 1, 0, os.O_RDWR),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ASK),
    )
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _read_text(pid: int, address: int) -> str:
    """The text at an address of a process; "" when it cannot be read, which matches no path."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
            memory.seek(address)
            return os.fsdecode(memory.read(MAX_PATH).partition(b"\0")[0])
    except (OSError, OverflowError):
        return ""


def _os_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
