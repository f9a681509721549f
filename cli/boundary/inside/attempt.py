"""What an attack is: it says how the boundary held, or raises `Open`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# What the host tells about itself: addresses, ports, names. Filled before anything is tried.
FACTS: dict[str, Any] = {}
ATTACKS: dict[str, Callable[[], str]] = {}


class Open(Exception):
    """The boundary did not hold."""


def attack(act: Callable[[], str]) -> Callable[[], str]:
    """Take a function into the list of attacks, under its name."""
    ATTACKS[act.__name__] = act
    return act


def refused(act: Callable[[], object], what: str) -> str:
    """Do what must fail with an OSError; say how it failed."""
    try:
        act()
    except OSError as error:
        return f"{what}: {error.strerror or type(error).__name__}"
    raise Open(f"{what} worked")


def first_of(held: list[str]) -> str:
    """Say how the first of several ways was held, and how many there were."""
    return f"{held[0]} ({len(held)} ways)" if len(held) > 1 else held[0]
