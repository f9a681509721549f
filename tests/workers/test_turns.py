from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

from workers.turns import alone


def test_a_subject_is_in_one_hand_at_a_time_and_free_afterwards(tmp_path: Path) -> None:
    with alone(tmp_path, "5#3") as first, alone(tmp_path, "5#3") as second:
        assert (first, second) == (True, False)
    with alone(tmp_path, "5#3") as again:
        assert again
    assert list((tmp_path / "intake").iterdir()) == []


def test_other_subjects_are_no_hindrance(tmp_path: Path) -> None:
    with ExitStack() as stack:
        given = [stack.enter_context(alone(tmp_path, f"5#{number}")) for number in range(5)]
    assert all(given)


def test_however_many_come_and_go_there_are_never_two(tmp_path: Path) -> None:
    """A file that was opened just before its holder removed it is no turn."""
    inside = 0
    most = 0
    turns = 0
    guard = threading.Lock()

    def come_and_go() -> None:
        nonlocal inside, most, turns
        for _ in range(300):
            with alone(tmp_path, "5#3") as is_ours:
                if not is_ours:
                    continue
                with guard:
                    inside += 1
                    turns += 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=come_and_go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert turns > 0
