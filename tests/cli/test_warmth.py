from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from cli import warmth
from cli.warmth import Warmth, warmth_of
from sandbox.provider import WAITING, MachineInfo


class Kept:
    def __init__(self, run_id: str, *, alive: bool = True) -> None:
        self._info = MachineInfo("m-1", run_id, "gvisor", 1, alive, 0.0)

    def info(self) -> MachineInfo:
        return self._info


def keep(monkeypatch: pytest.MonkeyPatch, *records: Kept) -> None:
    monkeypatch.setattr(
        warmth, "find_records", lambda _, tier: list(records) if tier == "gvisor" else []
    )


def test_without_a_machine_there_is_nothing_to_be_warm(tmp_path: Path) -> None:
    assert warmth_of(tmp_path) is Warmth.NONE


def test_a_machine_that_works_or_is_dead_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(monkeypatch, Kept("run-1"), Kept(WAITING + "1", alive=False))
    assert warmth_of(tmp_path) is Warmth.NONE


def test_it_is_warm_when_no_pool_is_waking_one_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(monkeypatch, Kept(WAITING + "1"))
    with (tmp_path / "waking.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert warmth_of(tmp_path) is Warmth.WAKING
    assert warmth_of(tmp_path) is Warmth.WARM
