"""What the gate counts in test files, in bounded time."""

from __future__ import annotations

import time

import pytest

from workers.gate.weakening import count_tests


@pytest.mark.parametrize("line", ["@Test\n", "@Test @Test\n", "  @Test void\n", "@Test\n@A(x)\n"])
def test_many_annotations_without_a_method_are_counted_soon(line: str) -> None:
    text = line * (60_000 // len(line))
    began = time.monotonic()
    count_tests(b"src/test/java/ATest.java", text)
    assert time.monotonic() - began < 5


def test_a_method_below_its_annotations_is_counted() -> None:
    text = '@Test\n@DisplayName("x")\n  @Tag("y")\nvoid adds() {\n}\n'
    assert "adds" in str(count_tests(b"src/test/java/ATest.java", text))
