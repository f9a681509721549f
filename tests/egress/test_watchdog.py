from __future__ import annotations

import threading
import time

from egress.watchdog import Watchdog


def test_a_late_connection_is_ended_and_knows_why() -> None:
    watchdog, ended = Watchdog(), threading.Event()
    guard = watchdog.guard(ended.set)
    assert guard is not None
    guard.allow(0.02, "its request headers")
    assert ended.wait(5)
    assert guard.expired == "its request headers"
    watchdog.release(guard)
    watchdog.close()


def test_a_connection_in_time_is_left_alone() -> None:
    watchdog, ended, other_ended = Watchdog(), threading.Event(), threading.Event()
    guard, other = watchdog.guard(ended.set), watchdog.guard(other_ended.set)
    assert guard is not None
    assert other is not None
    guard.allow(0.01, "a")
    guard.rest()
    other.allow(0.03, "b")
    assert other_ended.wait(5)
    assert not ended.is_set()
    assert guard.expired == ""
    for each in (guard, other):
        watchdog.release(each)
    watchdog.close()


def test_a_sooner_deadline_wakes_the_watchdog() -> None:
    watchdog, ended = Watchdog(), threading.Event()
    slow, quick = watchdog.guard(lambda: None), watchdog.guard(ended.set)
    assert slow is not None
    assert quick is not None
    slow.allow(60, "a")
    quick.allow(0.01, "b")
    assert ended.wait(5)
    for each in (slow, quick):
        watchdog.release(each)
    watchdog.close()


def test_closing_ends_every_connection_and_takes_no_more() -> None:
    watchdog = Watchdog()
    ended = [threading.Event() for _ in range(3)]
    for event in ended:
        guard = watchdog.guard(event.set)
        assert guard is not None
        threading.Thread(
            target=lambda guard=guard, event=event: (event.wait(5), watchdog.release(guard))
        ).start()
    started = time.monotonic()
    watchdog.close()
    watchdog.close()
    assert time.monotonic() - started < Watchdog.CLOSE_WAIT_S
    assert all(event.is_set() for event in ended)
    assert watchdog.guard(lambda: None) is None


def test_closing_does_not_wait_for_ever(monkeypatch: object) -> None:
    watchdog = Watchdog()
    watchdog.CLOSE_WAIT_S = 0.05  # type: ignore[misc]
    assert watchdog.guard(lambda: None) is not None
    watchdog.close()
