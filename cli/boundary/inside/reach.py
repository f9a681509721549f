"""Reaching an address directly, which must fail."""

from __future__ import annotations

import socket

from cli.boundary.inside.attempt import refused

QUICK_S = 1.0


def reach_tcp(address: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def connect() -> None:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(QUICK_S)
            sock.connect((address, port))

    return refused(connect, f"tcp to {address}:{port}")


def reach_udp(address: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def ask() -> None:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.settimeout(QUICK_S)
            sock.sendto(b"drydock?", (address, port))
            sock.recvfrom(100)

    return refused(ask, f"udp to {address}:{port}")
