"""Who is suggested for a review, and in which order."""

from __future__ import annotations

import pytest

from app.codeowners import read_codeowners
from app.report import Suggestion
from app.suggestions import MAX_AUTHORS, account_of, suggest

RULES = read_codeowners("* @acme/crew\n*.py @ada ada@example.com\ndocs/ @bob\n")


def noreply(login: str) -> str:
    return f"12+{login}@users.noreply.github.com"


def test_owners_come_first_by_how_many_of_the_files_they_own() -> None:
    paths = ["a.py", "b.py", "docs/x", "Makefile"]
    assert suggest(RULES, paths, [], "mona") == (
        Suggestion("ada", "owns 2 of 4 files"),
        Suggestion("acme/crew", "owns 1 of 4 files"),
        Suggestion("bob", "owns 1 of 4 files"),
    )


def test_authors_follow_by_how_often_they_changed_the_files() -> None:
    emails = [noreply(who) for who in ("zoe", "eve", "zoe", "ADA", "mona", "mona")]
    assert suggest(RULES, ["a.py"], emails, "Mona") == (
        Suggestion("ada", "owns 1 of 1 file"),
        Suggestion("zoe", "changed them 2 times"),
        Suggestion("eve", "changed them once"),
    )


def test_there_are_few_of_them() -> None:
    emails = [noreply(f"user{n}") for n in range(20)]
    assert len(suggest((), ["a"], emails, "mona")) == MAX_AUTHORS


@pytest.mark.parametrize(
    ("address", "login"),
    [
        ("12+mona@users.noreply.github.com", "mona"),
        ("mona@users.noreply.github.com", "mona"),
        ("mona@users.noreply.github.example", "mona"),
        ("@mona", "mona"),
        ("@acme/crew", "acme/crew"),
        ("mona@example.com", None),
        ("12+drydock[bot]@users.noreply.github.com", None),
        ("users.noreply.github.com", None),
        ("x@evil@users.noreply.github.com", None),
        ("", None),
    ],
)
def test_only_githubs_own_addresses_tell_an_account(address: str, login: str | None) -> None:
    assert account_of(address) == login
