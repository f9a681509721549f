"""A machine at a moment: memory, device state and disk, as files that never change again.

A template's warm machine and a checkpoint of a run's machine are the same thing, in different
places. Restoring maps the memory file privately and puts a new overlay on the disk, so any number
of machines can share one snapshot, and a snapshot's files may be removed under living machines.
"""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandbox.provider import ProviderFailed, Warmth
from sandbox.providers.qemu.command import Shape

MEMORY, STATE, EMPTY, FACTS = "memory", "state", "empty.qcow2", "warm.json"
# The disk's size as the guest's driver sees it. Its file system is as large as a run's disk may be.
DISK_BYTES = 256 * 1024**3


@dataclass(frozen=True)
class Snapshot:
    """`layers` are the images above `base`, the lowest first. `filled` is what the template takes
    of the disk, in bytes."""

    path: Path
    template_digest: str
    accel: str
    shape: Shape
    base: Path
    layers: tuple[Path, ...]
    filled: int
    warmth: Warmth | None = None

    @property
    def memory(self) -> Path:
        return self.path / MEMORY

    @property
    def state(self) -> Path:
        return self.path / STATE

    @property
    def empty(self) -> Path:
        """An overlay with nothing in it, to be copied."""
        return self.path / EMPTY


def write(snapshot: Snapshot, folder: Path, **more: Any) -> None:
    """Write its facts into `folder`, which will be moved to where `snapshot.path` says.

    Its files are named as seen from there, so that a state directory can be moved.
    """
    facts = asdict(snapshot) | more
    del facts["path"]
    facts["base"] = os.path.relpath(snapshot.base, snapshot.path)
    facts["layers"] = [os.path.relpath(layer, snapshot.path) for layer in snapshot.layers]
    (folder / FACTS).write_text(json.dumps(facts, indent=2) + "\n")


def read(path: Path) -> Snapshot:
    """ProviderFailed when it is not there, or not whole."""
    try:
        facts = json.loads((path / FACTS).read_bytes())
        return Snapshot(
            path=path,
            template_digest=facts["template_digest"],
            accel=facts["accel"],
            shape=Shape(**facts["shape"]),
            base=path / facts["base"],
            layers=tuple(path / layer for layer in facts["layers"]),
            filled=facts["filled"],
            warmth=Warmth(**facts["warmth"]) if facts["warmth"] else None,
        )
    except FileNotFoundError as error:
        raise ProviderFailed(f"there is no checkpoint at {path}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ProviderFailed(f"{path} is no checkpoint of this version: remove it") from error


def keep(source: Path, folder: Path, name: str) -> Path:
    """Keep a file by a hard link in a folder. On another file system it is a template's, and stays
    where it is, guarded by its store."""
    target = folder / name
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return source
    return target
