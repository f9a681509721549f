"""Run one program that must not outlive its caller, however the caller ends.

Usage: python3 -I guard.py PROGRAM ARGS…   (standard library only; a process of its own)

Standard input is the caller's hand: when it closes (the caller said so, died, or was killed with
SIGKILL), the program's whole group gets TERM, so that it can take down its mounts, and KILL after
`GRACE_S`. The exit status is the program's, 128 + n for a signal. The guard sits in a session of
its own, so a Ctrl-C reaches the caller first and the program in an orderly way.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys

GRACE_S = 30.0


def main(argv: list[str]) -> int:
    """Start `argv`, wait for its end or the caller's, and leave nothing of its group behind."""
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    ended = os.pidfd_open(child.pid)
    select.select([ended, sys.stdin.fileno()], [], [])
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if select.select([ended], [], [], 0)[0]:
            break
        _signal_group(child.pid, signum)
        select.select([ended], [], [], GRACE_S)
    # The leader is not reaped yet, so the group's number cannot be another's.
    _signal_group(child.pid, signal.SIGKILL)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _signal_group(pid: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signum)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
