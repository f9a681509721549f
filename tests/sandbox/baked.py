"""The baked template for tests of real machines; conftest files import it by name.

A missing template is a failure, because a suite that skips its machines proves nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.provider import Template
from sandbox.template.store import TemplateStore

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def template() -> Template:
    state_dir = Path(os.environ.get("DRYDOCK_STATE_DIR", CHECKOUT / ".drydock/state"))
    found = TemplateStore(state_dir).find("default")
    if found is None:
        pytest.fail(f"no baked template below {state_dir}: run `drydock template bake` first")
    return found
