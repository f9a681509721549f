from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.markdown import MAX_CELLS, MAX_QUOTES, Markdown, read_markdown

# What holds no footnote, no image and no element that versions read differently.
COMMON = st.lists(
    st.sampled_from(
        [
            "a",
            " ",
            "[",
            "]",
            "](",
            ")",
            "(u)",
            "[x]",
            "`",
            "``",
            "\\",
            "<b>",
            "<!--",
            "-->",
            "*",
            "\n",
        ]
    ),
    max_size=14,
).map("".join)
# markdown-it takes a text that a nested bracket follows for a label without a definition.
AGREED = COMMON.filter(lambda text: "][[" not in text)
ANY = st.text(alphabet="ab[]()^!<>/`|*_\\-: \n\t#>&;'\"~$=.1+", max_size=60)


def types(text: str) -> list[str]:
    return [token.type for token in read_markdown(text).tokens]


def inside(text: str) -> list[str]:
    """Return the types of what the paragraphs of the text hold."""
    tokens = read_markdown(text).tokens
    return [child.type for token in tokens for child in token.children or ()]


def links(tokens: object) -> list[tuple[str, str]]:
    assert isinstance(tokens, list)
    return [
        (child.type, str(child.attrs.get("href", "")))
        for token in tokens
        for child in token.children or ()
    ]


def test_a_link_in_a_link_is_the_inner_one_only() -> None:
    assert inside("[a [b](u) c](v)").count("link_open") == 1
    assert inside("[a ![b](u) c](v)").count("link_open") == 1


@given(AGREED)
def test_brackets_are_matched_as_markdown_it_matches_them(text: str) -> None:
    """`[x]` is defined in both readings, so that references are compared too."""
    source = text + "\n\n[x]: y\n"
    plain = MarkdownIt("commonmark").enable("table").parse(source)
    assert links(list(read_markdown(source).tokens)) == links(plain)


@given(ANY)
def test_any_text_is_markdown(text: str) -> None:
    assert isinstance(read_markdown(text), Markdown)


@pytest.mark.parametrize(
    ("text", "footnotes"),
    [
        ("a[^x]\n\n[^x]: b", ["x"]),
        ("a[^X] b[^y]\n\n[^y]: c\n[^x]: d", ["x", "y"]),
        ("a[^x] b[^x]\n\n[^x]: c", ["x"]),
        ("a[^x]", []),
        ("[^x]: b", []),
        ("[^x]: b[^x]", []),
        ("`[^x]`\n\n[^x]: b", []),
    ],
)
def test_a_footnote_is_one_that_the_text_refers_to(text: str, footnotes: list[str]) -> None:
    assert list(read_markdown(text).footnotes) == footnotes


def test_a_footnote_holds_the_indented_lines_below_it_and_stands_at_the_end() -> None:
    assert types("[^x]: a\n    b\n\n    c\n\nd[^x]") == [
        *["paragraph_open", "inline", "paragraph_close"],
        "footnote_open",
        *["paragraph_open", "inline", "paragraph_close"] * 2,
        "footnote_close",
    ]


@pytest.mark.parametrize(
    ("text", "unseen"),
    [
        ("[a]: b", 1),
        ("[a]: b\n\n[a]", 0),
        ("[a]: b\n[a]: c\n\n[a]", 1),
        ("|a|\n|-|\n|1|2|\n|1|\n|1|2|", 2),
        ("|a|\n|-|\n|1\\|2|", 0),
    ],
)
def test_what_nobody_sees_is_counted(text: str, unseen: int) -> None:
    assert read_markdown(text).unseen == unseen


def test_a_table_of_too_many_cells_is_not_read_but_told() -> None:
    wide = "a|" * 200 + "\n" + "-|" * 200 + "\n"
    assert "table_open" in types(wide + "x\n" * (MAX_CELLS // 200 - 3))
    assert types(wide + "x\n" * (MAX_CELLS // 200)) == ["unread"]


def test_a_quote_in_too_many_others_is_not_read_but_told() -> None:
    assert "unread" not in types("> " * MAX_QUOTES + "a")
    deep = types("> " * (MAX_QUOTES + 1) + "a\n\nb")
    assert deep.count("blockquote_open") == MAX_QUOTES
    assert "unread" in deep
    assert deep[-3:] == ["paragraph_open", "inline", "paragraph_close"]


def test_a_list_in_too_many_others_is_counted() -> None:
    assert read_markdown("- " * 5 + "a").unseen == 0
    assert read_markdown("- " * 40 + "a").unseen > 0


@pytest.mark.parametrize("name", ["source", "search", "textarea"])
def test_what_versions_read_differently_is_not_read_but_told(name: str) -> None:
    assert types(f"<{name}>\nx\n\ny")[0] == "unread"
    assert "unread" not in types(f"a <{name}> b")
    assert "unread" not in types(f"    <{name}>")


def test_a_textarea_takes_in_empty_lines_up_to_its_end() -> None:
    assert types("<textarea>\n\nx\n\n</textarea>\n\n# y")[:2] == ["unread", "heading_open"]


def test_every_address_makes_a_link() -> None:
    assert "link_open" in inside("[a](javascript:x)")


def test_the_text_of_an_image_is_not_read() -> None:
    token = read_markdown("![a *b* [c](d)](e)").tokens[1]
    assert [child.type for child in token.children or ()] == ["image"]
    assert not (token.children or [])[0].children
