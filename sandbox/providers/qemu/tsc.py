"""The rate of this host's time-stamp counter, which QEMU shows to an emulated guest as it is.

Measured, because nothing that every kernel has says it: /proc/cpuinfo gives the current clock, and
the kernel's own figure is in its log. Ten bytes of machine code read the counter.
"""

from __future__ import annotations

import ctypes
import mmap
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret
_READ_TSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
MEASURED_S = 0.25
_TRIES = 5


def measure_tsc_khz(seconds: float = MEASURED_S) -> int:
    """Ticks a millisecond, to about 1 in 10^5. x86-64 only."""
    access = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    with mmap.mmap(-1, mmap.PAGESIZE, prot=access) as page:
        page.write(_READ_TSC)
        anchor = ctypes.c_char.from_buffer(page)
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(anchor))
        began = _read_both(read)
        time.sleep(seconds)
        ended = _read_both(read)
        del anchor, read
    return round((ended[0] - began[0]) * 1_000_000 / (ended[1] - began[1]))


def _read_both(read: ctypes._CFunctionType) -> tuple[int, int]:
    """Counter and clock of the same moment: of several tries the one with the least in between."""
    tries = []
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        ticks = read()
        after = time.monotonic_ns()
        tries.append((after - before, ticks, before))
    _, ticks, at = min(tries)
    return ticks, at
