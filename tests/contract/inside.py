"""What the tests of the contract run in a machine, or while it runs."""

from __future__ import annotations

import threading

from sandbox.provider import Sandbox

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
