"""Attacks on the network that is not there."""

from __future__ import annotations

import socket
import struct
from functools import partial

from cli.boundary.inside.asking import get, refused_ask, refused_connect
from cli.boundary.inside.attempt import FACTS, Open, attack, first_of, refused
from cli.boundary.inside.reach import QUICK_S, reach_tcp, reach_udp


@attack
def tcp_to_the_host() -> str:
    return first_of([reach_tcp(address, FACTS["tcp_bait"]) for address in FACTS["host_addresses"]])


@attack
def tcp_to_the_gateway() -> str:
    return first_of(
        [reach_tcp(address, port) for address in FACTS["gateways"] for port in (22, 80)]
    )


@attack
def tcp_to_a_public_address() -> str:
    return first_of([reach_tcp(address, 443) for address in FACTS["public_addresses"]])


@attack
def tcp_over_ipv6() -> str:
    return first_of([reach_tcp(a, FACTS["tcp_bait"]) for a in FACTS["ipv6_addresses"]])


@attack
def tcp_to_another_machine() -> str:
    return first_of([reach_tcp(a, FACTS["neighbour_port"]) for a in ("127.0.0.1", "::1")])


@attack
def udp_to_the_host() -> str:
    return first_of([reach_udp(address, FACTS["udp_bait"]) for address in FACTS["host_addresses"]])


@attack
def udp_over_ipv6() -> str:
    return first_of([reach_udp(a, FACTS["udp_bait"]) for a in FACTS["ipv6_addresses"]])


@attack
def icmp_to_the_host() -> str:
    echo = struct.pack("!BBHHH", 8, 0, 0xF7FF, 0, 0)

    def ping(kind: int) -> None:
        with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as sock:
            sock.settimeout(QUICK_S)
            sock.sendto(echo, (FACTS["host_addresses"][-1], 0))
            sock.recvfrom(200)

    kinds = (socket.SOCK_DGRAM, socket.SOCK_RAW)
    return first_of([refused(partial(ping, kind), "icmp echo") for kind in kinds])


@attack
def raw_sockets() -> str:
    """A raw socket may be had; with loopback as the only interface there is nowhere to send."""
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    if others:
        raise Open(f"there are interfaces: {', '.join(others)}")

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sock:
            sock.settimeout(QUICK_S)
            sock.sendto(b"\x45" + bytes(39), (FACTS["public_addresses"][0], 0))

    return refused(send, "raw IP") + "; no interface but lo"


@attack
def packet_sockets() -> str:
    def listen() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as sock:
            sock.settimeout(QUICK_S)
            sock.bind(("eth0", 0))

    return refused(listen, "packet socket on eth0")


@attack
def dns_by_udp() -> str:
    return first_of([reach_udp(address, 53) for address in FACTS["resolvers"]])


@attack
def dns_by_tcp() -> str:
    return first_of([reach_tcp(address, 53) for address in FACTS["resolvers"]])


@attack
def dns_by_the_system() -> str:
    return refused(lambda: socket.getaddrinfo(FACTS["granted"], 443), "getaddrinfo")


@attack
def dns_over_https() -> str:
    held = [reach_tcp(address, 443) for address in FACTS["resolvers"]]
    held += [refused_connect(f"{address}:443") for address in FACTS["resolvers"]]
    return first_of(held)


@attack
def metadata_directly() -> str:
    return first_of([reach_tcp(address, 80) for address in FACTS["metadata"]])


@attack
def metadata_through_the_broker() -> str:
    held = []
    for address in FACTS["metadata"]:
        shown = f"[{address}]" if ":" in address else address
        held.append(refused_connect(f"{shown}:80"))
        held.append(refused_ask(get(f"http://{shown}/latest/meta-data/", shown)))
    return first_of(held)


@attack
def abstract_unix_sockets() -> str:
    def connect() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(QUICK_S)
            sock.connect("\0" + FACTS["abstract_bait"])

    return refused(connect, "abstract socket of the host")


@attack
def vsock() -> str:
    def connect(cid: int, port: int) -> None:
        with socket.socket(40, socket.SOCK_STREAM) as sock:  # AF_VSOCK
            sock.settimeout(QUICK_S)
            sock.connect((cid, port))

    # The hypervisor, this machine itself, the host.
    doors = [(cid, port) for cid in (0, 1, 2) for port in (22, FACTS["vsock_bait"])]
    return first_of([refused(partial(connect, cid, port), "vsock") for cid, port in doors])
