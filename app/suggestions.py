"""Who might review a change: its code owners, and who has changed the same files most. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from app.codeowners import OwnerRule, owners_of
from app.report import Suggestion

MAX_OWNERS = 5
MAX_AUTHORS = 3
# The only addresses that tell an account:
# https://docs.github.com/en/account-and-profile/reference/email-addresses-reference
_NOREPLY = re.compile(
    r"(?:[0-9]+\+)?([A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)@users\.noreply\.\S+"
)


def suggest(
    rules: Sequence[OwnerRule], paths: Sequence[str], emails: Iterable[str], asked_by: str
) -> tuple[Suggestion, ...]:
    """Return owners of most of the files first, then authors of most of their commits.

    `emails` holds one address for each commit. Who asked is no suggestion: they know already.
    """
    owners = _owners(rules, paths)
    known = {asked_by.lower(), *(owner.name.lower() for owner in owners)}
    return (*owners, *_authors(emails, known))


def _owners(rules: Sequence[OwnerRule], paths: Sequence[str]) -> tuple[Suggestion, ...]:
    counts: Counter[str] = Counter()
    for path in paths:
        counts.update({name for owner in owners_of(rules, path) if (name := account_of(owner))})
    return tuple(
        Suggestion(name, f"owns {files} of {len(paths)} {'file' if len(paths) == 1 else 'files'}")
        for name, files in _most(counts, MAX_OWNERS)
    )


def _authors(emails: Iterable[str], known: set[str]) -> tuple[Suggestion, ...]:
    logins = (account_of(email) for email in emails)
    counts = Counter(login for login in logins if login and login.lower() not in known)
    return tuple(
        Suggestion(login, "changed them once" if commits == 1 else f"changed them {commits} times")
        for login, commits in _most(counts, MAX_AUTHORS)
    )


def account_of(owner: str) -> str | None:
    """Return the login or team that `@login`, `@org/team` or a noreply address names."""
    if owner.startswith("@"):
        return owner.removeprefix("@")
    found = _NOREPLY.fullmatch(owner)
    return found[1] if found else None


def _most(counts: Counter[str], most: int) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0].lower()))[:most]
