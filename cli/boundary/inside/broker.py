"""Attacks on the broker, the one way out."""

from __future__ import annotations

import socket

from cli.boundary.inside.asking import (
    PROXY,
    PROXY_S,
    ask,
    get,
    hello,
    model_path,
    post,
    read_all,
    refused_ask,
    refused_connect,
    refused_tunnel,
    status_of,
    tls_context,
    tunnel,
    with_extension,
)
from cli.boundary.inside.attempt import FACTS, Open, attack, first_of
from cli.boundary.inside.search import CANARY


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
