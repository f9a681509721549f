"""The QMP client against a scripted other side."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from sandbox.providers.qemu.qmp import MAX_LINE, Qmp, QmpFailed

GREETING = {"QMP": {"version": {}, "capabilities": []}}


class Qemu:
    """The other side: says what it is told to, and keeps what it heard."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.heard: list[dict[str, object]] = []
        self._lines = sock.makefile("rb")

    def says(self, *messages: object) -> None:
        for message in messages:
            self.sock.sendall(json.dumps(message).encode() + b"\r\n")

    def hears(self) -> dict[str, object]:
        message: dict[str, object] = json.loads(self._lines.readline())
        self.heard.append(message)
        return message


@pytest.fixture
def ends() -> Iterator[tuple[Qmp, Qemu]]:
    ours, theirs = socket.socketpair()
    with theirs:
        qmp = Qmp(ours, timeout_s=2.0)
        yield qmp, Qemu(theirs)
        qmp.close()


def test_it_greets_and_leaves_negotiation(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.says(GREETING, {"return": {}})
    assert qmp.greet() == GREETING
    assert qemu.hears() == {"execute": "qmp_capabilities", "arguments": {}}


def test_anything_else_is_no_greeting(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.says({"return": {}})
    with pytest.raises(QmpFailed, match="no greeting"):
        qmp.greet()


def test_underscores_in_names_are_dashes(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.says({"return": 7})
    assert qmp.execute("remove-fd", fdset_id=3) == 7
    assert qemu.hears()["arguments"] == {"fdset-id": 3}


def test_events_between_a_command_and_its_answer_are_kept(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.says({"event": "STOP"}, {"event": "MIGRATION", "data": {"status": "active"}})
    qemu.says({"return": {}}, {"event": "MIGRATION", "data": {"status": "completed"}})
    qmp.execute("stop")
    assert qmp.wait_for("MIGRATION") == {"status": "active"}
    assert qmp.wait_for("MIGRATION") == {"status": "completed"}
    assert qmp.wait_for("STOP") == {}


def test_an_error_is_raised_in_qemus_words(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.says({"error": {"class": "GenericError", "desc": "no such node"}})
    with pytest.raises(QmpFailed, match="blockdev-add: no such node"):
        qmp.execute("blockdev-add")


def test_a_descriptor_goes_along_with_its_command(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.says({"return": {"fdset-id": 1}})
    with socket.socket() as given:
        qmp.execute("add-fd", fd=given.fileno())
    _, received, _, _ = socket.recv_fds(qemu.sock, 4096, 2)
    assert len(received) == 1
    socket.socket(fileno=received[0]).close()


def test_silence_ends_after_the_timeout() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        qmp = Qmp(ours, timeout_s=0.05)
        with pytest.raises(QmpFailed, match="did not answer"):
            qmp.execute("stop")
        qmp.close()


def test_its_end_is_told_to_whoever_waits(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    closer = threading.Timer(0.05, lambda: qemu.sock.shutdown(socket.SHUT_RDWR))
    closer.start()
    with pytest.raises(QmpFailed, match="gone"):
        qmp.wait_for("MIGRATION")
    closer.join()


@pytest.mark.parametrize("line", [b"no json\n", b"[1]\n"])
def test_what_is_no_object_is_refused(ends: tuple[Qmp, Qemu], line: bytes) -> None:
    qmp, qemu = ends
    qemu.sock.sendall(line)
    with pytest.raises(QmpFailed, match="QEMU sent no"):
        qmp.execute("stop")


def test_a_line_without_an_end_is_refused(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends

    def flood() -> None:
        try:
            qemu.sock.sendall(b"x" * (MAX_LINE + 200_000))
        except OSError:
            return

    thread = threading.Thread(target=flood)
    thread.start()
    with pytest.raises(QmpFailed, match="without an end"):
        qmp.execute("stop")
    qmp.close()
    thread.join()
