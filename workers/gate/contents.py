"""What a change adds to one file, found in its two versions as git holds them. Pure.

A line counts as added when the new version has it more often than the old. Patch text is never
looked at: what would be judged then is how a diff was printed.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from workers.gate.paths import canonical
from workers.gate.secrets import find_secrets, holds_canary
from workers.gate.values import Content, Sighting

_BINARY_HEAD = 8_000
_INSTALL = ("preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare")
_INSTALL_EVERY = (*_INSTALL, "prepublish", "dependencies", "pnpm:devPreinstall")
_FILTER = re.compile(r"\b(filter|merge)=(\S+)")
_BUILT_IN_MERGE = frozenset({"text", "binary", "union", "ours"})
_HIDES = re.compile(r"(?:^|\s)(?:-diff|binary|linguist-(?:generated|vendored)(?:=true)?)(?=\s|$)")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def look_at(
    commit: str, path: bytes, old: bytes, new: bytes, canaries: Sequence[bytes] = ()
) -> Content | None:
    """Return what is to be said about a file that changed from `old` to `new`; None for nothing."""
    form = canonical(path)
    name = form.rpartition("/")[2]
    lines = added_lines(as_text(old) if old else "", as_text(new))
    # git reads bytes, whatever mark they begin with: a mark must not hide a line from us alone.
    plain = added_lines(as_utf8(old), as_utf8(new)) if new.startswith(_WIDE_MARKS) else lines
    content = Content(
        commit=commit,
        path=path,
        binary=is_binary(new),
        secrets=_secrets_in(lines, plain),
        canary=holds_canary(new, canaries) and not holds_canary(old, canaries),
        scripts=_new_scripts(old, new) if name == "package.json" else (),
        filters=tuple(_filters(plain)) if name == ".gitattributes" else (),
        hidings=tuple(_hidings(plain)) if name == ".gitattributes" else (),
    )
    return content if content != Content(commit, path) else None


def _secrets_in(*readings: Sequence[tuple[int, str]]) -> tuple[Sighting, ...]:
    """Return what any reading of the same bytes holds, each once."""
    found = (secret for lines in readings if lines for secret in find_secrets(lines))
    return tuple(dict.fromkeys(found))


def look_at_message(commit: str, text: str, canaries: Sequence[bytes] = ()) -> Content | None:
    """Return what is to be said about a commit's message; None for nothing."""
    lines = list(enumerate(text.split("\n"), start=1))
    canary = holds_canary(text.encode("utf-8", "replace"), canaries)
    content = Content(commit, b"", secrets=find_secrets(lines), canary=canary)
    return content if content != Content(commit, b"") else None


def look_at_name(commit: str, path: bytes, canaries: Sequence[bytes] = ()) -> Content | None:
    """Return what is to be said about the name of a new file; None for nothing.

    It is said of no path: what names it would show what it holds.
    """
    found = look_at_message(commit, as_utf8(path), canaries)
    return None if found is None else replace(found, name=path)


def look_for_canaries(
    commit: str, path: bytes, old: bytes, new: bytes, canaries: Sequence[bytes] = ()
) -> Content | None:
    """Return as `look_at` does, of a file that is too large for more."""
    if holds_canary(new, canaries) and not holds_canary(old, canaries):
        return Content(commit, path, canary=True)
    return None


def is_binary(data: bytes) -> bool:
    """Return whether git would call it binary: a NUL near its beginning."""
    return b"\0" in data[:_BINARY_HEAD]


def as_text(data: bytes) -> str:
    """Return a blob as text by its byte order mark, else as UTF-8; whatever else stays readable."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    return as_utf8(data)


def as_utf8(data: bytes) -> str:
    """Return bytes as git's own line-by-line reading sees them."""
    return data.decode("utf-8", "replace")


def added_lines(old: str, new: str) -> list[tuple[int, str]]:
    """Return the lines, numbered from 1, that `new` has and `old` has not, or not as often."""
    if not old:
        return list(enumerate(new.split("\n"), start=1)) if new else []
    left = Counter(old.split("\n"))
    added = []
    for number, line in enumerate(new.split("\n"), start=1):
        if left.get(line, 0) > 0:
            left[line] -= 1
        else:
            added.append((number, line))
    return added


def _new_scripts(old: bytes, new: bytes) -> tuple[str, ...]:
    """Return the names of scripts that an installation would run and did not run before."""
    if not new:
        return ()
    after = _scripts_of(new)
    if after is None:
        return ("(the file cannot be read as JSON)",)
    before = _scripts_of(old) or {}
    return tuple(
        name for name in _INSTALL_EVERY if after.get(name, before.get(name)) != before.get(name)
    )


def _scripts_of(data: bytes) -> dict[str, object] | None:
    try:
        package = json.loads(as_text(data))
    except (ValueError, RecursionError):
        return None
    scripts = package.get("scripts") if isinstance(package, dict) else None
    return scripts if isinstance(scripts, dict) else {}


def _filters(lines: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield attributes by which git would start a program, where one is configured by that name."""
    for _, line in lines:
        for kind, value in _FILTER.findall(_bare(line)):
            if kind == "merge" and value not in {*_BUILT_IN_MERGE, "lfs"}:
                yield f"merge={value}"
            if kind == "filter" and value != "lfs":
                yield f"filter={value}"


def _hidings(lines: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield attributes by which a reviewer no longer sees a file's changes."""
    for _, line in lines:
        if _HIDES.search(_bare(line)) or "filter=lfs" in _bare(line):
            yield _bare(line).strip()


def _bare(line: str) -> str:
    return "" if line.lstrip().startswith("#") else line
