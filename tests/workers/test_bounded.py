"""Work in a process of its own comes back with its result, its error, or at its bounds."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import billiard
import pytest

from tests.sandbox.waiting import eventually
from workers import bounded
from workers.bounded import Bounds, JobLost, OutOfBounds, run_bounded
from workers.git import GitFailed

ROOM = Bounds(seconds=60, data_bytes=512 << 20)
SOON = replace(ROOM, seconds=3)
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def server() -> int:
    """Its pid. It is there: what it takes to import the work is not the job's time."""
    run_bounded(ROOM, double, 1)
    running = bounded._SERVER._running
    assert running is not None
    return running.process.pid


def double(number: int) -> int:
    return 2 * number


def fail_as_git() -> None:
    raise GitFailed(["git", "log"], 128, "fatal: bad object")


def search_for_ever() -> None:
    """Nothing of Python runs meanwhile, no signal handler either."""
    re.match(r"(a|aa)+$", "a" * 60 + "b")


def grow() -> None:
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


def die(signal_number: int) -> None:
    os.kill(os.getpid(), signal_number)
    time.sleep(7001)


def leave() -> None:
    sys.exit(3)


def make_a_closure() -> Any:
    return lambda: None


class Picky(Exception):
    """It can be written down and not be read again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def fail_pickily() -> None:
    raise Picky("a", "b")


def start_sleeper(path: str) -> None:
    """As git is started: a session of its own."""
    child = subprocess.Popen(["/usr/bin/sleep", "7001"], start_new_session=True)
    Path(path).write_text(str(child.pid))


def sleep_beside(path: str, folder: Path | None = None) -> None:
    """Until its folder, if it has one, holds `enough`."""
    start_sleeper(path)
    while folder is None or not (folder / "enough").exists():
        time.sleep(0.02)


def die_beside(path: str) -> None:
    start_sleeper(path)
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_alone(path: str, seconds: float = 7001) -> int:
    Path(path).write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()


def pid_in(path: Path) -> int:
    eventually(lambda: path.exists() and path.read_text() != "", 30)
    return int(path.read_text())


def is_alive(pid: int) -> bool:
    """Whether it is there, and more than what its parent has not collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# ---- what comes back --------------------------------------------------------------------------


def test_what_it_returns_comes_back() -> None:
    assert run_bounded(ROOM, double, 21) == 42


def test_a_result_of_a_hundred_megabytes_comes_back_whole() -> None:
    assert len(run_bounded(ROOM, bytes, 100_000_000)) == 100_000_000


def test_what_it_raises_is_raised_with_the_place_where_it_was() -> None:
    with pytest.raises(GitFailed) as caught:
        run_bounded(ROOM, fail_as_git)
    assert (caught.value.argv, caught.value.exit_code) == (("git", "log"), 128)
    assert caught.value.stderr == "fatal: bad object"
    assert "in fail_as_git" in "".join(caught.value.__notes__)


@pytest.mark.parametrize("work", [make_a_closure, fail_pickily])
def test_what_cannot_be_passed_on_is_told_as_that(work: Any) -> None:
    with pytest.raises(RuntimeError, match="its outcome cannot be passed on"):
        run_bounded(ROOM, work)


# ---- its bounds -------------------------------------------------------------------------------


def test_a_search_that_never_ends_is_ended() -> None:
    with pytest.raises(OutOfBounds, match="longer than 3 s"):
        run_bounded(SOON, search_for_ever)


@pytest.mark.parametrize(
    ("work", "args"), [(grow, ()), (die, (signal.SIGKILL,))], ids=["its own", "the kernel's"]
)
def test_what_needs_too_much_memory_is_out_of_bounds(work: Any, args: tuple[int, ...]) -> None:
    with pytest.raises(OutOfBounds, match="more than 512 MiB"):
        run_bounded(ROOM, work, *args)


def test_a_host_that_allows_less_is_no_harm() -> None:
    """A hard limit is its own: `ulimit -d`, or LimitDATA= of a service."""
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (400 << 20, 400 << 20))\n"
        "from tests.workers.test_bounded import *\n"
        "print(run_bounded(ROOM, double, 21))\n"
    )
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, cwd=CHECKOUT, check=False)
    assert done.stdout == b"42\n", done.stderr


# ---- what is no verdict on the work -----------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "args", "how"),
    [(die, (signal.SIGSEGV,), "by SIGSEGV"), (leave, (), "with exit status 1")],
)
def test_an_end_for_a_reason_of_its_own_is_told_as_that(
    work: Any, args: tuple[int, ...], how: str
) -> None:
    with pytest.raises(JobLost, match=how):
        run_bounded(ROOM, work, *args)


def test_a_process_of_celerys_may_ask_although_it_is_a_daemon() -> None:
    answers = billiard.Queue()
    daemon = billiard.Process(target=answer, args=(answers,), daemon=True)
    daemon.start()
    assert answers.get(timeout=30) == 42
    daemon.join(10)
    assert daemon.exitcode == 0


def answer(answers: Any) -> None:
    answers.put(run_bounded(ROOM, double, 21))


def test_the_code_that_runs_is_the_askers() -> None:
    """Whatever is installed besides: a checkout of its own is judged by itself."""
    assert run_bounded(ROOM, where_is, "workers.inspection") == where_is("workers.inspection")


