"""A tunnel at work: bytes both ways between a guest and one upstream, within limits.

Two threads, one for each direction. Nothing is buffered beyond one piece each way, so a side that
does not read holds the other one back.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass

from egress.guest import GuestConnection, GuestGone
from egress.hello import BadHello, RecordChecker
from egress.watchdog import Guard

CHUNK = 256 * 1024
# The deadline moves with the traffic, but not at every piece: each move takes a lock.
REFRESH_S = 1.0


@dataclass(frozen=True)
class TunnelLimits:
    """Seconds and bytes of one connection; `run_*` are the bytes of all of a run's together."""

    connect_s: float = 15.0
    hello_s: float = 15.0
    idle_s: float = 120.0
    total_s: float = 1800.0
    up_bytes: int = 64 * 1024 * 1024
    down_bytes: int = 2 * 1024**3
    run_up_bytes: int = 256 * 1024 * 1024
    run_down_bytes: int = 8 * 1024**3


class OverLimit(Exception):
    """A limit of bytes, or of form, that a guest or an upstream went beyond: a refusal."""


class Allowance:
    """What is left of a run's bytes, each way. Safe between threads."""

    def __init__(self, up_bytes: int, down_bytes: int) -> None:
        self._left = {"up": up_bytes, "down": down_bytes}
        self._lock = threading.Lock()

    def take(self, way: str, size: int) -> None:
        """Count `size` bytes. OverLimit when the run has none left."""
        with self._lock:
            self._left[way] -= size
            if self._left[way] < 0:
                raise OverLimit(f"the run's limit of bytes {way} is reached")


@dataclass
class Traffic:
    """Bytes of one connection so far."""

    up: int = 0
    down: int = 0


class Tunnel:
    """Carries bytes until either side ends, a limit is reached, or somebody ends it."""

    def __init__(
        self,
        guest: GuestConnection,
        upstream: socket.socket,
        guard: Guard,
        limits: TunnelLimits,
        allowance: Allowance,
    ) -> None:
        self._guest = guest
        self._upstream = upstream
        self._guard = guard
        self._limits = limits
        self._allowance = allowance
        self._records = RecordChecker()
        self._deadline = time.monotonic() + limits.total_s
        self._refreshed = 0.0
        self._over: OverLimit | None = None
        self.traffic = Traffic()

    def run(self, first: bytes) -> None:
        """Send `first` (the ClientHello), then carry both ways to the end. OverLimit.

        Ending the guest's side and the upstream's is the caller's.
        """
        self._upstream.settimeout(None)
        self._refresh()
        up = threading.Thread(target=self._carry_up, args=(first,), name="egress-up", daemon=True)
        up.start()
        try:
            self._carry_down()
        finally:
            # Wakes the other thread where it writes; where it reads, the guest's end wakes it.
            self.abort()
        if self._over is not None:
            raise self._over

    def abort(self) -> None:
        """End the upstream's side, from any thread."""
        with contextlib.suppress(OSError):
            self._upstream.shutdown(socket.SHUT_RDWR)

    def _carry_up(self, first: bytes) -> None:
        try:
            data = first
            while data:
                self._send_up(data)
                data = self._guest.receive()
            self._upstream.shutdown(socket.SHUT_WR)
        except OverLimit as over:
            self._over = over
            self.abort()
        except (OSError, GuestGone):
            self.abort()

    def _send_up(self, data: bytes) -> None:
        self.traffic.up += len(data)
        self._check("up", self.traffic.up, self._limits.up_bytes, len(data))
        try:
            self._records.feed(data)
        except BadHello as error:
            raise OverLimit(f"the tunnel carries something that is {error}") from None
        self._refresh()
        self._upstream.sendall(data)

    def _carry_down(self) -> None:
        while data := self._receive_down():
            self.traffic.down += len(data)
            self._check("down", self.traffic.down, self._limits.down_bytes, len(data))
            self._refresh()
            self._guest.write(data)

    def _receive_down(self) -> bytes:
        try:
            return self._upstream.recv(CHUNK)
        except OSError:
            return b""

    def _check(self, way: str, total: int, limit: int, size: int) -> None:
        if total > limit:
            raise OverLimit(f"the tunnel is over {limit} bytes {way}")
        self._allowance.take(way, size)

    def _refresh(self) -> None:
        """Let the connection live on: until it idles, and not beyond its whole time."""
        now = time.monotonic()
        if now - self._refreshed >= REFRESH_S:
            self._refreshed = now
            left = self._deadline - now
            idle = self._limits.idle_s
            self._guard.allow(min(left, idle), "idle" if idle < left else "its whole time")
