from __future__ import annotations

import multiprocessing
import stat
import threading
from pathlib import Path

import pytest

from app.web.counts import SharedCounts

NAMES = ("a", "b")


def _add(path: Path, times: int) -> None:
    counts = SharedCounts(path, NAMES)
    for _ in range(times):
        counts.add("b")


def test_what_was_never_counted_is_zero(tmp_path: Path) -> None:
    assert SharedCounts(tmp_path / "deep" / "counts", NAMES).read() == {"a": 0, "b": 0}


def test_counts_survive_their_process_and_a_longer_list_of_names(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    _add(path, 2)
    assert SharedCounts(path, (*NAMES, "c")).read() == {"a": 0, "b": 2, "c": 0}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_unknown_name_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        SharedCounts(tmp_path / "counts", NAMES).add("c")


def test_threads_and_processes_count_together(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    spawn = multiprocessing.get_context("spawn")
    process = spawn.Process(target=_add, args=(path, 100))
    threads = [threading.Thread(target=_add, args=(path, 100)) for _ in range(3)]
    process.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.join()
    assert SharedCounts(path, NAMES).read()["b"] == 400
