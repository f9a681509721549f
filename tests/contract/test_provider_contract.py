"""What every provider promises (see `sandbox.provider`), tried on real machines."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

from sandbox.machine import Machine
from sandbox.provider import (
    Duplex,
    GuestMisbehaved,
    GuestUser,
    MachineLost,
    MachineSpec,
    OutputStream,
    Provider,
    ProviderFailed,
    Sandbox,
    Template,
    Unsupported,
)
from sandbox.providers import make_provider
from sandbox.providers.common import GUEST_AGENT_DIR
from sandbox.supervisor import descendants, start_time
from tests.contract.conftest import MakeMachine

PATIENCE_S = 10.0
PORT = "/dev/vport"  # the channel of a virtual machine


def sh(machine: Sandbox, script: str, **options: object) -> str:
    """Run a script that must succeed, and return what it wrote."""
    result = machine.exec(["sh", "-c", script], **options)  # type: ignore[arg-type]
    assert result.exit_code == 0, result
    return result.stdout.decode()


def python(machine: Sandbox, script: str, *argv: str, **options: object) -> str:
    result = machine.exec(["/usr/bin/python3", "-c", script, *argv], **options)  # type: ignore[arg-type]
    assert result.exit_code == 0, result
    return result.stdout.decode()


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


SIGNAL_THE_AGENT = """
import os, sys
while not os.path.exists("enough"):
    for _ in range(1000):
        try:
            os.kill(1, 0)
        except PermissionError:
            continue
        sys.exit("the agent could be sent a signal")
