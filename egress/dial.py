"""From a granted host to a connection: resolved once, judged, and connected to what was judged.

The name is looked up on the host, one time for each connection. What the decision saw is what is
connected to, so a name that changes its answer in between gains nothing.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence

from egress.policy import Grant, decide_addresses
from egress.upstream import UpstreamFailed
from egress.vendors import CallError

# Host and port → addresses as text, in the order to try. OSError when the name is not known.
Resolve = Callable[[str, int], Sequence[str]]


class AddressRefused(Exception):
    """The host's name led to an address that nothing may be sent to."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def system_resolve(host: str, port: int) -> list[str]:
    """Ask the host's own resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))


def pin(grant: Grant, host: str, port: int, resolve: Resolve, timeout_s: float) -> tuple[str, ...]:
    """Resolve a granted host and judge the answer. AddressRefused, UpstreamFailed."""
    addresses = _resolve_in_time(host, port, resolve, timeout_s)
    decision = decide_addresses(grant, host, addresses)
    if not decision.allowed:
        raise AddressRefused(decision.reason)
    return addresses


def connect(addresses: Sequence[str], port: int, timeout_s: float) -> socket.socket:
    """Connect to the first address that answers, within `timeout_s` for all. UpstreamFailed."""
    deadline = time.monotonic() + timeout_s
    last = "no address"
    for address in addresses:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        try:
            sock = socket.create_connection((address, port), timeout=left)
        except OSError as error:
            last = f"{address}: {error}"
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    raise UpstreamFailed(CallError.UNREACHABLE, f"port {port} does not answer ({last})")


def _resolve_in_time(host: str, port: int, resolve: Resolve, timeout_s: float) -> tuple[str, ...]:
    """The system's resolver has no deadline of its own; a stuck one is left to its thread."""
    answer: list[tuple[str, ...]] = []

    def ask() -> None:
        try:
            answer.append(tuple(resolve(host, port)))
        except (OSError, UnicodeError):
            answer.append(())

    thread = threading.Thread(target=ask, name="egress-resolve", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not answer:
        raise UpstreamFailed(CallError.TIMEOUT, f"the name {host} is not resolved in time")
    if not answer[0]:
        raise UpstreamFailed(CallError.UNREACHABLE, f"the name {host} is not known")
    return answer[0]
