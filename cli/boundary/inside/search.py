"""Looking for the host's canaries in files."""

from __future__ import annotations

# A machine's paths are text here, as in the agent.
# ruff: noqa: PTH118
import hashlib
import os
import re
from collections.abc import Iterator

from cli.boundary.inside.attempt import FACTS, Open

# Written so that this file does not hold what it looks for.
MARK = b"drydock-" + b"canary-"
CANARY = re.compile(MARK + b"[0-9a-f]{32}")
MAX_FILE = 64 * 1024 * 1024
SKIPPED = ("/proc", "/sys/kernel", "/sys/devices")


def files() -> Iterator[str]:
    skipped = (*SKIPPED, *FACTS["searched_already"])
    for folder, names, leaves in os.walk("/"):
        names[:] = [n for n in names if not os.path.join(folder, n).startswith(skipped)]
        yield from (os.path.join(folder, leaf) for leaf in leaves)


def search(path: str, limit: int = MAX_FILE) -> None:
    """Raise Open when a file holds a canary. What cannot be read holds nothing for us."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with os.fdopen(fd, "rb", buffering=0) as file:
        tail, seen = b"", 0
        while seen < limit:
            try:
                piece = file.read(1 << 20)
            except OSError:
                return
            if not piece:
                return
            # The plain search first: a regular expression over a whole disk takes its time.
            if MARK in tail + piece and (found := CANARY.search(tail + piece)):
                known = hashlib.sha256(found[0]).hexdigest() in FACTS["canaries"]
                raise Open(f"{path} holds a {'secret' if known else 'canary'} of the host")
            tail, seen = piece[-64:], seen + len(piece)
