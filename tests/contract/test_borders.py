"""What every provider promises of a machine's borders: one way out, nothing of the host inside.

See `sandbox.provider`.
"""

from __future__ import annotations

import re
import secrets
import sys
import threading
from pathlib import Path

import pytest

from sandbox.machine import Machine
from sandbox.provider import WORK_DIR, Duplex, GuestUser, Provider, Template
from sandbox.providers.common import GUEST_AGENT_DIR
from tests.contract.conftest import MakeMachine
from tests.contract.inside import FETCH, PROXY, commands, in_background, python, sh
from tests.sandbox.waiting import PATIENCE_S

PORT = "/dev/vport"  # the channel of a virtual machine


class TestEgress:
    def test_a_connection_goes_there_and_back_with_half_closes(self, shared: Machine) -> None:
        assert python(shared, FETCH, PROXY, "hello") == "HELLO"

    def test_a_megabyte_goes_both_ways(self, shared: Machine) -> None:
        script = FETCH.replace(".encode()", ".encode() * 100_000")
        assert python(shared, script, PROXY, "0123456789a") == "0123456789A" * 100_000

    def test_fifty_at_a_time(self, make_machine: MakeMachine) -> None:
        """None is answered before all fifty are there."""
        everybody = threading.Barrier(50)

        def handler(connection: Duplex) -> None:
            message = connection.recv(100)
            everybody.wait(timeout=30)
            connection.sendall(message)
            connection.close()

        script = """
import socket, sys
port = int(sys.argv[1].rpartition(":")[2])
socks = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(50)]
for number, sock in enumerate(socks):
    sock.sendall(b"%d" % number)
print([int(sock.recv(100)) for sock in socks] == list(range(50)))
"""
        assert python(make_machine(handler), script, PROXY) == "True\n"

    def test_more_than_there_are_streams_wait_for_their_turn(self, shared: Machine) -> None:
        script = """
import socket, sys, threading
port = int(sys.argv[1].rpartition(":")[2])
answers = []
def fetch():
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall(b"x")
        sock.shutdown(socket.SHUT_WR)
        answers.append(sock.makefile("rb").read())
threads = [threading.Thread(target=fetch) for _ in range(150)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(answers == [b"X"] * 150)
"""
        assert python(shared, script, PROXY) == "True\n"

    def test_a_handler_that_only_closes_ends_the_connection(
        self, make_machine: MakeMachine
    ) -> None:
        assert (
            python(make_machine(), FETCH.replace("sock.sendall", "(lambda _: 0)"), PROXY, "") == ""
        )

    def test_a_handler_that_fails_resets_its_connection_only(
        self, make_machine: MakeMachine, caplog: pytest.LogCaptureFixture
    ) -> None:
        def handler(connection: Duplex) -> None:
            if connection.recv(10) == b"bad":
                raise RuntimeError("a defect")
            connection.sendall(b"fine")
            connection.close()

        machine = make_machine(handler)
        bad = machine.exec(["/usr/bin/python3", "-c", FETCH, PROXY, "bad"])
        assert b"OSError" in bad.stderr or b"ConnectionResetError" in bad.stderr
        assert python(machine, FETCH, PROXY, "good") == "fine"
        assert "an egress handler failed" in caplog.text

    def test_the_host_hears_that_the_guest_reset(self, make_machine: MakeMachine) -> None:
        heard: list[BaseException] = []
        done = threading.Event()

        def handler(connection: Duplex) -> None:
            try:
                while connection.recv(100):
                    pass
            except OSError as error:
                heard.append(error)
            done.set()

        script = """
import socket, struct, sys
port = int(sys.argv[1].rpartition(":")[2])
sock = socket.create_connection(("127.0.0.1", port))
sock.sendall(b"x")
sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
sock.close()
"""
        python(make_machine(handler), script, PROXY)
        assert done.wait(PATIENCE_S)
        assert len(heard) <= 1  # a kernel may turn the reset into an end; it must not hang

    def test_a_handler_of_a_dead_machine_gets_an_oserror(self, make_machine: MakeMachine) -> None:
        entered, left = threading.Event(), threading.Event()

        def handler(connection: Duplex) -> None:
            entered.set()
            with pytest.raises(OSError, match="machine lost"):
                connection.recv(100)
            left.set()

        machine = make_machine(handler)
        script = FETCH.replace("sock.shutdown(socket.SHUT_WR)", "import time; time.sleep(1000)")
        thread, _ = in_background(lambda: python(machine, script, PROXY, ""))
        assert entered.wait(PATIENCE_S)
        machine.kill()
        assert left.wait(PATIENCE_S)
        thread.join()


