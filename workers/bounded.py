"""Work on what a machine gave back, in a process of its own: bounds end it, whatever it is doing.

A regular expression that meets its worst text, or a list that grows without end, can be stopped in
no other way from within Python. So a run's heart goes on beating, and the host's memory is safe.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, TypeVar

T = TypeVar("T")

# A fork of a process with threads may never get on; the server has none, and imports this once.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["workers.inspection"])


class OutOfBounds(Exception):
    """The work took too long or too much; the text says which."""


@dataclass(frozen=True)
class Bounds:
    """`seconds` are by the clock; `data_bytes` are for each process that the work consists of."""

    seconds: float
    data_bytes: int


def run_bounded(bounds: Bounds, work: Callable[..., T], *args: object) -> T:
    """Return what `work` returns. OutOfBounds, or whatever it raises.

    Both have to be picklable. None of its processes is left.
    """
    receiver, sender = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(target=_work, args=(sender, bounds, work, args))
    process.start()
    sender.close()
    try:
        value: T = _outcome(receiver, bounds)
        return value
    finally:
        _end(process)
        receiver.close()


def _outcome(receiver: Connection, bounds: Bounds) -> Any:
    if not receiver.poll(bounds.seconds):
        raise OutOfBounds(f"it took longer than {bounds.seconds:.0f} s")
    try:
        value, error = receiver.recv()
    except EOFError:
        # The kernel or the interpreter ended it.
        error = MemoryError()
    if isinstance(error, MemoryError):
        raise OutOfBounds(f"it took more than {bounds.data_bytes >> 20} MiB of memory")
    if error is not None:
        raise error
    return value


def _end(process: ForkServerProcess) -> None:
    """Kill it with all that it started, and wait for it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.kill()
    process.join()
    process.close()


def _limit(what: int, most: int) -> None:
    """Only the soft limit: a program that this starts may have one of its own."""
    resource.setrlimit(what, (most, resource.getrlimit(what)[1]))


def _end_with_asker() -> None:
    """Nobody waits for the result any more: be gone, with all that was started."""
    asker = multiprocessing.parent_process()
    if asker is not None:
        asker.join()
        os.killpg(0, signal.SIGKILL)


def _work(
    sender: Connection, bounds: Bounds, work: Callable[..., object], args: Sequence[object]
) -> None:
    os.setsid()
    threading.Thread(target=_end_with_asker, daemon=True).start()
    _limit(resource.RLIMIT_DATA, bounds.data_bytes)
    # For what keeps that thread from being heard.
    _limit(resource.RLIMIT_CPU, int(bounds.seconds) + 1)
    value, error = None, None
    try:
        value = work(*args)
    except Exception as raised:  # noqa: BLE001 -- raised again where it is waited for
        raised.add_note(traceback.format_exc())
        error = raised.with_traceback(None)
    sender.send((value, error))
