"""The supervisor with ordinary processes as its machines."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.launch import Identity, Launch, Supervised
from sandbox.supervisor import descendants, start_time

PATIENCE_S = 10.0
Start = Callable[..., tuple[Supervised, socket.socket]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "machines/m-1"


@pytest.fixture
def start(directory: Path) -> Iterator[Start]:
    """Start a Python script as the machine; its stdin and stdout are the returned socket."""
    running: list[tuple[Supervised, socket.socket]] = []

    def make(
        script: str, *, ttl_s: float = 60.0, memory_bytes: int = 1 << 40, **more: object
    ) -> tuple[Supervised, socket.socket]:
        argv = (sys.executable, "-I", "-S", "-c", script)
        launch = Launch(argv=argv, memory_bytes=memory_bytes, **more)  # type: ignore[arg-type]
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE_S)
        identity = Identity("m-1", "run-1", "test", "d" * 64, time.time())
        with theirs:
            supervised = Supervised(launch, identity, directory, ttl_s, theirs.fileno())
        running.append((supervised, ours))
        return supervised, ours

    yield make
    for supervised, sock in running:
        supervised.kill()
        sock.close()


READY = "import os, time; os.write(1, b'ready'); "
# A daemon in a session of its own, which writes its pid and outlives its parents.
DAEMON = (
    "import os, time\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.write(1, b'%d' % os.getpid()); time.sleep(1000)\n"
    "    os._exit(0)\n"
    "os.wait(); time.sleep(1000)\n"
)


def ended(supervised: Supervised) -> str:
    report = supervised.wait(PATIENCE_S)
    assert report is not None
    return report.reason


def test_the_machine_has_the_socket_and_nothing_else_of_ours(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYDOCK_TEST_SECRET", "a secret")
    script = (
        "import os; os.write(1, repr((dict(os.environ), os.getcwd(), "
        "sorted(map(int, os.listdir('/proc/self/fd'))))).encode())"
    )
    supervised, sock = start(script, env={"ONE": "1"})
    environment, folder, fds = eval(sock.recv(65536))  # noqa: S307  our own script's repr
    assert {name: value for name, value in environment.items() if name != "LC_CTYPE"} == {
        "ONE": "1"
    }
    assert folder == "/"
    assert fds == [0, 1, 2, 3]  # 3 is the listing itself
    assert ended(supervised) == "exited"


def test_a_machine_that_ends_tells_its_last_words(start: Start, directory: Path) -> None:
    supervised, _ = start("import sys; sys.stderr.write('x' * 100_000 + 'the reason'); sys.exit(3)")
    assert ended(supervised) == "exited"
    assert supervised.report is not None
    assert supervised.report.stderr.endswith("the reason")
    assert len(supervised.report.stderr) <= 8 * 1024
    assert not directory.exists()


def test_a_program_that_is_not_there_says_so(start: Start, tmp_path: Path) -> None:
    supervised, _ = start("", open_paths=((str(tmp_path / "missing"), os.O_RDONLY),))
    assert ended(supervised) == "exited"
    assert supervised.report is not None
    assert "missing" in supervised.report.stderr


def test_files_and_opened_paths_are_there(start: Start, directory: Path) -> None:
    script = "import os; os.write(1, os.read(10, 100))"
    path = directory / "config"
    _, sock = start(script, files={"config": "text"}, open_paths=((str(path), os.O_RDONLY),))
    assert sock.recv(100) == b"text"


def test_the_deadline_ends_it(start: Start, directory: Path) -> None:
    began = time.monotonic()
    supervised, sock = start(READY + "time.sleep(1000)", ttl_s=0.5)
    sock.recv(100)
    assert ended(supervised) == "deadline"
    assert 0.5 <= time.monotonic() - began < 2.0
    assert not directory.exists()


def test_the_deadline_is_not_put_off_by_ignored_signals(start: Start) -> None:
    script = (
        "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; "
        + READY
        + "time.sleep(1000)"
    )
    supervised, _ = start(script, ttl_s=0.5)
    assert ended(supervised) == "deadline"


@pytest.mark.parametrize("how", ["kill", "SIGTERM"])
def test_daemons_die_with_it(start: Start, directory: Path, how: str) -> None:
    supervised, sock = start(DAEMON)
    daemon = int(sock.recv(100))
    began = start_time(daemon)
    assert began
    if how == "kill":
        supervised.kill()
    else:
        record = json.loads((directory / "machine.json").read_text())
        os.kill(record["supervisor_pid"], signal.SIGTERM)
    assert ended(supervised) == "killed"
    assert start_time(daemon) != began


def test_daemons_die_when_the_machine_ends_by_itself(start: Start, directory: Path) -> None:
    supervised, sock = start(DAEMON)
    daemon = int(sock.recv(100))
    began = start_time(daemon)
    os.kill(json.loads((directory / "machine.json").read_text())["machine_pid"], signal.SIGKILL)
    assert ended(supervised) == "exited"
    assert start_time(daemon) != began


def test_no_zombie_is_left(start: Start) -> None:
    supervised, sock = start(DAEMON)
    sock.recv(100)
    supervised.kill()
    for pid in descendants(os.getpid()):
        assert "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_kill_from_several_threads(start: Start) -> None:
    supervised, _ = start(READY + "time.sleep(1000)")
    threads = [threading.Thread(target=supervised.kill) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert ended(supervised) == "killed"


def test_memory_is_polled_where_there_is_no_cgroup(start: Start) -> None:
    hog = "x = bytearray(200_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\n"
    supervised, _ = start(hog + READY + "time.sleep(1000)", memory_bytes=100_000_000)
    assert ended(supervised) == "oom"


def test_a_supervisor_that_is_killed_is_an_end_too(start: Start, directory: Path) -> None:
    supervised, sock = start(READY + "time.sleep(1000)")
    sock.recv(100)
    record = json.loads((directory / "machine.json").read_text())
    os.kill(record["supervisor_pid"], signal.SIGKILL)
    assert ended(supervised) == "exited"
    assert sock.recv(100) == b""  # PR_SET_PDEATHSIG took the machine along
