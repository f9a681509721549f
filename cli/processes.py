"""Runs a group of child processes as one thing: start, restart, stop in order, leave nothing.

Children get an argument list and a built environment; `setpriv --pdeathsig` makes the kernel end
them when this process dies, however it dies (prctl(2), PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

PASSED_ON = (
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "OPENAI_API_KEY",
    "OPENAI_API_BASE",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_API_BASE",
)
FIRST_BACKOFF_S = 1.0
LAST_BACKOFF_S = 30.0
CALM_AFTER_S = 60.0


def child_environment(environment: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return what a child of ours may see: our own settings, and the few names it needs."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in PASSED_ON or name.startswith("DRYDOCK_")
    }
    return {**kept, **extra}


@dataclass(frozen=True)
class Part:
    """One child. `stop_s` is how long it may take to end after SIGTERM before it is killed.

    A `backing` part is what the others work with: it is stopped when they have ended.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    stop_s: float = 10.0
    backing: bool = False


@dataclass
class _Child:
    part: Part
    process: subprocess.Popen[bytes]
    started: float
    backoff_s: float = FIRST_BACKOFF_S
    restart_at: float | None = None


class ProcessGroup:
    """`start` in the order given; `watch` restarts what ends by itself; `stop` in reverse order."""

    def __init__(
        self,
        parts: Iterable[Part],
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = tuple(parts)
        self._say = say
        self._clock = clock
        self._children: list[_Child] = []
        self._stopping = threading.Event()

    def start(self) -> None:
        for part in self._parts:
            self._children.append(_Child(part, spawn(part), self._clock()))

    def request_stop(self) -> None:
        """Make `watch` return; safe in a signal handler."""
        self._stopping.set()

    def watch(self, poll_s: float = 0.2) -> None:
        """Restart whatever ends, with backoff, until `request_stop`."""
        while not self._stopping.wait(poll_s):
            for child in self._children:
                self._look_after(child)

    def _look_after(self, child: _Child) -> None:
        code = child.process.poll()
        if code is None:
            return
        if child.restart_at is None:
            self._plan_restart(child, code)
        elif self._clock() >= child.restart_at:
            child.process = spawn(child.part)
            child.started, child.restart_at = self._clock(), None

    def _plan_restart(self, child: _Child, code: int) -> None:
        calm = self._clock() - child.started > CALM_AFTER_S
        child.backoff_s = FIRST_BACKOFF_S if calm else min(child.backoff_s * 2, LAST_BACKOFF_S)
        child.restart_at = self._clock() + child.backoff_s
        self._say(
            f"{child.part.name} {_describe(code)}; starting it again in {child.backoff_s:.0f} s"
        )

    def stop(self) -> None:
        """End every child, those that back the others last; who does not listen is killed."""
        for backing in (False, True):
            these = [child for child in self._children if child.part.backing is backing]
            for child in these:
                ask_to_end(child.process)
            for child in these:
                end(child.process, child.part.stop_s)
        self._children.clear()


def spawn(part: Part, stdout: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    """Start one child; it ends when this process does. Its output goes to ours, or to `stdout`."""
    argv: Sequence[str] = part.argv
    if shutil.which("setpriv") is not None:
        argv = ("setpriv", "--pdeathsig", "TERM", "--", *part.argv)
    # A session of its own: Ctrl-C reaches us alone, and we stop the children in order.
    return subprocess.Popen(
        argv,
        env=dict(part.env),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.STDOUT if stdout is not None else None,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Ask a child to end; kill its session when it has not after `patience_s` seconds."""
    ask_to_end(process)
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, if the child is still there."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)


def _describe(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit status {code}"
