"""Work in a process of its own comes back with its result, its error, or at its bounds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import billiard
import pytest

from tests.sandbox.waiting import eventually
from workers import bounded
from workers.bounded import Bounds, OutOfBounds, run_bounded
from workers.git import GitFailed

ROOM = Bounds(seconds=60, data_bytes=512 << 20)
SOON = Bounds(seconds=1, data_bytes=512 << 20)


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


def vanish() -> None:
    os._exit(3)


def start_sleeper(path: str) -> None:
    """As git is started: a session of its own."""
    child = subprocess.Popen(["/usr/bin/sleep", "7001"], start_new_session=True)
    Path(path).write_text(str(child.pid))


def sleep_beside(path: str) -> None:
    start_sleeper(path)
    time.sleep(7001)


def vanish_beside(path: str) -> None:
    start_sleeper(path)
    os._exit(3)


def test_what_it_returns_comes_back() -> None:
    assert run_bounded(ROOM, double, 21) == 42


def test_what_it_raises_is_raised_with_the_place_where_it_was() -> None:
    with pytest.raises(GitFailed) as caught:
        run_bounded(ROOM, fail_as_git)
    assert (caught.value.argv, caught.value.exit_code) == (("git", "log"), 128)
    assert caught.value.stderr == "fatal: bad object"
    assert "in fail_as_git" in "".join(caught.value.__notes__)


def answer(answers: Any) -> None:
    answers.put(run_bounded(ROOM, double, 21))


def test_a_process_of_celerys_may_ask_although_it_is_a_daemon() -> None:
    run_bounded(ROOM, double, 1)
    answers = billiard.Queue()
    daemon = billiard.Process(target=answer, args=(answers,), daemon=True)
    daemon.start()
    assert answers.get(timeout=30) == 42
    daemon.join(10)
    assert daemon.exitcode == 0


def test_a_server_that_is_gone_is_started_again() -> None:
    run_bounded(ROOM, double, 1)
    running = bounded._SERVER._running
    assert running is not None
    running[0].kill()
    running[0].wait()
    assert run_bounded(ROOM, double, 21) == 42


def test_a_search_that_never_ends_is_ended() -> None:
    with pytest.raises(OutOfBounds, match="longer than 1 s"):
        run_bounded(SOON, search_for_ever)


@pytest.mark.parametrize("work", [grow, vanish])
def test_what_needs_too_much_memory_or_is_ended_for_it_is_out_of_bounds(work: object) -> None:
    with pytest.raises(OutOfBounds, match="more than 512 MiB"):
        run_bounded(ROOM, work)  # type: ignore[arg-type]


@pytest.mark.parametrize("work", [sleep_beside, vanish_beside])
def test_what_it_had_started_is_gone_with_it(work: object, tmp_path: Path) -> None:
    with pytest.raises(OutOfBounds):
        run_bounded(SOON, work, str(tmp_path / "pid"))  # type: ignore[arg-type]
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_what_it_leaves_when_it_is_done_is_gone_as_well(tmp_path: Path) -> None:
    run_bounded(ROOM, start_sleeper, str(tmp_path / "pid"))
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_one_ends_while_a_later_one_goes_on(tmp_path: Path) -> None:
    """The first is there before the second, which must not hold what the first is heard by."""
    first, second = tmp_path / "first", tmp_path / "second"
    with ThreadPoolExecutor(2) as pool:
        quick = pool.submit(run_bounded, Bounds(1, 512 << 20), sleep_alone, str(first))
        eventually(first.exists)
        slow = pool.submit(run_bounded, Bounds(4, 512 << 20), sleep_alone, str(second))
        with pytest.raises(OutOfBounds, match="longer than 1 s"):
            quick.result()
        assert not slow.done()
        with pytest.raises(OutOfBounds, match="longer than 4 s"):
            slow.result()


def is_alive(pid: int) -> bool:
    """Whether it is there, and more than what its parent has not collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def sleep_alone(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(7001)


def test_it_goes_with_the_process_that_asked_for_it(tmp_path: Path) -> None:
    script = (
        "from tests.workers.test_bounded import *\n"
        f"run_bounded(ROOM, sleep_beside, '{tmp_path}/pid')\n"
    )
    asker = subprocess.Popen([sys.executable, "-c", script])
    eventually(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text()), 30)
    asker.kill()
    asker.wait()
    eventually(lambda: not is_alive(int((tmp_path / "pid").read_text())))
