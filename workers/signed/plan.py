"""In which requests a change is told to GitHub: few, and none too large. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from workers.gate import GITLINK
from workers.objects import PathChange

# One request's share of paths and of text.
MAX_ENTRIES = 1_000
MAX_TEXT_BYTES = 4_000_000

T = TypeVar("T")


def new_content(changes: Iterable[PathChange], known: set[str]) -> tuple[str, ...]:
    """Return the content that GitHub has to be given: what is neither there nor a submodule."""
    shas = (c.sha for c in changes if not c.is_gone and c.mode != GITLINK)
    return tuple(dict.fromkeys(sha for sha in shas if sha not in known))


def steps_of(changes: Sequence[PathChange]) -> tuple[tuple[PathChange, ...], ...]:
    """Return the changes in the order in which they are to be told, in one step or two.

    What stays comes first, so that no tree between is empty. Only where a folder takes the place
    of a file, or a file that of a folder, what goes has to be told in a step before.
    """
    gone = tuple(change for change in changes if change.is_gone)
    kept = tuple(change for change in changes if not change.is_gone)
    names = {change.path for change in gone}, {change.path for change in kept}
    if _has_folder_in(*names) or _has_folder_in(*reversed(names)):
        return gone, kept
    return ((*kept, *gone),)


def _has_folder_in(paths: Iterable[bytes], names: set[bytes]) -> bool:
    return any(folder in names for path in paths for folder in _folders(path))


def _folders(path: bytes) -> Iterator[bytes]:
    at = path.rfind(b"/")
    while at > 0:
        yield path[:at]
        at = path.rfind(b"/", 0, at)


def batches(
    changes: Sequence[PathChange], sizes: Mapping[str, int]
) -> Iterator[tuple[PathChange, ...]]:
    """Divide changes by their number and by how much content they bring. `sizes` is by sha."""
    batch: list[PathChange] = []
    held = 0
    for change in changes:
        size = sizes.get(change.sha, 0)
        if batch and (len(batch) == MAX_ENTRIES or held + size > MAX_TEXT_BYTES):
            yield tuple(batch)
            batch, held = [], 0
        batch.append(change)
        held += size
    if batch:
        yield tuple(batch)


def as_text(data: bytes) -> str | None:
    """Return content as text that comes back as the same bytes; None where it is no text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
