"""Names of branches: ours, and whether somebody's is one that git takes. Pure.

Rules: https://git-scm.com/docs/git-check-ref-format
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

PREFIX = "aider/"
# Of each form, with a slash and without.
MAX_NAMES = 6
_SLUG_LENGTH = 40
_MAX_LENGTH = 200
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|\.$|/$|^/|^\.|^-")


def branch_name(issue_number: int, title: str) -> str:
    """Return `aider/issue-N-slug`; the slug is what ASCII keeps of the title, or nothing."""
    slug = _slug(title)
    return f"{PREFIX}issue-{issue_number}" + (f"-{slug}" if slug else "")


def slug_branch(title: str) -> str:
    """Return `aider/slug` for work that no issue number names."""
    return PREFIX + (_slug(title) or "work")


def alternative_branch(name: str, k: int) -> str:
    """Return the k-th other name to try when `name` is taken (k from 1)."""
    if k < 1:
        raise ValueError("alternatives are counted from 1")
    return f"{name}-{k + 1}"


def flat_branch(name: str) -> str:
    """Return `name` without slashes, for a repository with a branch called `aider` in the way."""
    return name.replace("/", "-")


def names_to_try(name: str) -> Iterator[str]:
    """Yield `name`, then the same with numbers, then all of that without a slash."""
    for stem in (name, flat_branch(name)):
        yield stem
        yield from (alternative_branch(stem, k) for k in range(1, MAX_NAMES))


def is_valid_branch(name: str) -> bool:
    """True if git takes `name` as a branch and it can be spoken of safely (no `@`, no `HEAD`)."""
    if not name or len(name) > _MAX_LENGTH or name in {"@", "HEAD"}:
        return False
    return name.isprintable() and not _FORBIDDEN.search(name)


def is_git_branch(name: str) -> bool:
    """True if git itself takes `name` as a branch, however odd: others named it, not we."""
    return bool(name) and name not in {"@", "HEAD"} and not _FORBIDDEN.search(name)


def side_branches(pull_number: int, run_id: str) -> tuple[str, ...]:
    """Return names, in order, for a branch beside a pull request, the last for one in the way."""
    name = f"{PREFIX}pull-{pull_number}-{run_id[-8:].lower()}"
    return name, flat_branch(name)


def _slug(title: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", ascii_only.lower()).strip("-")
    if len(words) <= _SLUG_LENGTH:
        return words
    cut = words[: _SLUG_LENGTH + 1].rsplit("-", 1)[0]
    return cut[:_SLUG_LENGTH].strip("-")
