"""Fixtures for whoever wants an installation; conftest files import them by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.harbour.harbour import Harbour

MakeHarbour = Callable[..., Harbour]


@pytest.fixture
def make_harbour(tmp_path: Path) -> Iterator[MakeHarbour]:
    """Open harbours that are closed after the test."""
    with ExitStack() as stack:
        count = 0

        def make(script: Any = None, **options: Any) -> Harbour:
            nonlocal count
            count += 1
            return stack.enter_context(Harbour(tmp_path / f"harbour-{count}", script, **options))

        yield make


@pytest.fixture
def harbour(make_harbour: MakeHarbour) -> Harbour:
    """One whose model fixes the usual issue at once."""
    return make_harbour()
