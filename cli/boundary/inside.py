"""Runs inside a machine and attacks its boundary; standard library only, sent in as one file.

    python3 inside.py FACTS.json [NAME …]

Prints one JSON line for each attempt: its name, whether the boundary held, and what was seen. What
fails in a way that was not foreseen counts as not held: a broken attack proves nothing.
"""

from __future__ import annotations

# A machine's paths are text here, as in the agent.
# ruff: noqa: PTH103, PTH112, PTH113, PTH114, PTH118, PTH123, PTH208
import contextlib
import ctypes
import hashlib
import json
import os
import re
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

PROXY = ("127.0.0.1", 3128)
QUICK_S = 1.0
PROXY_S = 20.0
# Written so that this file does not hold what it looks for.
MARK = b"drydock-" + b"canary-"
CANARY = re.compile(MARK + b"[0-9a-f]{32}")
MAX_FILE = 64 * 1024 * 1024
SKIPPED = ("/proc", "/sys/kernel", "/sys/devices")

FACTS: dict[str, Any] = {}
ATTACKS: dict[str, Callable[[], str]] = {}


class Open(Exception):
    """The boundary did not hold."""


def attack(act: Callable[[], str]) -> Callable[[], str]:
    ATTACKS[act.__name__] = act
    return act


def refused(act: Callable[[], object], what: str) -> str:
    """Do what must fail with an OSError; say how it failed."""
    try:
        act()
    except OSError as error:
        return f"{what}: {error.strerror or type(error).__name__}"
    raise Open(f"{what} worked")


def first_of(held: list[str]) -> str:
    return f"{held[0]} ({len(held)} ways)" if len(held) > 1 else held[0]


# ---- the network -----------------------------------------------------------------------------


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


# ---- the broker ------------------------------------------------------------------------------


def ask(data: bytes) -> bytes:
    """Send bytes to the broker, and return all that comes back."""
    with socket.create_connection(PROXY, timeout=PROXY_S) as sock:
        sock.sendall(data)
        return read_all(sock)


def read_all(sock: socket.socket, limit: int = 1 << 20) -> bytes:
    data = b""
    try:
        while len(data) < limit and (piece := sock.recv(65536)):
            data += piece
    except (ConnectionResetError, TimeoutError):
        return data
    return data


def status_of(answer: bytes) -> int:
    first = answer.split(b"\r\n", 1)[0].split(b" ")
    return int(first[1]) if len(first) > 1 and first[1].isdigit() else 0


def refused_ask(data: bytes) -> str:
    """Ask what must be refused by the broker itself."""
    answer = ask(data)
    status = status_of(answer)
    if not 400 <= status < 600 or b"Drydock refused" not in answer:
        raise Open(f"answered {answer[:120]!r}")
    return answer.rpartition(b"\r\n\r\n")[2].decode("ascii", "replace").strip()


def refused_connect(target: str) -> str:
    return refused_ask(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())


def get(target: str, host: str, *headers: str, method: str = "GET") -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode()


