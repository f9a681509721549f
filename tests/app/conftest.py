"""Fixtures of the pure core's tests: GitHub's own published payloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A busy machine must not fail a property by its clock, and nothing is left in the checkout.
settings.register_profile("drydock", deadline=None, database=None)
settings.load_profile("drydock")

EXAMPLES = Path("node_modules/@octokit/webhooks-examples/api.github.com/index.json")


@pytest.fixture(scope="session")
def webhook_examples(pytestconfig: pytest.Config) -> Mapping[str, list[dict[str, Any]]]:
    """Return GitHub's example payloads by event (npm, development dependency)."""
    path = pytestconfig.rootpath / EXAMPLES
    if not path.is_file():
        pytest.fail(f"{EXAMPLES} is missing: run `npm ci` (or `make test`, which does)")
    entries = json.loads(path.read_text(encoding="utf-8"))
    return {entry["name"]: entry["examples"] for entry in entries}
