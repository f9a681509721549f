from __future__ import annotations

import threading

from workers.pulse import BEAT_S, LEASE_S, Pulse

QUICK_S = 0.005


def test_the_lease_outlives_several_beats() -> None:
    assert LEASE_S > 5 * BEAT_S


def test_a_refused_beat_stops_the_run_once() -> None:
    stopped = threading.Event()
    stops = []

    def on_stop() -> None:
        stops.append(1)
        stopped.set()

    with Pulse(lambda: False, on_stop, QUICK_S) as pulse:
        assert stopped.wait(5)
        assert pulse.stopped
    assert stops == [1]


def test_a_beat_that_fails_stops_nothing() -> None:
    beats = threading.Semaphore(0)

    def beat() -> bool:
        beats.release()
        raise OSError("the database is away")

    with Pulse(beat, lambda: None, QUICK_S) as pulse:
        for _ in range(3):
            assert beats.acquire(timeout=5)
        assert not pulse.stopped


def test_it_beats_until_the_run_is_over_and_not_longer() -> None:
    beats = threading.Semaphore(0)
    with Pulse(lambda: beats.release() is None, lambda: None, QUICK_S):
        assert beats.acquire(timeout=5)
    while beats.acquire(blocking=False):
        pass
    assert not beats.acquire(timeout=20 * QUICK_S)
