"""What the attacks aim at: servers on this host that notice every visitor, and how the host looks.

They listen on all addresses, for the seconds of the self-test: what is not listened on would be
"held" by nobody being there. They say nothing of use and do nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
import socket
import ssl
import struct
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

GREETING = b"bait\n"
PIECE = b"x" * 65536


class Listening:
    """A socket with a thread that serves it until it is closed; `visits` counts."""

    def __init__(self, sock: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        self.visits = 0
        self._socket = sock
        self._serve = serve
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port; addresses of IPv6 and vsock have it in the same place."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            try:
                self._serve(self._socket)
            except OSError:
                return
            self.visits += 1


def greet(sock: socket.socket) -> None:
    """Take one connection, greet and hang up."""
    visitor, _ = sock.accept()
    with visitor, contextlib.suppress(OSError):
        visitor.sendall(GREETING)


def answer_datagram(sock: socket.socket) -> None:
    _, sender = sock.recvfrom(2048)
    if sender is None:
        raise OSError("closed")
    sock.sendto(GREETING, sender)


def listen_tcp() -> Listening:
    sock = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return Listening(sock, greet)


def listen_udp() -> Listening:
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.bind(("", 0))
    return Listening(sock, answer_datagram)


def listen_abstract(name: str) -> Listening:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind("\0" + name)
    sock.listen()
    return Listening(sock, greet)


def listen_vsock() -> Listening | None:
    """Listen where a guest may look for its host; None on a host without vsock."""
    try:
        sock = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        sock.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY))
        sock.listen()
    except OSError:
        sock.close()
        return None
    return Listening(sock, greet)


class TlsBait:
    """A TLS server on loopback; `names` are the server names that it was asked for."""

    def __init__(self, name: str) -> None:
        self.names: list[str | None] = []
        self._context = server_context(name)
        self._context.sni_callback = self._note
        self._listening = Listening(socket.create_server(("127.0.0.1", 0)), self._serve)

    @property
    def port(self) -> int:
        return self._listening.port

    def close(self) -> None:
        self._listening.close()

    def _note(self, _sock: ssl.SSLObject, name: str, _context: ssl.SSLContext) -> None:
        self.names.append(name)

    def _serve(self, sock: socket.socket) -> None:
        visitor, _ = sock.accept()
        visitor.settimeout(10)
        threading.Thread(target=self._talk, args=(visitor,), daemon=True).start()

    def _talk(self, visitor: socket.socket) -> None:
        with (
            visitor,
            contextlib.suppress(OSError),
            self._context.wrap_socket(visitor, server_side=True) as tls,
        ):
            tls.sendall(GREETING)


class HttpBait:
    """The model's server and a plain one. `seen` holds each request line, headers and body."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        bait = self

        class Handler(_Handler):
            keep = bait.seen

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers by the first segment of its path: redirect, echo, endless, or an empty object."""

    protocol_version = "HTTP/1.1"
    keep: list[str]

    def do_GET(self) -> None:
        self._answer(b"{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.keep.append(f"{self.requestline}\n{self.headers}\n{body.decode('latin-1')}")
        kind = self.path.split("/")[1]
        given = self.headers.get("authorization", "")
        if kind == "redirect":
            self._answer(b"", 302, ("Location", "http://other.invalid/"))
        elif kind == "echo":
            self._answer(given.encode(), 200, ("X-Request-Id", given))
        elif kind == "endless":
            self._pour()
        else:
            self._answer(b'{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}')

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""

    def _answer(self, body: bytes, status: int = 200, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _pour(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(10 * 1024**3))
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(10 * 1024**3 // len(PIECE)):
                self.wfile.write(PIECE)
        self.close_connection = True


class Baits:
    """All of them: `with Baits(name) as baits`."""

    def __init__(self, granted: str) -> None:
        self.abstract_name = f"drydock-bait-{secrets.token_hex(8)}"
        self.tcp = listen_tcp()
        self.udp = listen_udp()
        self.abstract = listen_abstract(self.abstract_name)
        self.vsock = listen_vsock()
        self.tls = TlsBait(granted)
        self.http = HttpBait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        closing: tuple[Any, ...] = (self.tcp, self.udp, self.abstract, self.tls, self.http)
        for each in (*closing, *([self.vsock] if self.vsock else [])):
            each.close()


def host_addresses() -> list[str]:
    """Return this host's IPv4 addresses, loopback first."""
    return list(dict.fromkeys(["127.0.0.1", *_own_address(socket.AF_INET, "192.0.2.1")]))


def ipv6_addresses() -> list[str]:
    return list(dict.fromkeys(["::1", *_own_address(socket.AF_INET6, "2001:db8::1")]))


def _own_address(family: socket.AddressFamily, towards: str) -> list[str]:
    """Ask the kernel which address it would send from; nothing is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((towards, 9))
        except OSError:
            return []
        return [str(sock.getsockname()[0]).partition("%")[0]]


def gateways() -> list[str]:
    """Return the default gateways of IPv4; a likely one when there is none."""
    found = []
    for line in _lines("/proc/net/route")[1:]:
        fields = line.split()
        if len(fields) > 2 and fields[1] == "00000000":
            found.append(socket.inet_ntoa(struct.pack("<L", int(fields[2], 16))))
    return found or ["10.0.2.2"]


def resolvers() -> list[str]:
    lines = (line.split() for line in _lines("/etc/resolv.conf"))
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def server_context(name: str) -> ssl.SSLContext:
    """Return a TLS server's context with a certificate of its own for `name`, good for an hour."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        file.flush()
        context.load_cert_chain(file.name)
    return context