"""


class TestUsualPrograms:
    """Programs that a repository's tests take for granted.

    What is expected is what the template's GNU coreutils say. `fake` runs the programs of the host,
    whichever those are: there it is what the host says without a machine.
    """

    FOLDER = (
        "export LC_ALL=C; umask 022; d=$(mktemp -d); trap 'rm -r $d' EXIT; cd $d; "
        "printf 12345 > 'a b'; ln -s 'a b' link; : > .hidden; "
    )

    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ("ls 'a b'", "a b\n"),
            ("ls -1", "a b\nlink\n"),
            ("ls -la . | wc -l", "6\n"),
            ("ls -l link | sed 's/.* link/link/'", "link -> a b\n"),
            ("ls -l --time-style=+%Y link 'a b' | wc -l", "2\n"),
            (
                "ls -d */ . 2>&1; echo $?",
                "ls: cannot access '*/': No such file or directory\n.\n2\n",
            ),
            ("ls --zero | tr '\\0' ,", "a b,link,"),
            ("stat -c %s 'a b'", "5\n"),
            ("stat --format=%F link .", "symbolic link\ndirectory\n"),
            ("stat -L --printf='%s %a' link", "5 644"),
            ("stat gone 2>&1", "stat: cannot statx 'gone': No such file or directory\n"),
            ("ls $d/link | sed s:.*/::", "link\n"),
            ("find . -name 'a*' -exec ls {} +", "./a b\n"),
            ("cp -a . ../copy-$$; diff -r . ../copy-$$ && rm -r ../copy-$$ && echo same", "same\n"),
            ("mv 'a b' c; test -e c && test ! -e 'a b' && readlink link", "a b\n"),
            ("touch -d @7 c; stat -c %Y c; install -m 700 c e; stat -c %a e", "7\n700\n"),
            (
                "du -b 'a b' | cut -f1; df . > /dev/null && realpath --relative-to=. link",
                "5\na b\n",
            ),
        ],
    )
    def test_they_find_what_is_there(
        self, provider: Provider, shared: Machine, command: str, expected: str
    ) -> None:
        script = self.FOLDER + command
        result = shared.exec(["sh", "-c", script])
        told = self.on_the_host(script) if provider.name == "fake" else expected
        assert result.stdout.decode() == told

    def on_the_host(self, script: str) -> str:
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        done = subprocess.run(
            ["sh", "-c", script], env=environment, check=False, stdout=subprocess.PIPE
        )
        return done.stdout.decode()


class TestExec:
    def test_it_can_open_its_streams_again_by_name(self, shared: Machine) -> None:
        script = "cat <(echo one) /dev/stdin; echo three > /dev/stdout; echo four > /dev/stderr"
        result = shared.exec(["bash", "-c", script], stdin=b"two\n")
        assert (result.stdout, result.stderr) == (b"one\ntwo\nthree\n", b"four\n")

    def test_it_returns_the_exit_code_and_both_outputs_apart(self, shared: Machine) -> None:
        result = shared.exec(["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert (result.exit_code, result.signal) == (3, None)
        assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
        assert not result.timed_out
        assert not result.truncated

    def test_a_command_that_a_signal_ends_has_no_exit_code(self, shared: Machine) -> None:
        result = shared.exec(["sh", "-c", "kill -TERM $$"])
        assert (result.exit_code, result.signal) == (None, signal.SIGTERM)

    def test_a_program_that_is_not_there_is_127_as_in_a_shell(self, shared: Machine) -> None:
        result = shared.exec(["no-such-program"])
        assert result.exit_code == 127
        assert b"No such file" in result.stderr

    def test_a_file_that_cannot_be_run_is_126(self, shared: Machine) -> None:
        assert shared.exec(["/etc/passwd"]).exit_code == 126

    def test_no_argv_is_the_callers_mistake(self, shared: Machine) -> None:
        with pytest.raises(ValueError, match="empty argv"):
            shared.exec([])

    def test_an_argv_longer_than_a_frame_is_the_callers_mistake(self, shared: Machine) -> None:
        with pytest.raises(ValueError, match="fields"):
            shared.exec(["true", "x" * 300_000])

    def test_stdin_reaches_it_and_ends(self, shared: Machine) -> None:
        data = secrets.token_bytes(1_000_000)
        assert shared.exec(["cat"], stdin=data).stdout == data

    def test_stdin_that_nobody_reads_does_not_hang(self, shared: Machine) -> None:
        assert shared.exec(["true"], stdin=bytes(1_000_000)).exit_code == 0

    def test_the_environment_is_exactly_the_given_one_with_path_and_home(
        self, shared: Machine
    ) -> None:
        result = shared.exec(["/usr/bin/env"], env={"ONE": "1", "TWO": "a b=c"})
        names = dict(line.split("=", 1) for line in result.stdout.decode().splitlines())
        assert names.keys() == {"ONE", "TWO", "PATH", "HOME"}
        assert names["TWO"] == "a b=c"
        assert names["PATH"] == "/usr/local/bin:/usr/bin:/bin"

    def test_it_runs_where_it_is_told(self, shared: Machine) -> None:
        assert sh(shared, "pwd", cwd="/usr/bin") == "/usr/bin\n"
        assert sh(shared, "pwd").strip().endswith("/work")

    def test_a_folder_that_is_not_there_is_an_error_that_says_so(self, shared: Machine) -> None:
        assert shared.exec(["true"], cwd="/no/such/folder").exit_code == 127

    def test_arguments_need_not_be_utf_8(self, shared: Machine) -> None:
        raw = b"caf\xe9\xff"
        assert shared.exec(["printf", "%s", os.fsdecode(raw)]).stdout == raw

    def test_output_comes_in_order_and_while_it_runs(self, shared: Machine) -> None:
        """The command waits for what is only written once its first line has been seen."""
        seen: list[tuple[OutputStream, bytes]] = []

        def on_output(stream: OutputStream, data: bytes) -> None:
            seen.append((stream, data))
            if data == b"first\n":
                shared.write_file("/work/go", b"")

        script = "rm -f go; echo first; until [ -e go ]; do sleep 0.01; done; echo second >&2"
        assert shared.exec(["sh", "-c", script], on_output=on_output).exit_code == 0
        assert seen == [(OutputStream.STDOUT, b"first\n"), (OutputStream.STDERR, b"second\n")]

    def test_output_beyond_the_cap_is_dropped_and_the_command_goes_on(
        self, shared: Machine
    ) -> None:
        script = "head -c 3000000 /dev/zero; echo done >&2"
        result = shared.exec(["sh", "-c", script], output_cap=1000)
        assert result.truncated
        assert (result.stdout, result.stderr) == (bytes(1000), b"done\n")

    def test_output_of_exactly_the_cap_is_whole(self, shared: Machine) -> None:
        result = shared.exec(["head", "-c", "1000", "/dev/zero"], output_cap=1000)
        assert not result.truncated

    def test_a_slow_reader_of_output_gets_all_of_it(self, shared: Machine) -> None:
        sizes: list[int] = []

        def slowly(_stream: OutputStream, data: bytes) -> None:
            sizes.append(len(data))
            time.sleep(0.02)

        result = shared.exec(["head", "-c", "2000000", "/dev/zero"], on_output=slowly)
        assert sum(sizes) == len(result.stdout) == 2_000_000

    def test_a_callers_error_in_on_output_ends_the_command_only(self, shared: Machine) -> None:
        class CallerError(Exception):
            pass

        def fail(_stream: OutputStream, _data: bytes) -> None:
            raise CallerError

        with pytest.raises(CallerError):
            shared.exec(["sh", "-c", "echo x; exec sleep 1000"], on_output=fail)
        eventually(lambda: "sleep 1000" not in _commands(shared))

    def test_a_daemon_outlives_its_command_and_does_not_delay_it(self, shared: Machine) -> None:
        began = time.monotonic()
        sh(shared, "(setsid sh -c 'sleep 0.2; echo late; echo x > daemon-was-here' &)")
        assert time.monotonic() - began < 5.0
        eventually(lambda: shared.exec(["test", "-e", "daemon-was-here"]).exit_code == 0)

    def test_commands_run_at_the_same_time(self, shared: Machine) -> None:
        sh(shared, "rm -f a b")
        one, errors = in_background(
            lambda: sh(shared, "touch a; until [ -e b ]; do sleep 0.01; done", timeout_s=20)
        )
        sh(shared, "until [ -e a ]; do sleep 0.01; done; touch b", timeout_s=20)
        one.join()
        assert not errors


class TestTimeout:
    def test_it_kills_the_whole_tree_daemons_included(self, shared: Machine) -> None:
        script = """
            (setsid sh -c 'setsid sleep 1001 & sleep 1002' &)
            env -i sleep 1003 &
            echo started
            exec sleep 1004
        """
        result = shared.exec(["sh", "-c", script], timeout_s=0.5)
        assert result.timed_out
        assert (result.exit_code, result.signal) == (None, signal.SIGKILL)
        assert result.stdout == b"started\n"
        assert 0.5 <= result.seconds < 5.0
        assert "sleep 100" not in _commands(shared)

    def test_it_spares_a_daemon_of_an_earlier_command(self, shared: Machine) -> None:
        sh(shared, "setsid sh -c 'echo $$ > daemon; exec sleep 2001' >/dev/null 2>&1 &")
        assert shared.exec(["sleep", "1000"], timeout_s=0.2).timed_out
        assert "sleep 2001" in _commands(shared)
        sh(shared, "kill $(cat daemon)")

    def test_it_counts_for_a_command_that_ignores_signals_and_floods(self, shared: Machine) -> None:
        result = shared.exec(["sh", "-c", "trap '' TERM INT; yes"], timeout_s=0.5, output_cap=10)
        assert result.timed_out
        assert result.stdout == b"y\ny\ny\ny\ny\n"


class TestUsers:
    def test_commands_are_work_and_hold_no_capability(
        self, isolating: Provider, shared: Machine
    ) -> None:
        assert sh(shared, "id -u; id -g; id -G").split() == ["1000", "1000", "1000"]
        status = sh(shared, "grep -E '^Cap(Prm|Eff|Amb)' /proc/self/status").split()
        assert set(status[1::2]) == {"0" * 16}

    def test_root_is_root_inside(self, isolating: Provider, shared: Machine) -> None:
        assert sh(shared, "id -u; echo $HOME", user=GuestUser.ROOT).split() == ["0", "/root"]

    def test_a_machine_with_one_user_says_that_it_has_no_root(
        self, provider: Provider, shared: Machine
    ) -> None:
        if provider.name != "fake":
            pytest.skip("this provider has both users here")
        with pytest.raises(Unsupported, match="root"):
            shared.exec(["true"], user=GuestUser.ROOT)

    def test_work_cannot_signal_the_agent(self, isolating: Provider, shared: Machine) -> None:
        assert shared.exec(["sh", "-c", "kill -STOP 1"]).exit_code != 0

    def test_work_cannot_signal_the_agent_while_it_starts_commands(
        self, isolating: Provider, shared: Machine
    ) -> None:
        """Its ids are looked at all the time by one process, and each new one tries at once."""
        sh(shared, "rm -f enough")
        watched, errors = in_background(lambda: sh(shared, f"exec python3 -c '{SIGNAL_THE_AGENT}'"))
        try:
            for _ in range(100):
                assert shared.exec(["sh", "-c", "kill -0 1"]).exit_code != 0
        finally:
            sh(shared, "touch enough")
            watched.join(PATIENCE_S)
        assert not errors


class TestFiles:
    def test_twenty_megabytes_come_back_as_they_were(self, shared: Machine) -> None:
        data = secrets.token_bytes(20_000_000)
        shared.write_file("/work/large", data)
        assert shared.read_file("/work/large") == data

    def test_a_file_is_streamed_in_and_out(self, shared: Machine) -> None:
        data = secrets.token_bytes(300_000)
        shared.write_file("/work/streamed", io.BytesIO(data))
        into = io.BytesIO()
        assert shared.copy_out("/work/streamed", into) == len(data)
        assert into.getvalue() == data

    def test_an_empty_file(self, shared: Machine) -> None:
        shared.write_file("/work/empty", b"")
        assert shared.read_file("/work/empty") == b""

    def test_parents_mode_and_owner(self, isolating: Provider, shared: Machine) -> None:
        shared.write_file("/work/parent/b/c.sh", b"#!/bin/sh\n", mode=0o755)
        assert _mode_and_owner(shared, "/work/parent/b/c.sh") == "755 1000\n"
        assert _mode_and_owner(shared, "/work/parent/b") == "755 1000\n"
        shared.write_file("/work/by-root", b"", mode=0o600, user=GuestUser.ROOT)
        assert _mode_and_owner(shared, "/work/by-root") == "600 0\n"

    def test_a_file_replaces_what_was_there_and_leaves_nothing_else(self, shared: Machine) -> None:
        sh(shared, "mkdir -p r; echo old > r/target; ln -sf target r/link")
        shared.write_file("/work/r/link", b"new")
        assert shared.read_file("/work/r/link") == b"new"
        assert shared.read_file("/work/r/target") == b"old\n"
        assert sh(shared, "cd r && printf '%s\\n' .* *").split() == [".", "..", "link", "target"]

    def test_work_may_not_write_what_is_roots(self, isolating: Provider, shared: Machine) -> None:
        with pytest.raises(OSError, match=r"Permission denied|Read-only"):
            shared.write_file("/etc/planted", b"")

    def test_a_missing_file(self, shared: Machine) -> None:
        with pytest.raises(FileNotFoundError, match="no-such"):
            shared.read_file("/work/no-such")

    def test_a_path_must_be_absolute(self, shared: Machine) -> None:
        with pytest.raises(ValueError, match="absolute"):
            shared.read_file("work")

    def test_only_regular_files_are_read(self, shared: Machine) -> None:
        sh(shared, "mkdir -p odd; cd odd; rm -f *; mkfifo fifo; ln -s /etc/passwd symlink")
        for name in ("fifo", "symlink"):
            with pytest.raises(OSError, match=name):
                shared.read_file(f"/work/odd/{name}")
        with pytest.raises(IsADirectoryError):
            shared.read_file("/work/odd")

    def test_a_folder_is_not_replaced_by_a_file(self, shared: Machine) -> None:
        sh(shared, "mkdir -p folder")
        with pytest.raises(IsADirectoryError):
            shared.write_file("/work/folder", b"x")

    def test_a_file_beyond_the_limit_ends_the_machine(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        machine.write_file("/work/f", bytes(1001))
        with pytest.raises(GuestMisbehaved, match="larger"):
            machine.read_file("/work/f", max_bytes=1000)
        with pytest.raises(GuestMisbehaved):
            machine.exec(["true"])

    def test_a_full_disk_is_an_error_and_not_the_end(
        self, isolating: Provider, make_machine: MakeMachine
    ) -> None:
        machine = make_machine(disk_mib=16)
        with pytest.raises(OSError, match=r"No space|too large"):
            machine.write_file("/work/f", bytes(20 * 1024 * 1024))
        result = machine.exec(["sh", "-c", "head -c 20000000 /dev/zero > a"])
        assert result.stderr
        assert machine.exec(["rm", "-f", "/work/a"]).exit_code == 0

    def test_a_tree_goes_in_and_out(self, shared: Machine) -> None:
        members = {"top.txt": b"1", "deep/er/file": secrets.token_bytes(200_000)}
        shared.write_tree("/work/tree/in", io.BytesIO(_tar(members)))
        assert shared.read_file("/work/tree/in/top.txt") == b"1"
        into = io.BytesIO()
        size = shared.read_tree("/work/tree/in", into)
        assert size == len(into.getvalue())
        assert _untar(into.getvalue()) == members

    def test_an_unpacked_tree_belongs_to_work(self, isolating: Provider, shared: Machine) -> None:
        shared.write_tree("/work/owned", io.BytesIO(_tar({"f": b""})))
        assert _mode_and_owner(shared, "/work/owned/f").endswith(" 1000\n")

    def test_a_broken_tar_is_an_error(self, shared: Machine) -> None:
        with pytest.raises(OSError, match="unpacking"):
            shared.write_tree("/work/broken", io.BytesIO(b"x" * 2000))

    def test_a_missing_tree(self, shared: Machine) -> None:
        with pytest.raises(FileNotFoundError):
            shared.read_tree("/work/no-such-tree", io.BytesIO())


FETCH = """
import socket, sys
port, message = int(sys.argv[1].rpartition(":")[2]), sys.argv[2].encode()
with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
    sock.sendall(message)
    sock.shutdown(socket.SHUT_WR)
    sys.stdout.write(sock.makefile("rb").read().decode())
