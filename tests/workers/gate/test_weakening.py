"""What the gate counts in test files, in bounded time."""

from __future__ import annotations

import pytest

from tests.effort import effort
from workers.gate.weakening import count_tests


@pytest.mark.parametrize("line", ["@Test\n", "@Test @Test\n", "  @Test void\n", "@Test\n@A(x)\n"])
def test_many_annotations_without_a_method_are_counted_soon(line: str) -> None:
    text = line * (60_000 // len(line))
    assert effort(lambda: count_tests(b"src/test/java/ATest.java", text), 5) < 5


def test_a_method_below_its_annotations_is_counted() -> None:
    text = '@Test\n@DisplayName("x")\n  @Tag("y")\nvoid adds() {\n}\n'
    assert "adds" in str(count_tests(b"src/test/java/ATest.java", text))