def post(path: str, *headers: str, body: bytes | None = None, length: int | None = None) -> bytes:
    body = model_body() if body is None else body
    size = len(body) if length is None else length
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1:3128", f"Content-Length: {size}"]
    lines += ["Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def model_body() -> bytes:
    return json.dumps({"model": FACTS["model"], "messages": []}).encode()


def model_path(name: str = "chat") -> str:
    return f"/model/{name}/v1/chat/completions"


def tunnel(name: str, port: int) -> socket.socket:
    """Return a socket behind a granted CONNECT."""
    sock = socket.create_connection(PROXY, timeout=PROXY_S)
    target = f"{name}:{port}"
    sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = sock.recv(1)
        if not piece:
            break
        head += piece
    if status_of(head) != 200:
        raise OSError(0, f"CONNECT {target} was answered {head[:80]!r}")
    return sock


def tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def hello(name: str | None) -> bytes:
    """Return a ClientHello of OpenSSL's, as bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = tls_context().wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def with_extension(raw: bytes, kind: int, data: bytes) -> bytes:
    """Return a ClientHello (one record) with one extension more."""
    body = bytearray(raw[9:])
    at = 2 + 32
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    extra = struct.pack("!HH", kind, len(data)) + data
    size = int.from_bytes(body[at : at + 2], "big") + len(extra)
    body[at : at + 2] = size.to_bytes(2, "big")
    body += extra
    message = b"\x01" + len(body).to_bytes(3, "big") + bytes(body)
    return raw[:3] + len(message).to_bytes(2, "big") + message


def refused_tunnel(data: bytes) -> str:
    """Say something in a granted tunnel that must end it before the upstream sees a byte."""
    with tunnel(FACTS["granted"], FACTS["tls_port"]) as sock:
        sock.sendall(data)
        answer = read_all(sock)
    if answer not in (b"", b"\x15\x03\x01\x00\x02\x02\x31"):
        raise Open(f"the upstream answered {answer[:60]!r}")
    return "the tunnel was ended"


@attack
def control_a_granted_tunnel_works() -> str:
    with (
        tunnel(FACTS["granted"], FACTS["tls_port"]) as sock,
        tls_context().wrap_socket(sock, server_hostname=FACTS["granted"]) as tls,
    ):
        said = tls.recv(100)
    if said != b"bait\n":
        raise Open(f"a granted tunnel does not work: {said!r}")
    return "a granted tunnel works"


@attack
def control_a_granted_model_call_works() -> str:
    answer = ask(post(model_path(), "Connection: close"))
    if status_of(answer) != 200:
        raise Open(f"a granted call does not work: {answer[:120]!r}")
    return "a granted call works"


@attack
def connect_by_ip() -> str:
    held = [refused_connect(f"{address}:443") for address in FACTS["public_addresses"]]
    return first_of([*held, refused_connect(f"127.0.0.1:{FACTS['tls_port']}")])


@attack
def connect_by_decimal_hex_and_octal_ip() -> str:
    spelled = ("2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1")
    return first_of([refused_connect(f"{each}:{FACTS['tls_port']}") for each in spelled])


@attack
def connect_by_ipv6() -> str:
    spelled = ("[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]")
    return first_of([refused_connect(f"{each}:{FACTS['tls_port']}") for each in spelled])


@attack
def a_granted_name_that_leads_to_loopback() -> str:
    return refused_connect(f"{FACTS['inward']}:{FACTS['tls_port']}")


@attack
def a_granted_name_that_changes_its_answer() -> str:
    """First an address where nobody is, then the bait's: what was judged is connected to."""
    with socket.create_connection(PROXY, timeout=PROXY_S) as sock:
        target = f"{FACTS['moving']}:{FACTS['tls_port']}"
        sock.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        sock.settimeout(PROXY_S)
        answer = sock.recv(4096)
    if status_of(answer) == 200:
        raise Open("the second answer was connected to")
    return f"answered {status_of(answer)}"


@attack
def a_granted_host_on_another_port() -> str:
    held = [refused_connect(f"{FACTS['granted']}:{port}") for port in (22, 80, FACTS["tcp_bait"])]
    return first_of(held)


@attack
def another_server_name() -> str:
    return refused_tunnel(hello("other.invalid"))


@attack
def no_server_name() -> str:
    return refused_tunnel(hello(None))


@attack
def a_hidden_server_name() -> str:
    return refused_tunnel(with_extension(hello(FACTS["granted"]), 0xFE0D, bytes(40)))


@attack
def plain_http_in_a_tunnel() -> str:
    return refused_tunnel(get("/", FACTS["granted"]))


@attack
def plain_http_after_a_handshake() -> str:
    with tunnel(FACTS["granted"], FACTS["tls_port"]) as sock:
        sock.sendall(hello(FACTS["granted"]))
        sock.recv(5)
        sock.sendall(get("/", FACTS["granted"]))
        answer = read_all(sock)
    if b"HTTP/1." in answer:
        raise Open("plain HTTP was answered in a TLS tunnel")
    return "the tunnel was ended"


@attack
def a_host_header_that_differs() -> str:
    port = FACTS["plain_port"]
    target = f"http://{FACTS['plain']}:{port}/"
    return first_of(
        [
            refused_ask(get(target, "other.invalid")),
            refused_ask(get(target, f"{FACTS['plain']}:1")),
            refused_ask(
                f"CONNECT {FACTS['granted']}:{FACTS['tls_port']} HTTP/1.1\r\n"
                "Host: other.invalid\r\n\r\n".encode()
            ),
        ]
    )


@attack
def absolute_and_origin_form_mixed() -> str:
    local = f"http://127.0.0.1:3128{model_path()}"
    return first_of(
        [
            refused_ask(post(local)),
            refused_ask(get("/", f"{FACTS['plain']}:{FACTS['plain_port']}")),
            refused_ask(get(f"https://{FACTS['granted']}/", FACTS["granted"])),
            refused_ask(get(f"//{FACTS['granted']}/", FACTS["granted"])),
        ]
    )


@attack
def smuggling_with_two_lengths() -> str:
    return refused_ask(post(model_path(), "Content-Length: 0"))


@attack
def smuggling_with_chunked_and_length() -> str:
    return refused_ask(post(model_path(), "Transfer-Encoding: chunked"))


@attack
def smuggling_with_bare_line_feeds() -> str:
    bare = post(model_path()).replace(b"\r\n", b"\n")
    mixed = post(model_path(), "X-A: b\nTransfer-Encoding: chunked")
    return first_of([refused_ask(bare), refused_ask(mixed)])


@attack
def smuggling_with_folded_headers() -> str:
    return refused_ask(post(model_path(), "X-A: b\r\n folded: c"))


@attack
def a_credential_of_its_own() -> str:
    """The host looks whether it arrived."""
    secret = FACTS["own_secret"]
    for header in (f"Authorization: Bearer {secret}", f"x-api-key: {secret}", f"api-key: {secret}"):
        ask(post(model_path(), header, "Connection: close"))
    ask(post(f"{model_path()}?key={secret}", "Connection: close"))
    return "sent four ways"


@attack
def a_redirect_to_another_host() -> str:
    answer = ask(post(model_path("redirect"), "Connection: close"))
    if status_of(answer) // 100 in (2, 3):
        raise Open(f"answered {answer[:120]!r}")
    return f"answered {status_of(answer)}"


@attack
def an_echo_of_the_injected_key() -> str:
    answer = ask(post(model_path("echo"), "Connection: close"))
    if status_of(answer) != 200:
        raise Open(f"the echo was not asked: {answer[:120]!r}")
    if found := CANARY.search(answer):
        raise Open(f"the key came back: {found[0][:20]!r}…")
    return "redacted in headers and body"


@attack
def a_websocket_upgrade() -> str:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    held = [refused_ask(post(model_path(), *upgrade))]
    target, host = f"http://{FACTS['plain']}:{FACTS['plain_port']}/", FACTS["plain"]
    return first_of([*held, refused_ask(get(target, f"{host}:{FACTS['plain_port']}", *upgrade))])


@attack
def an_http2_preface() -> str:
    return refused_ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


@attack
def a_response_of_ten_gigabytes() -> str:
    total = 0
    with socket.create_connection(PROXY, timeout=PROXY_S) as sock:
        sock.sendall(post(model_path("endless"), "Connection: close"))
        try:
            while piece := sock.recv(1 << 20):
                total += len(piece)
                if total > FACTS["byte_cap"] * 2:
                    raise Open(f"{total} bytes came")
        except ConnectionResetError:
            pass
    return f"cut after {total} bytes"


# ---- secrets ---------------------------------------------------------------------------------


def files() -> Iterator[str]:
    skipped = (*SKIPPED, *FACTS["searched_already"])
    for folder, names, leaves in os.walk("/"):
        names[:] = [n for n in names if not os.path.join(folder, n).startswith(skipped)]
        yield from (os.path.join(folder, leaf) for leaf in leaves)


def search(path: str, limit: int = MAX_FILE) -> None:
    """Raise Open when a file holds a canary. What cannot be read holds nothing for us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with os.fdopen(fd, "rb", buffering=0) as file:
        tail, seen = b"", 0
        while seen < limit:
            try:
                piece = file.read(1 << 20)
            except OSError:
                return
            if not piece:
                return
            # The plain search first: a regular expression over a whole disk takes its time.
            if MARK in tail + piece and (found := CANARY.search(tail + piece)):
                known = hashlib.sha256(found[0]).hexdigest() in FACTS["canaries"]
                raise Open(f"{path} holds a {'secret' if known else 'canary'} of the host")
            tail, seen = piece[-64:], seen + len(piece)


@attack
def secrets_in_any_file() -> str:
    count = 0
    for path in files():
        if os.path.isfile(path) and not os.path.islink(path):
            search(path)
            count += 1
    return f"{count} files searched"


@attack
def secrets_in_any_process() -> str:
    count = 0
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        for leaf in ("environ", "cmdline", "maps", "status"):
            search(f"/proc/{pid}/{leaf}")
        count += 1
    return f"{count} processes searched"


@attack
def secrets_on_the_kernel_command_line() -> str:
    for path in ("/proc/cmdline", "/proc/bootconfig", "/proc/self/mountinfo", "/proc/config.gz"):
        search(path)
    return "searched"


@attack
def secrets_on_a_disk() -> str:
    """Reads block devices whole, as far as they can be opened."""
    names = os.listdir("/sys/block") if os.path.isdir("/sys/block") else []
    for name in names:
        search(f"/dev/{name}", limit=8 << 30)
    return f"{len(names)} block devices"


@attack
def secrets_in_memory_devices() -> str:
    paths = ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore")
    return first_of([refused(partial(read_byte, path), path) for path in paths])


def read_byte(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 1)
    finally:
        os.close(fd)


@attack
def secrets_in_dmi() -> str:
    roots = ("/sys/class/dmi/id", "/sys/firmware")
    count = 0
    for root in roots:
        for folder, _, leaves in os.walk(root):
            for leaf in leaves:
                search(os.path.join(folder, leaf))
                count += 1
    return f"{count} entries"


@attack
def another_runs_files() -> str:
    """Each run's files hold a canary of their own on the host: nothing of them is here."""
    names = [FACTS["other_run"], FACTS["host_folder"]]
    for path in files():
        if any(name in path for name in names):
            raise Open(f"{path} belongs to the host")
    return "nothing of another run is here"


# ---- the kernel ------------------------------------------------------------------------------


def agent_pid() -> int:
    """Return the agent's process: the lowest one that runs it, else the first of all."""
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"agent" in file.read():
                    return pid
        except OSError:
            continue
    return 1


LIBC = ctypes.CDLL(None, use_errno=True)


def syscall(what: str, result: int) -> str:
    if result != -1:
        raise Open(f"{what} worked")
    return f"{what}: {os.strerror(ctypes.get_errno())}"


@attack
def becoming_root() -> str:
    """Where this already is the machine's root, there is nothing to gain; see what that may do."""
    if os.geteuid() == 0:
        return "is the machine's own root already"
    held = [refused(lambda: os.setuid(0), "setuid(0)"), refused(lambda: os.setgid(0), "setgid(0)")]
    for program in ("sudo", "su", "pkexec"):
        try:
            done = subprocess.run(
                [program, "-n", "id", "-u"] if program == "sudo" else [program, "-c", "id -u"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.stdout.strip() == b"0":
            raise Open(f"{program} gave root")
    return first_of(held)


@attack
def mounting_the_hosts_devices() -> str:
    """A tmpfs of its own harms nobody; a device or a file system of the host's would."""
    held = []
    os.makedirs("/work/mount", exist_ok=True)
    for source, kind in ((b"/dev/sda1", b"ext4"), (b"/dev/nvme0n1p1", b"ext4"), (b"h", b"9p")):
        ctypes.set_errno(0)
        result = LIBC.mount(source, b"/work/mount", kind, 0, None)
        held.append(syscall(f"mount {source.decode()}", result))
    return first_of(held)


@attack
def loading_modules() -> str:
    init_module, finit_module = 175, 313
    fd = os.open("/proc/self/exe", os.O_RDONLY)
    held = [
        syscall("init_module", LIBC.syscall(init_module, b"\x7fELF", 4, b"")),
        syscall("finit_module", LIBC.syscall(finit_module, fd, b"", 0)),
    ]
    os.close(fd)
    return first_of(held)


@attack
def ptrace_of_the_agent() -> str:
    """As root it is the machine's own process, and the channel holds no secret to be read."""
    attach = 16
    pid = agent_pid()
    result = LIBC.ptrace(attach, pid, None, None)
    if result == -1:
        return f"ptrace: {os.strerror(ctypes.get_errno())}"
    if os.geteuid() != 0:
        raise Open("a process of work may trace the agent")
    LIBC.ptrace(17, pid, None, None)
    search(f"/proc/{pid}/mem")
    return "the machine's root may trace it; it holds no secret"


@attack
def signals_to_the_agent() -> str:
    if os.geteuid() == 0:
        return "root's own attempt is the last one: killing_the_agent"
    return refused(lambda: os.kill(agent_pid(), 9), "kill")


@attack
def the_channel_device() -> str:
    """Only the agent may write to it."""
    if os.geteuid() == 0:
        return "root's own attempt is the last one: garbage_on_the_channel"
    held = [refused(partial(open_again, agent_pid(), fd), f"its fd {fd}") for fd in range(16)]
    ports = "/dev/virtio-ports"
    names = [f"{ports}/{each}" for each in os.listdir(ports)] if os.path.isdir(ports) else []
    names += [f"/dev/{each}" for each in os.listdir("/dev") if each.startswith(("vport", "hvc"))]
    held += [refused(partial(os.open, n, os.O_WRONLY | os.O_NONBLOCK), n) for n in names]
    return first_of(held)


def open_again(pid: int, fd: int) -> None:
    """Open what another process has open. /dev/null (1, 3) is anybody's, and so no success."""
    opened = os.open(f"/proc/{pid}/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        if os.fstat(opened).st_rdev == os.makedev(1, 3):
            raise OSError(0, "only /dev/null")
    finally:
        os.close(opened)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        FACTS.update(json.load(file))
    for name in sys.argv[2:] or list(ATTACKS):
        try:
            held, detail = True, ATTACKS[name]()
        except Open as error:
            held, detail = False, str(error)
        except Exception as error:  # noqa: BLE001 -- a broken attack proves nothing
            held, detail = False, f"the attempt itself failed: {type(error).__name__}: {error}"
        sys.stdout.write(json.dumps({"name": name, "held": held, "detail": detail[:300]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
