"""What holds for the whole session."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Thousands of collected tests live until the end: nobody need look through them for garbage.

    Each full collection in a test would otherwise walk all of them. See `gc.freeze`.
    """
    gc.collect()
    gc.freeze()
