from __future__ import annotations

import math
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from workers.locks import locked

_HOLD = """\
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_is_in_one_hand_at_a_time_and_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "x.lock"
    with locked(path) as first, locked(path) as second:
        assert (first, second) == (True, False)
    with locked(path) as again:
        assert again


def test_whoever_has_patience_gets_it_once_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    got: list[bool] = []

    def wait() -> None:
        with locked(path, math.inf) as is_ours:
            got.append(is_ours)

    waiting = threading.Thread(target=wait)
    with locked(path):
        waiting.start()
        assert not got
    waiting.join(timeout=10)
    assert got == [True]


def test_a_process_that_is_killed_lets_go(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    argv = [sys.executable, "-c", _HOLD, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with locked(path) as while_it_lives:
            assert not while_it_lives
        holder.kill()
    with locked(path) as afterwards:
        assert afterwards


def test_whoever_removes_the_file_has_let_go(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with locked(path) as first:
        path.unlink()
        with locked(path) as second:
            assert (first, second) == (True, True)


def test_a_file_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError), locked(tmp_path / "file" / "x.lock"):
        raise AssertionError
