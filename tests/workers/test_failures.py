"""What is shown of failed checks is bounded and readable, whatever they printed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.github.values import AnnotationInfo
from app.text import is_invisible
from workers.failures import LOG_LINES, annotation_line, log_tail


def test_only_the_last_lines_of_a_log_are_kept() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    lines = log_tail(text.encode()).split("\n")
    assert len(lines) == LOG_LINES
    assert lines[-1] == "line 999"


def test_colours_and_carriage_returns_do_not_stay() -> None:
    assert log_tail(b"\x1b[1;31merror\x1b[0m: no\r\n50%\r100%\n") == "error: no\n50%\n100%"


@given(st.binary(max_size=400))
def test_no_bytes_leave_anything_invisible(data: bytes) -> None:
    assert not any(is_invisible(char) for char in log_tail(data))


def test_an_annotation_is_one_line_with_its_place() -> None:
    note = AnnotationInfo("src/a\n.py", 3, 5, "failure", "E1", "first\nsecond")
    assert annotation_line(note) == "src/a .py:3-5: failure: E1: first second"
    assert annotation_line(AnnotationInfo("a.py", 3, 3, "notice", "", "x")) == "a.py:3: notice: x"