"""
PROXY = "127.0.0.1:3128"


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


class TestEnd:
    def test_kill_while_a_command_runs(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        started = threading.Event()
        thread, raised = in_background(
            lambda: machine.exec(
                ["sh", "-c", "echo; exec sleep 1000"], on_output=lambda *_: started.set()
            )
        )
        assert started.wait(PATIENCE_S)
        processes = _processes(machine)
        machine.kill()
        thread.join(PATIENCE_S)
        assert _lost_reason(raised) == "killed"
        _assert_gone(machine, processes)

    def test_kill_is_idempotent_and_works_from_several_threads(
        self, make_machine: MakeMachine
    ) -> None:
        machine = make_machine()
        threads = [in_background(machine.kill) for _ in range(5)]
        for thread, raised in threads:
            thread.join(PATIENCE_S)
            assert not raised
        machine.kill()
        with pytest.raises(MachineLost, match="killed"):
            machine.exec(["true"])

    def test_the_deadline_ends_it_within_a_second(self, make_machine: MakeMachine) -> None:
        machine = make_machine(ttl_s=1.0)
        with pytest.raises(MachineLost) as caught:
            machine.exec(["sleep", "1000"])
        assert caught.value.reason == "deadline"
        assert 0.9 < time.time() - machine.receipt.created_at < 2.0
        assert not machine.directory.exists()

    def test_a_machine_that_ends_by_itself_is_lost(self, make_machine: MakeMachine) -> None:
        machine = make_machine()
        os.kill(_record(machine)["machine_pid"], signal.SIGKILL)
        with pytest.raises(MachineLost) as caught:
            machine.exec(["sleep", "1000"])
        assert caught.value.reason == "exited"

    def test_memory_is_bounded(self, isolating: Provider, make_machine: MakeMachine) -> None:
        machine = make_machine(memory_mib=128, disk_mib=64)
        hog = "x = bytearray(1_000_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1"
        try:
            result = machine.exec(["/usr/bin/python3", "-c", hog])
        except MachineLost as lost:
            ended_by = lost.reason
        else:
            ended_by = f"signal {result.signal}"
        assert ended_by in ("oom", f"signal {signal.SIGKILL}")


class TestOtherProcesses:
    def test_a_workers_death_takes_its_machine_along(
        self, provider: Provider, template: Template, tmp_path: Path
    ) -> None:
        with Creator(provider.name, template, tmp_path) as creator:
            assert creator.processes
            os.kill(creator.pid, signal.SIGKILL)
            creator.assert_machine_gone()

    def test_the_deadline_counts_while_the_worker_is_stopped(
        self, provider: Provider, template: Template, tmp_path: Path
    ) -> None:
        with Creator(provider.name, template, tmp_path, ttl_s=1.5) as creator:
            os.kill(creator.pid, signal.SIGSTOP)
            creator.assert_machine_gone()
            os.kill(creator.pid, signal.SIGKILL)

    def test_another_process_lists_and_reaps(
        self, provider: Provider, template: Template, tmp_path: Path
    ) -> None:
        with Creator(provider.name, template, tmp_path) as creator:
            listed = creator.provider.list()
            assert [(info.run_id, info.alive) for info in listed] == [("run-1", True)]
            assert creator.provider.reap("another-run") == 0
            assert creator.provider.reap("run-1") == 1
            creator.assert_machine_gone()
            assert creator.provider.list() == []
            assert creator.provider.reap("run-1") == 0

    def test_a_killed_supervisor_takes_its_machine_along_and_its_leftover_is_reaped(
        self, provider: Provider, template: Template, tmp_path: Path
    ) -> None:
        with Creator(provider.name, template, tmp_path) as creator:
            [info] = creator.provider.list()
            os.kill(info.supervisor_pid, signal.SIGKILL)
            if provider.name != "fake":  # whose commands no namespace ties to it
                eventually(lambda: not creator.living())
            eventually(lambda: not any(info.alive for info in creator.provider.list()))
            assert creator.provider.reap("run-1") == 1
            assert creator.provider.list() == []
            creator.sweep()


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
        one.write_file("/work/f", b"mine")
        with pytest.raises(FileNotFoundError):
            two.read_file("/work/f")
        sh(one, "setsid sleep 3001 >/dev/null 2>&1 &")
        assert "sleep 3001" in _commands(one)
        assert "sleep 3001" not in _commands(two)

    def test_the_host_name_says_nothing(self, isolating: Provider, shared: Machine) -> None:
        assert re.fullmatch(r"drydock(-[0-9a-f]{8})?\n", sh(shared, "uname -n"))


class TestCreate:
    def test_the_receipt_names_tier_and_template(
        self, provider: Provider, shared: Machine, template: Template
    ) -> None:
        assert shared.receipt.tier == shared.tier
        assert shared.tier.partition("-")[0] == provider.name
        assert shared.receipt.template_digest == template.digest

    def test_a_template_without_a_root_file_system_is_refused(
        self, isolating: Provider, tmp_path: Path
    ) -> None:
        spec = MachineSpec(run_id="r", template=Template("gone", "0" * 64, tmp_path))
        with pytest.raises(ProviderFailed, match="drydock template"):
            isolating.create(spec, lambda _: None)

    def test_a_machine_that_cannot_start_says_why_and_leaves_nothing(
        self, isolating: Provider, tmp_path: Path
    ) -> None:
        python = tmp_path / "rootfs/usr/bin/python3"
        python.parent.mkdir(parents=True)
        python.write_text("not a program")
        python.chmod(0o755)
        spec = MachineSpec(run_id="r", template=Template("broken", "0" * 64, tmp_path))
        with pytest.raises(ProviderFailed, match=r"did not start|is no baked template"):
            isolating.create(spec, lambda _: None)
        assert [info for info in isolating.list() if info.run_id == "r"] == []

    def test_it_works_here(self, provider: Provider) -> None:
        assert provider.probe().ok


class Creator:
    """A worker of its own: a process that makes a machine, runs a command in it and waits."""

    SCRIPT = """
import sys
from pathlib import Path
from sandbox.provider import MachineSpec, Template
from sandbox.providers import make_provider

name, state_dir, path, digest, ttl_s = sys.argv[1:]
spec = MachineSpec("run-1", Template("default", digest, Path(path)), ttl_s=float(ttl_s))
machine = make_provider(name, Path(state_dir)).create(spec, lambda connection: None)
machine.exec(["sh", "-c", "setsid sleep 4001 & echo up; exec sleep 4002"],
             on_output=lambda *_: print("up", flush=True))
"""

    def __init__(self, name: str, template: Template, state_dir: Path, ttl_s: float = 60) -> None:
        self.provider = make_provider(name, state_dir)
        argv = [name, str(state_dir), str(template.path), template.digest, str(ttl_s)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", self.SCRIPT, *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self._process.pid
        self._state_dir = state_dir

    def __enter__(self) -> Creator:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"up\n"
        [info] = self.provider.list()
        pids = [info.supervisor_pid, *descendants(info.supervisor_pid)]
        self.processes = {pid: start_time(pid) for pid in pids}
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.kill()
        self._process.communicate()
        self.provider.reap("run-1")

    def living(self) -> list[int]:
        return [pid for pid, started in self.processes.items() if start_time(pid) == started]

    def assert_machine_gone(self) -> None:
        eventually(lambda: not self.living())
        eventually(lambda: not list((self._state_dir / "machines").iterdir()))

    def sweep(self) -> None:
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)


def _mode_and_owner(machine: Sandbox, path: str) -> str:
    script = "import os, sys; s = os.stat(sys.argv[1]); print('%o' % (s.st_mode & 0o777), s.st_uid)"
    return python(machine, script, path)


def _commands(machine: Sandbox) -> str:
    """The command lines of all processes that this machine shows, one a line."""
    script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null"
    return machine.exec(["sh", "-c", script]).stdout.decode()


def _record(machine: Machine) -> dict[str, int]:
    record: dict[str, int] = json.loads((machine.directory / "machine.json").read_text())
    return record


def _processes(machine: Machine) -> dict[int, int]:
    supervisor = _record(machine)["supervisor_pid"]
    return {pid: start_time(pid) for pid in [supervisor, *descendants(supervisor)]}


def _assert_gone(machine: Machine, processes: dict[int, int]) -> None:
    assert [pid for pid, started in processes.items() if start_time(pid) == started] == []
    assert not machine.directory.exists()


def _lost_reason(raised: list[BaseException]) -> str:
    [error] = raised
    assert isinstance(error, MachineLost)
    return error.reason


def _tar(members: dict[str, bytes]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return into.getvalue()


def _untar(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = [member for member in tar if member.isfile()]
        return {m.name.removeprefix("./"): tar.extractfile(m).read() for m in files}  # type: ignore[union-attr]
