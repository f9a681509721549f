"""What of `confine` needs no kernel of its own; the rest is tried on real machines."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox.guest import confine
from sandbox.providers.common import CAPABILITIES


def test_commands_keep_what_they_keep_in_every_other_machine() -> None:
    assert set(confine.KEPT_CAPABILITIES) == set(CAPABILITIES)


def test_only_the_usual_devices_and_the_channel_are_left(tmp_path: Path) -> None:
    for name in ("null", "tty", "tty1", "mem", "vda", "vport2p1"):
        (tmp_path / name).touch()
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "event0").touch()
    (tmp_path / "shm").mkdir()
    confine.remove_devices(str(tmp_path))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"null", "tty", "vport2p1", "shm", "fd", "stdin", "stdout", "stderr"}
    assert str((tmp_path / "stdin").readlink()) == "/proc/self/fd/0"


def test_available_memory_is_in_bytes() -> None:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < confine.available_memory() <= total
