"""Speaking to the broker, rightly and wrongly: HTTP, CONNECT, and TLS as far as a hello."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct

from cli.boundary.inside.attempt import FACTS, Open

PROXY = ("127.0.0.1", 3128)
PROXY_S = 20.0


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
