"""What the tests of the contract run in a machine, and how they wait for what comes of it."""

from __future__ import annotations

import threading
import time

from sandbox.provider import Sandbox

PATIENCE_S = 10.0
FETCH = """
import socket, sys
port, message = int(sys.argv[1].rpartition(":")[2]), sys.argv[2].encode()
with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
    sock.sendall(message)
    sock.shutdown(socket.SHUT_WR)
    sys.stdout.write(sock.makefile("rb").read().decode())
"""
PROXY = "127.0.0.1:3128"


def sh(machine: Sandbox, script: str, **options: object) -> str:
    """Run a script that must succeed, and return what it wrote."""
    result = machine.exec(["sh", "-c", script], **options)  # type: ignore[arg-type]
    assert result.exit_code == 0, result
    return result.stdout.decode()


def python(machine: Sandbox, script: str, *argv: str, **options: object) -> str:
    result = machine.exec(["/usr/bin/python3", "-c", script, *argv], **options)  # type: ignore[arg-type]
    assert result.exit_code == 0, result
    return result.stdout.decode()


def commands(machine: Sandbox) -> str:
    """The command lines of all processes that this machine shows, one a line."""
    script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null"
    return machine.exec(["sh", "-c", script]).stdout.decode()


def eventually(condition: object, within_s: float = PATIENCE_S) -> None:
    """Poll what only the kernel knows."""
    give_up = time.monotonic() + within_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < give_up, "it did not come true in time"
        time.sleep(0.01)


def in_background(act: object) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001  handed to the test
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised
