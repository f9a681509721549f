"""What every provider promises of the commands in a machine. See `sandbox.provider`."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time

import pytest

from sandbox.machine import Machine
from sandbox.provider import WORK_DIR, GuestUser, OutputStream, Provider, Unsupported
from tests.contract.inside import commands, in_background, sh
from tests.sandbox.waiting import PATIENCE_S, eventually

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
                shared.write_file(f"{WORK_DIR}/go", b"")

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
        eventually(lambda: "sleep 1000" not in commands(shared))

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
        assert "sleep 100" not in commands(shared)

    def test_it_spares_a_daemon_of_an_earlier_command(self, shared: Machine) -> None:
        sh(shared, "setsid sh -c 'echo $$ > daemon; exec sleep 2001' >/dev/null 2>&1 &")
        assert shared.exec(["sleep", "1000"], timeout_s=0.2).timed_out
        assert "sleep 2001" in commands(shared)
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