def where_is(module: str) -> str | None:
    return sys.modules[module].__file__


def test_a_server_that_cannot_start_is_told(
    monkeypatch: pytest.MonkeyPatch, lonely: bounded._Server
) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/false")
    with pytest.raises(JobLost, match="no process could be started"):
        run_bounded(ROOM, double, 21)


@pytest.fixture
def lonely(monkeypatch: pytest.MonkeyPatch) -> Iterator[bounded._Server]:
    made = bounded._Server()
    monkeypatch.setattr(bounded, "_SERVER", made)
    yield made
    made.end()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_is_gone_or_stands_still_is_replaced(
    number: signal.Signals, server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "_HELLO_S", 5.0)
    os.kill(server, number)
    assert run_bounded(ROOM, double, 21) == 42


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_goes_on_when_the_server_is_told_to_end(
    number: signal.Signals, server: int, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(run_bounded, ROOM, sleep_alone, str(tmp_path / "pid"), 0.5)
        pid = pid_in(tmp_path / "pid")
        os.kill(server, number)
        assert asked.result() == pid


# ---- what is left -----------------------------------------------------------------------------


@pytest.mark.parametrize(("work", "seconds"), [(sleep_beside, 5), (die_beside, 60)])
def test_what_it_had_started_is_gone_with_it(work: Any, seconds: int, tmp_path: Path) -> None:
    with pytest.raises(OutOfBounds):
        run_bounded(replace(ROOM, seconds=seconds), work, str(tmp_path / "pid"))
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_what_it_leaves_when_it_is_done_is_gone_as_well(tmp_path: Path) -> None:
    run_bounded(ROOM, start_sleeper, str(tmp_path / "pid"))
    assert not is_alive(pid_in(tmp_path / "pid"))


def test_what_another_one_has_started_is_left_to_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(run_bounded, ROOM, sleep_beside, str(tmp_path / "pid"), tmp_path)
        pid = pid_in(tmp_path / "pid")
        run_bounded(ROOM, double, 1)
        assert is_alive(pid)
        (tmp_path / "enough").touch()
        asked.result()
    assert not is_alive(pid)


def test_one_ends_while_a_later_one_goes_on(tmp_path: Path) -> None:
    """The first is there before the second, which must not hold what the first is heard by."""
    with ThreadPoolExecutor(2) as pool:
        quick = pool.submit(run_bounded, SOON, sleep_beside, str(tmp_path / "first"))
        pid_in(tmp_path / "first")
        slow = pool.submit(run_bounded, ROOM, sleep_beside, str(tmp_path / "second"), tmp_path)
        second = pid_in(tmp_path / "second")
        assert isinstance(quick.exception(), OutOfBounds)
        assert is_alive(second)
        (tmp_path / "enough").touch()
        slow.result()


def test_it_goes_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    script = (
        "from tests.workers.test_bounded import *\n"
        f"run_bounded(ROOM, sleep_beside, '{tmp_path}/pid')\n"
    )
    asker = subprocess.Popen([sys.executable, "-c", script], cwd=CHECKOUT)
    pid = pid_in(tmp_path / "pid")
    asker.kill()
    asker.wait()
    eventually(lambda: not is_alive(pid))


def test_a_child_of_the_asker_that_holds_its_sockets_keeps_nothing_alive(tmp_path: Path) -> None:
    script = (
        "from tests.workers.test_bounded import *\n"
        f"ThreadPoolExecutor(1).submit(run_bounded, SOON, sleep_beside, '{tmp_path}/pid')\n"
        f"pid_in(Path('{tmp_path}/pid'))\n"
        "os.fork() or time.sleep(20)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    asker = subprocess.Popen([sys.executable, "-c", script], cwd=CHECKOUT, start_new_session=True)
    pid = pid_in(tmp_path / "pid")
    asker.wait()
    eventually(lambda: not is_alive(pid), 10)
    os.killpg(asker.pid, signal.SIGKILL)


def test_a_child_that_was_forked_at_a_bad_moment_starts_afresh() -> None:
    """Another thread was just starting a server, and held the lock."""
    with bounded._SERVER._lock:
        pid = os.fork()
        if pid == 0:
            bounded._SERVER._lock.acquire(timeout=0) or os._exit(1)
            bounded._SERVER._lock.release()
            os._exit(0 if run_bounded(ROOM, double, 21) == 42 else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_many_leave_no_descriptor_and_no_child(server: int) -> None:
    before = (len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{server}/fd")))  # noqa: PTH208
    for _ in range(20):
        run_bounded(ROOM, double, 1)
    after = (len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{server}/fd")))  # noqa: PTH208
    assert after == before
    eventually(lambda: not Path(f"/proc/{server}/task/{server}/children").read_text().split())


def test_a_server_waits_without_work(server: int) -> None:
    def spent() -> float:
        fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = spent()
    time.sleep(0.5)
    assert spent() - before < 0.05


def test_the_limit_of_memory_is_for_the_job_alone() -> None:
    assert run_bounded(ROOM, resource.getrlimit, resource.RLIMIT_DATA)[0] == 512 << 20
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] != 512 << 20
