"""The page about the gate names every rule, with the level that it has."""

from __future__ import annotations

import re
from pathlib import Path

from workers.gate import STRUCTURAL, Rule
from workers.gate.values import DEFAULT_LEVELS

PAGE = (Path(__file__).parents[3] / "docs" / "gate.md").read_text(encoding="utf-8")


def test_every_rule_is_explained_with_its_level() -> None:
    told = dict(re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", PAGE, re.MULTILINE))
    levels: dict[str, str] = {rule.value: DEFAULT_LEVELS[rule].value for rule in Rule}
    levels |= {rule.value: "always" for rule in STRUCTURAL}
    assert told == {**levels, "protected_path": "by path"}
