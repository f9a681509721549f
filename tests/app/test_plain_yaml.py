from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plain_yaml import BadYaml, read_plain

TEXT = b"a: 1\nb:\n  - x\n  -\n    c: 2\n    d: 3\n"


def test_every_place_has_its_line() -> None:
    file = read_plain(TEXT)
    assert file.values == {"a": 1, "b": ["x", {"c": 2, "d": 3}]}
    assert [file.line_of(p) for p in (("a",), ("b",), ("b", 0), ("b", 1, "d"))] == [1, 2, 3, 6]


def test_an_entry_of_a_mapping_is_found_by_its_index_too() -> None:
    assert read_plain(TEXT).line_of(("b", 1, 0)) == 5


def test_what_has_no_line_has_that_of_what_is_around_it() -> None:
    assert read_plain(TEXT).line_of(("b", 1, "d", "e", 7)) == 6
    assert read_plain(TEXT).line_of(("zzz",)) is None


@pytest.mark.parametrize("text", ["a: {b: 1, b: 2}", "a:\n- b: {c: 1, c: 2}", "a: 1\na: 2"])
def test_a_key_that_stands_twice_is_refused_wherever_it_is(text: str) -> None:
    with pytest.raises(BadYaml, match=r"the key \w is already in line"):
        read_plain(text.encode())


@pytest.mark.parametrize("number", ["0x" + "f" * 5000, "0b" + "1" * 60_000, "9:" * 9000 + "9"])
def test_a_number_that_cannot_even_be_written_is_refused(number: str) -> None:
    with pytest.raises(BadYaml) as raised:
        read_plain(f"a: 1\nb: [{number}]".encode())
    assert raised.value.line == 2


@given(st.text(alphabet="ab:-[]{}&*!|>'\"\n #%<?\t1", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        lines = read_plain(text.encode()).lines.values()
    except BadYaml as error:
        lines = {"": error.line or 1}.values()
    assert all(1 <= line <= text.count("\n") + 1 for line in lines)
