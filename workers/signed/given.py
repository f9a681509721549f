"""What GitHub has been given, written down: GitHub may make us wait in the middle of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_FILE = "drydock-given"


class Given:
    """The shas of blobs and trees that GitHub has made; the next try goes on from there.

    The file lies in the quarantine and goes with it.
    """

    def __init__(self, git_dir: Path) -> None:
        self._path = git_dir / _FILE
        self._shas = set(self._path.read_text().split()) if self._path.exists() else set()

    def __contains__(self, sha: str) -> bool:
        return sha in self._shas

    def without(self, shas: Iterable[str]) -> tuple[str, ...]:
        """Return those of these that GitHub does not have yet."""
        return tuple(sha for sha in shas if sha not in self._shas)

    def add(self, *shas: str) -> None:
        with self._path.open("a") as file:
            file.writelines(f"{sha}\n" for sha in shas)
        self._shas.update(shas)
