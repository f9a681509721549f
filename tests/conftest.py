"""What holds for the whole session."""

from __future__ import annotations

import gc

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, the machines, so that both processes end at about the same time.

    A file stays together, as its fixtures are dear, and in its own order.
    """
    slow = {item.path for item in items if item.get_closest_marker("machine")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Thousands of collected tests live until the end, so the collector need not scan them.

    Each full collection in a test would otherwise walk all of them. See `gc.freeze`.
    """
    gc.collect()
    gc.freeze()
