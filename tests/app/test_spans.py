from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.markdown import read_markdown
from app.spans import ADDRESS_LIMIT, Spans

ANY = st.text(alphabet="ab[]()<>/!-`$\\%\"'= \n&;", max_size=60)


def read(text: str) -> tuple[str, Spans]:
    """Return what the first paragraph of the text shows."""
    spans = Spans({})
    token = next(token for token in read_markdown(text).tokens if token.children is not None)
    return spans.of_tokens(token.children or ()), spans


def of_html(*blocks: str) -> tuple[list[str], Spans]:
    spans = Spans({})
    return [spans.of_html(block) for block in blocks], spans


@pytest.mark.parametrize(
    ("text", "shown", "hidden"),
    [
        ("*a* **b**", "*a* **b**", 0),
        ("a\\\nb", "a  \nb", 0),
        ("``a`b``", "``a`b``", 0),
        ("`` ` ``", "`` ` ``", 0),
        ("[a](u)", "[a](u)", 0),
        ("[a](u 't')", "[a](u)", 1),
        ("[**a**](u)", "[**a**](u)", 0),
        ("x [](u)", "x ", 1),
        ("x [<b></b>](u)", "x ", 1),
        ("<http://u>", "http://u", 0),
        ("![a](u)", "(image: u)", 0),
        ("![a]()", "(image)", 0),
        ("![a](u 't')", "(image: u)", 1),
        ("[![a](u)](v)", "[(image: u)](v)", 0),
        ("<a href=u>x</a>", '<a href="u">x</a>', 0),
        ("<a href=u></a>x", "x", 1),
        ("<a href=u>x <a href=v>y</a>", '<a href="u">x </a><a href="v">y</a>', 0),
        ("<a>x</a>", "x", 0),
        ("a <who> b", "a  b", 1),
        ("a <svg>b</svg> c", "a  c", 1),
        ("a <svg><svg>b</svg>c</svg> d", "a  d", 1),
    ],
)
def test_a_paragraph_is_written_as_it_is_seen(text: str, shown: str, hidden: int) -> None:
    seen, spans = read(text)
    assert (seen, spans.hidden) == (shown, hidden)


@pytest.mark.parametrize(
    "text", ["$a$", "$$a_b$$", "costs $5 and $6", "`$x` and `$y`", "a$b$c", "$`a`$"]
)
def test_a_formula_that_draws_all_its_words_stays(text: str) -> None:
    assert read(text)[0] == text


@pytest.mark.parametrize(
    "text",
    [
        r"$\phantom{a}$",
        r"$\moveleft 99em {a}$",
        r"$\text<!-- -->color{white}{a}$",
        r"$$\color{white}{a}$$",
        r"$\def\a{b}$",
        "$$a % b$$",
        r"$`\label{a}`$",
        r"$\href{a}{b}$",
    ],
)
def test_a_formula_that_may_hide_words_is_only_named(text: str) -> None:
    seen, spans = read(text)
    assert (seen, spans.hidden) == ("(formula)", 1)


def test_two_ends_that_meet_over_a_gap_make_no_comment() -> None:
    seen, spans = read("a <<b-c>!-- hidden --> d")
    assert "hidden" not in seen
    assert spans.comments


def test_a_comment_nested_to_hide_something_ends_up_seen_as_text() -> None:
    seen = read("x " + "<!" * 12 + "<!-- a -->" + "-- b -->" * 12)[0]
    assert "<!--" not in seen


def test_what_begins_in_one_block_of_html_may_end_in_another() -> None:
    shown, spans = of_html("<svg>", "hidden", "</svg>x")
    assert shown == ["", "", "x"]
    assert spans.hidden == 1


@pytest.mark.parametrize("start", ["<!-- a", "<b title='a", "<b a", "<?a"])
def test_what_never_ends_hides_all_that_follows(start: str) -> None:
    spans = Spans({})
    assert spans.of_html(start) == ""
    assert spans.of_html("--> ' >x") == ""
    assert spans.of_code("code") == ""
    assert spans.comments + spans.hidden == 1


def test_what_began_in_a_paragraph_ends_with_it() -> None:
    spans = Spans({})
    children = read_markdown("a <svg> b").tokens[1].children or ()
    assert spans.of_tokens(children) == "a "
    assert spans.of_html("<b>x</b>") == "<b>x</b>"


def test_an_address_is_one_word_of_bounded_length() -> None:
    assert read("[a](<b c>)")[0] == "[a](b%20c)"
    seen, spans = read(f"[a](http://{'x' * 3_000})")
    assert len(seen) <= ADDRESS_LIMIT + len("[a](…)")
    assert spans.hidden == 1


def test_a_footnote_is_named_by_its_number() -> None:
    spans = Spans({"x": 3})
    children = read_markdown("a[^x]\n\n[^x]: b").tokens[1].children or ()
    assert spans.of_tokens(children) == "a[^3]"


@given(ANY)
def test_no_mark_of_ours_is_left_in_what_is_shown(text: str) -> None:
    spans = Spans({})
    for token in read_markdown(text).tokens:
        shown = spans.of_html(token.content) + spans.of_tokens(token.children or ())
        assert not {"\ue000", "\ue001"} & set(shown)
