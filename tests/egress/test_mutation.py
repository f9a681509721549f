"""Removing any single rule from the pure core makes a test fail.

Takes about four minutes on two cores, so that it is run by its name (`pytest -m mutation`) and in
the full suite, not with every save. `EQUIVALENT` records the mutants that no test can tell apart,
each with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.egress.mutants import Mutant, mutants_of, survives

EGRESS = Path(__file__).parents[2] / "egress"
TESTS = tuple(
    str(Path(__file__).with_name(f"test_{name}.py"))
    for name in ("policy", "hosts", "inject", "target")
)
EQUIVALENT: Mapping[str, str] = {
    'rule: len(part.lstrip("0")) > 12': "a longer number is no address either; this saves time",
}
MUTANTS = [
    pytest.param(module, mutant, id=f"{module}-{mutant.line}-{number}")
    for module in ("policy", "hosts", "inject")
    for number, mutant in enumerate(mutants_of(EGRESS / f"{module}.py"))
    if mutant.what not in EQUIVALENT
]


@pytest.mark.mutation
@pytest.mark.parametrize(("module", "mutant"), MUTANTS)
def test_a_rule_that_is_gone_is_missed(module: str, mutant: Mutant) -> None:
    if survives(f"egress.{module}", mutant, TESTS):
        pytest.fail(f"{module}.py, line {mutant.line}: nothing notices without {mutant.what}")


def test_there_are_rules_to_take_away() -> None:
    assert len(MUTANTS) > 120


def test_what_is_called_equivalent_is_still_there() -> None:
    found = {
        m.what for name in ("policy", "hosts", "inject") for m in mutants_of(EGRESS / f"{name}.py")
    }
    assert set(EQUIVALENT) <= found
