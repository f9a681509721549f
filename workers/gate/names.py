"""Names that a file system, a terminal or git itself would trip over. Pure.

git's own `fsck` refuses most of what looks like `.git`; these checks stand by themselves, so that
no version of git has to be believed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from workers.gate.paths import canonical
from workers.gate.short_names import short_names_of
from workers.gate.values import Change, TreeFacts
from workers.git import printable

MAX_PATH_BYTES = 1_024
MAX_NAME_BYTES = 255
MAX_DEPTH = 64
_DOTGIT = re.compile(r"\.git|git~\d+")
_GIT_FILES = frozenset({".gitmodules", ".gitattributes", ".gitignore", ".mailmap"})
_SHORT_GIT_FILES = re.compile("|".join(map(short_names_of, sorted(_GIT_FILES))))
_AGENTS = re.compile(rf"\.aider.*|(?:aider[^/~]?~\d+|{short_names_of('.aiderx')})(?:\.[^/]*)?")
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|com[1-9¹²³]|lpt[1-9¹²³])(?:\..*)?", re.IGNORECASE
)
_NOT_ON_WINDOWS = re.compile(r'[<>:"|?*]')


def unsafe_name(path: bytes) -> str | None:
    """Return why nothing may be written under this path; None when it may."""
    if len(path) > MAX_PATH_BYTES:
        return f"the path is longer than {MAX_PATH_BYTES} bytes"
    parts = path.split(b"/")
    if len(parts) > MAX_DEPTH:
        return f"the path is more than {MAX_DEPTH} folders deep"
    return next((why for part in parts if (why := _unsafe_part(part)) is not None), None)


def _unsafe_part(part: bytes) -> str | None:
    if part in {b"", b".", b".."}:
        return "the path is absolute or leads elsewhere (`.`, `..` or an empty name)"
    if len(part) > MAX_NAME_BYTES:
        return f"a name is longer than {MAX_NAME_BYTES} bytes"
    text = part.decode("utf-8", "surrogateescape")
    if any(unicodedata.category(char) == "Cc" for char in text):
        return "the name holds control characters"
    if "\\" in text:
        return "the name holds a backslash, which is a folder's border on Windows"
    if text.endswith((" ", ".")):
        return "the name ends with a dot or a space, which Windows drops"
    return _look_alike(text)


def _look_alike(text: str) -> str | None:
    bare = canonical(text.encode("utf-8", "surrogateescape"))
    if is_git_folder(bare):
        return "the name is .git to a file system that ignores case or invisible characters"
    hidden = bare in _GIT_FILES and text != bare
    if hidden or _SHORT_GIT_FILES.fullmatch(bare):
        return "the name is another form of a file that git obeys"
    return None


def is_git_folder(name: str) -> bool:
    """Return whether a canonical name is that of git's own folder."""
    return _DOTGIT.fullmatch(name) is not None


def is_agents(path: bytes) -> bool:
    """Return whether the path belongs to Aider, on any file system."""
    return any(_AGENTS.fullmatch(part) for part in canonical(path).split("/"))


def odd_name(path: bytes) -> str | None:
    """Return what is odd, though not dangerous, about a path; None when nothing is."""
    text = path.decode("utf-8", "surrogateescape")
    if printable(path, 10_000) != path.decode("utf-8", "replace"):
        return "the name holds bytes that cannot be shown as they are"
    if any(_RESERVED.fullmatch(part) for part in text.split("/")):
        return "the name belongs to a device on Windows: it cannot be checked out there"
    if _NOT_ON_WINDOWS.search(text):
        return "the name holds a character that Windows does not take"
    return None


def collisions(facts: TreeFacts) -> Iterator[tuple[Change, str]]:
    """Yield every added path that a forgiving file system takes for another path of that tree.

    Folders count as well: `Src/a` and `src/b` are one folder there. Each commit's tree is followed
    from the base on; what collided before is not this run's doing.
    """
    if not any(change.old_mode == 0 for change in facts.changes):
        return
    tree = _Folded(facts.base_paths)
    for changes in _by_commit(facts.changes):
        for change in changes:
            if change.new_mode == 0:
                tree.remove(change.path)
        added = [change for change in changes if change.old_mode == 0]
        new = [(change, level) for change in added for level in tree.add(change.path)]
        for change, (form, real) in new:
            other = tree.other_than(form, real)
            if other is not None:
                yield change, printable(other)


def _by_commit(changes: Iterable[Change]) -> Iterator[list[Change]]:
    groups: dict[str, list[Change]] = {}
    for change in changes:
        if change.commit:
            groups.setdefault(change.commit, []).append(change)
    yield from groups.values()


class _Folded:
    """A tree's paths and folders by their canonical form, each with how many files need it."""

    def __init__(self, paths: Iterable[bytes]) -> None:
        self._known: dict[str, dict[bytes, int]] = {}
        for path in paths:
            self.add(path)

    def add(self, path: bytes) -> list[tuple[str, bytes]]:
        """Return the levels, form and name, that no file needed before."""
        new = []
        for form, real in _levels(path):
            names = self._known.setdefault(form, {})
            if real not in names:
                new.append((form, real))
            names[real] = names.get(real, 0) + 1
        return new

    def remove(self, path: bytes) -> None:
        for form, real in _levels(path):
            names = self._known.get(form, {})
            if names.get(real, 0) > 1:
                names[real] -= 1
            else:
                names.pop(real, None)

    def other_than(self, form: str, real: bytes) -> bytes | None:
        return next((name for name in self._known.get(form, ()) if name != real), None)


def _levels(path: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the path itself and every folder above it, with the canonical form of each."""
    form = canonical(path)
    yield form, path
    while b"/" in path:
        path, form = path.rpartition(b"/")[0], form.rpartition("/")[0]
        yield form, path
