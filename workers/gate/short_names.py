"""The short names that Windows keeps beside long ones: `GITHUB~1` opens `.github`. Pure.

Which number a name gets depends on what else is in its folder, so all of them count; so does the
form with a checksum that follows when the first four are taken, whatever the checksum.

Sources: Microsoft, "Naming Files, Paths, and Namespaces" ("Short vs. Long Names"); git's `path.c`
(`is_ntfs_dot_generic`).
"""

from __future__ import annotations

import re

_STEM = 6
_EXTENSION = 3
# A name that is short already has no other.
_FITS = re.compile(r"[^.\s+,;=\[\]*?]{1,8}(?:\.[^.\s+,;=\[\]*?]{1,3})?")
_LEFT_OUT = re.compile(r"[.\s]")
_REPLACED = re.compile(r"[+,;=\[\]]")


def short_names_of(name: str) -> str:
    """Return a regular expression, in lower case, for all short names of `name`; "" without any.

    A glob has them only where its star is the whole extension (`.env.*`).
    """
    bare = name.lower().lstrip(".")
    base, dot, extension = bare.rpartition(".") if "." in bare else (bare, "", "")
    if _FITS.fullmatch(name) or not base or re.search("[*?]", base):
        return ""
    stem = _REPLACED.sub("_", _LEFT_OUT.sub("", base))
    if extension == "*":
        tail = rf"\.[^./~]{{1,{_EXTENSION}}}"
    elif re.search("[*?]", extension):
        return ""
    else:
        tail = re.escape(dot + extension[:_EXTENSION])
    return f"(?:{'|'.join(_stems(stem))}){tail}"


def _stems(stem: str) -> list[str]:
    """Number the stem: what is left of it, the tilde and the number have eight letters at most."""
    numbered = [
        f"{re.escape(stem[: _STEM + 1 - digits])}~[1-9]" + r"\d" * (digits - 1)
        for digits in range(1, _STEM)
    ]
    return [*numbered, f"{re.escape(stem[:2])}[0-9a-f]{{4}}~[1-9]"]
