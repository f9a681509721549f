"""Figures: one measured value, what it is held against, and the bar. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """`bar` is the most that `value` may be; None where a figure is only reported.

    `reference` says in words what it is held against, in the same run.
    """

    name: str
    value: float
    unit: str
    reference: str
    bar: float | None = None

    @property
    def held(self) -> bool | None:
        return None if self.bar is None else self.value <= self.bar


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all values do not exceed (nearest rank)."""
    ranked = sorted(values)
    rank = max(1, -(-len(ranked) * share // 1))
    return ranked[int(rank) - 1]


def middle(values: Iterable[float]) -> float:
    return float(median(values))


def as_json(figures: Iterable[Figure]) -> dict[str, float]:
    """Return the flat object that `bench.json` holds."""
    return {figure.name: round(figure.value, 4) for figure in figures}


def as_table(figures: Iterable[Figure]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("figure", "value", "bar", "", "held against"):
        table.add_column(heading, justify="right" if heading in {"value", "bar"} else "left")
    for figure in figures:
        bar = "" if figure.bar is None else f"≤ {figure.bar:g}"
        verdict = {None: "", True: "held", False: "MISSED"}[figure.held]
        value = f"{figure.value:.3g} {figure.unit}"
        table.add_row(figure.name, value, bar, verdict, figure.reference)
    return table
