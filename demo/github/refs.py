"""The refs of a bare repository, read as the files that they are.

Asking git takes a process for each question, and a page of GitHub asks dozens. Nothing packs refs
here; where somebody did, or a ref is more than a name and an object, None sends the asker to git.
See https://git-scm.com/docs/gitrepository-layout
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_OBJECT = re.compile(r"[0-9a-f]{40}\n?")


def read_refs(repo: Path, prefix: str) -> dict[str, str] | None:
    """Return the refs that are `prefix` or below it, sorted by name; None: ask git."""
    if (repo / "packed-refs").exists():
        return None
    start = f"{prefix.rstrip('/')}/"
    found = {}
    for name, target in _loose(repo):
        if target is None:
            return None
        if f"{name}/".startswith(start):
            found[name] = target
    return dict(sorted(found.items()))


def _loose(repo: Path) -> Iterator[tuple[str, str | None]]:
    for folder, _, files in os.walk(repo / "refs"):
        for path in (Path(folder, file) for file in files):
            # What somebody is just writing: no ref may be called so.
            if path.suffix != ".lock":
                name = os.fsencode(path.relative_to(repo)).decode("utf-8", "replace")
                yield name, _target(path)


def _target(path: Path) -> str | None:
    try:
        text = path.read_text("ascii", "replace")
    except FileNotFoundError:
        # Deleted between the look and the reading: git, asked now, sees one or the other.
        return None
    return text.strip() if _OBJECT.fullmatch(text) else None
