"""Looking for the host's canaries in files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator

from cli.boundary.inside.attempt import FACTS, Open

# Written so that this file does not hold what it looks for.
MARK = b"drydock-" + b"canary-"
CANARY = re.compile(MARK + b"[0-9a-f]{32}")
MAX_FILE = 64 * 1024 * 1024
TAIL = 64
# Made once: to have room for each of a disk's files anew takes longer than to search them.
_BUFFER = bytearray(1 << 20)
_VIEW = memoryview(_BUFFER)
SKIPPED = ("/proc", "/sys/kernel", "/sys/devices")


def files() -> Iterator[str]:
    """Regular files below the root, by no more calls than a walk takes: there are many."""
    skipped = (*SKIPPED, *FACTS["searched_already"])
    folders = ["/"]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # what cannot be listed holds nothing for us
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.path.startswith(skipped):
                folders.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry.path


def search(path: str, limit: int = MAX_FILE) -> None:
    """Raise Open when a file holds a canary. What cannot be read holds nothing for us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        seen = kept = 0
        while seen < limit and (count := os.readv(fd, [_VIEW[kept:]])):
            _judge(path, kept + count)
            seen += count
            kept = _keep_tail(kept + count)
    except OSError:
        return
    finally:
        os.close(fd)


def _judge(path: str, end: int) -> None:
    # The plain search first: a regular expression over a whole disk takes its time.
    if _BUFFER.find(MARK, 0, end) >= 0 and (found := CANARY.search(_BUFFER, 0, end)):
        known = hashlib.sha256(found[0]).hexdigest() in FACTS["canaries"]
        raise Open(f"{path} holds a {'secret' if known else 'canary'} of the host")


def _keep_tail(end: int) -> int:
    """Move what may be a canary's beginning to the front; returns how many bytes that is."""
    kept = min(end, TAIL)
    _BUFFER[:kept] = _BUFFER[end - kept : end]
    return kept
