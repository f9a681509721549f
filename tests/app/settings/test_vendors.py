from __future__ import annotations

import pytest

from app.settings import model_vendor


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("openai/x", "openai"),
        ("gpt-4.1", "openai"),
        ("o3-mini", "openai"),
        ("claude-sonnet-4-5", "anthropic"),
        ("anthropic/claude", "anthropic"),
        ("openrouter/anthropic/claude", "openrouter"),
        ("something", None),
    ],
)
def test_the_vendor_of_a_model_is_told_by_its_name(model: str, vendor: str | None) -> None:
    assert model_vendor(model) == vendor