class TestIsolation:
    def test_there_is_no_network_interface_but_loopback(
        self, isolating: Provider, shared: Machine
    ) -> None:
        names = [
            line.split(":")[0].strip() for line in sh(shared, "cat /proc/net/dev").splitlines()
        ]
        assert names[2:] == ["lo"]

    def test_nothing_of_the_hosts_environment_arguments_or_paths_shows(
        self,
        isolating: Provider,
        make_machine: MakeMachine,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
    ) -> None:
        secret = secrets.token_hex(16)
        monkeypatch.setenv("DRYDOCK_TEST_SECRET", secret)
        machine = make_machine()
        script = (
            "cat /proc/*/environ /proc/*/cmdline /proc/*/mountinfo /proc/mounts 2>/dev/null; true"
        )
        for user in GuestUser:
            shown = sh(machine, script, user=user)
            assert f"{GUEST_AGENT_DIR}/" in shown
            for private in (secret, str(machine.directory), str(tmp_path), sys.prefix, "runsc"):
                assert private not in shown

    def test_a_way_to_the_hypervisor_is_refused_at_once(
        self, isolating: Provider, shared: Machine
    ) -> None:
        script = (
            "import socket, sys\n"
            "try:\n"
            "    with socket.socket(40, socket.SOCK_STREAM) as vsock:\n"
            "        vsock.settimeout(5)\n"
            "        vsock.connect((2, 22))\n"
            "except TimeoutError: print('timed out')\n"
            "except OSError: print('refused')\n"
        )
        for user in GuestUser:
            assert python(shared, script, user=user) == "refused\n"

    def test_only_four_families_of_sockets_come_from_a_shared_kernel(
        self, isolating: Provider, shared: Machine
    ) -> None:
        if isolating.name != "bubblewrap":
            pytest.skip("its kernel is its own")
        script = (
            "import errno, socket\n"
            "for family in range(1, 64):\n"
            "    try: socket.socket(family, socket.SOCK_DGRAM).close()\n"
            "    except OSError as error:\n"
            "        if error.errno == errno.EAFNOSUPPORT: continue\n"
            "    print(family, end=' ')\n"
        )
        for user in GuestUser:
            assert python(shared, script, user=user) == "1 2 10 16 "

    def test_no_descriptor_of_the_host_is_inherited(
        self, isolating: Provider, shared: Machine
    ) -> None:
        listing = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
        assert python(shared, listing) == "[0, 1, 2, 3]\n"  # 3 is the listing itself
        script = """
import os
for fd in os.listdir("/proc/1/fd"):
    try: print(os.readlink(f"/proc/1/fd/{fd}"))
    except PermissionError: pass
"""
        for target in python(shared, script, user=GuestUser.ROOT).splitlines():
            assert target.startswith(
                ("/dev/null", "socket:", "pipe:", "anon_inode:", "host:", PORT)
            )

    def test_a_file_of_the_host_cannot_be_read(
        self, isolating: Provider, shared: Machine, tmp_path: Path
    ) -> None:
        private = tmp_path / "private"
        private.write_text("of the host")
        for user in GuestUser:
            assert shared.exec(["cat", str(private)], user=user).exit_code == 1
        with pytest.raises(FileNotFoundError):
            shared.read_file(str(private))

    def test_the_template_cannot_be_changed(
        self, isolating: Provider, make_machine: MakeMachine, template: Template
    ) -> None:
        machine = make_machine()
        machine.exec(
            ["sh", "-c", "echo x > /etc/planted; echo x >> /etc/passwd"], user=GuestUser.ROOT
        )
        assert not (template.path / "rootfs/etc/planted").exists()
        assert "planted" not in sh(make_machine(), "cat /etc/passwd; echo /etc/*")

    def test_two_machines_know_nothing_of_each_other(
        self, isolating: Provider, make_machine: MakeMachine
    ) -> None:
        def answer(name: bytes) -> object:
            def handler(connection: Duplex) -> None:
                connection.sendall(name)
                connection.close()

            return handler

        one, two = make_machine(answer(b"one")), make_machine(answer(b"two"))
        assert python(one, FETCH, PROXY, "") == "one"
        assert python(two, FETCH, PROXY, "") == "two"
        one.write_file(f"{WORK_DIR}/f", b"mine")
        with pytest.raises(FileNotFoundError):
            two.read_file(f"{WORK_DIR}/f")
        sh(one, "setsid sleep 3001 >/dev/null 2>&1 &")
        assert "sleep 3001" in commands(one)
        assert "sleep 3001" not in commands(two)

    def test_the_host_name_says_nothing(self, isolating: Provider, shared: Machine) -> None:
        assert re.fullmatch(r"drydock(-[0-9a-f]{8})?\n", sh(shared, "uname -n"))
