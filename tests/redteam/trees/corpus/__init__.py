"""Hostile and odd trees and bundles, built by code, each with exactly what the gate must say.

One module a kind; to import it is to add its cases to `TREES` and `PARCELS`.
"""

from __future__ import annotations

from tests.redteam.trees.corpus import (
    bombs,
    bundles,
    honest,
    kinds,
    leaks,
    names,
    objects,
    paths,
    weakened,
)

__all__ = [
    "bombs",
    "bundles",
    "honest",
    "kinds",
    "leaks",
    "names",
    "objects",
    "paths",
    "weakened",
]
