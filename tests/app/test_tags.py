from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tags import KEPT, UNSHOWN, Comment, Piece, Rest, Tag, Text, read_html

SIGNS = st.text(alphabet="<>/!?-='\"ab \n&;\\`", max_size=40)


def read(source: str) -> list[Piece]:
    return list(read_html(source))


@pytest.mark.parametrize(
    ("source", "pieces"),
    [
        ("", []),
        ("words", [Text("words")]),
        ("1 < 2", [Text("1 "), Text("<"), Text(" 2")]),
        ("a<", [Text("a"), Text("<")]),
        ("&lt;b&gt;", [Text("<b>")]),
        ("<b>x</b>", [Tag("b"), Text("x"), Tag("b", closing=True)]),
        ("<BR/>", [Tag("br")]),
        ("<b title=x>", [Tag("b", attributes=True)]),
        ("<b x>", [Tag("b", attributes=True)]),
        ("</b x>", [Tag("b", closing=True, attributes=True)]),
        ("<b/x/>", [Tag("b", attributes=True)]),
        ("<a href=u>", [Tag("a", address="u")]),
        ("<a href = 'u v'>", [Tag("a", address="u v")]),
        ("<a href='x'title='y'>", [Tag("a", address="x", attributes=True)]),
        ("<a href=x href=y>", [Tag("a", address="x", attributes=True)]),
        ("<a src=x>", [Tag("a", attributes=True)]),
        ("<img src='&amp;'>", [Tag("img", address="&")]),
        ("<a title='>'>", [Tag("a", attributes=True)]),
        ("<a =x>", [Tag("a", attributes=True)]),
    ],
)
def test_a_tag_is_cut_as_a_browser_cuts_it(source: str, pieces: list[Piece]) -> None:
    assert read(source) == pieces


@pytest.mark.parametrize(
    "source",
    [
        "<!-- x -->",
        "<!-->",
        "<!--->",
        "<!-- a > b -->",
        "<!x>",
        "<!-x>",
        "<!>",
        "<?x?>",
        "</ x>",
        "</>",
        "<![CDATA[x]>",
    ],
)
def test_what_a_browser_takes_for_a_comment_is_one(source: str) -> None:
    assert read(source) == [Comment()]


@pytest.mark.parametrize(
    "source",
    ["<b", "<b x=y", "</ x", "<!x", "<!-- x", "<b x='y>", '<b x="', "<!-->x-->", "<!-- a --!> -->"],
)
def test_what_does_not_end_or_ends_twice_is_the_last_piece(source: str) -> None:
    assert read("a" + source) == [Text("a"), Rest(source)]


@pytest.mark.parametrize("name", ["script", "STYLE", "title", "plaintext", "iframe"])
def test_a_tag_that_github_filters_stands_as_text(name: str) -> None:
    assert read(f"<{name}>") == [Text("<"), Text(f"{name}>")]
    assert read(f"<{name}x>") == [Tag(f"{name}x".lower())]


def test_no_element_is_both_kept_and_unshown() -> None:
    assert not KEPT & UNSHOWN


@given(SIGNS)
def test_any_source_is_read_to_its_end(source: str) -> None:
    *before, _last = [Text(""), *read(source)]
    assert not any(isinstance(piece, Rest) for piece in before)


@given(SIGNS.filter(lambda source: "<" not in source and "&" not in source))
def test_without_a_sign_of_markup_all_is_text(source: str) -> None:
    assert read(source) == ([Text(source)] if source else [])
