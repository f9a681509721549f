from __future__ import annotations

import pytest

from workers.inspection import diffstat
from workers.recreate import FileStat


@pytest.mark.parametrize(
    ("stats", "words"),
    [
        ((), "0 files changed, +0 -0 lines"),
        ((FileStat("a", 2, 1),), "1 file changed, +2 -1 lines"),
        ((FileStat("a", 2, 1), FileStat("b.png", None, None)), "2 files changed, +2 -1 lines"),
    ],
)
def test_how_much_changed_is_said_in_one_line(stats: tuple[FileStat, ...], words: str) -> None:
    assert diffstat(stats) == words
