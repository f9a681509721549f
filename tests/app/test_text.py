from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.text import (
    code_block,
    code_span,
    inline,
    is_invisible,
    neutralise,
    one_line,
    plain,
    quote,
    strip_invisible,
    visible,
)

HOSTILE = st.text(
    alphabet=st.one_of(
        st.sampled_from(list("@#<>&[]()`*_!/\\|~:;-=\"'\n\t 1aA\u200b\u202e\x1b")),
        st.characters(),
    ),
    max_size=120,
)
PIECES = st.lists(
    st.sampled_from(
        [
            "@alice",
            "@org/team",
            "#12",
            "GH-7",
            "fixes ",
            "closes ",
            "acme/ship#3",
            "<!--",
            "-->",
            "`",
            "<script>",
            "&#64;",
            "&commat;bob",
            "[a](javascript:x)",
            "![i](http://x/i)",
            "```",
            "\n",
            "\\",
            "\u200b",
            "https://github.com/acme/ship/issues/",
            "9",
            "[x]: http://y",
            "> ",
            "@",
            "<!-- drydock:status run=1 -->",
            "</details>",
            "\x1b[31m",
            "https://gh.test/a/b/pull/4",
        ]
    ),
    max_size=12,
).map("".join)

# What GitHub's own filters look for, as its documentation gives it, in rendered or raw text.
MENTION = re.compile(r"(?<![\w`])@[A-Za-z0-9][\w-]*")
REFERENCE = re.compile(r"#\d|\bGH-\d|/(?:issues|pull|discussions)/\d", re.IGNORECASE)
MARKER = re.compile(r"<!--")


def rendered_text(markdown: str) -> str:
    """The text nodes of the page, code left out as GitHub's filters leave it out."""
    tokens = MarkdownIt("commonmark").parse(markdown)
    texts = []
    for token in tokens:
        texts += [child.content for child in token.children or [] if child.type == "text"]
        if token.type.startswith("html"):
            texts.append(token.content)
    return "\n".join(texts)


def html_of(markdown: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(markdown)
    flat = [t for token in tokens for t in (token, *(token.children or []))]
    return [t.content for t in flat if t.type.startswith("html")]


@given(PIECES | HOSTILE)
def test_neutralised_text_mentions_refers_to_and_hides_nothing(text: str) -> None:
    safe = neutralise(text)
    for shown in (safe, rendered_text(safe)):
        assert not MENTION.search(shown)
        assert not REFERENCE.search(shown)
        assert not MARKER.search(shown)
    assert html_of(safe) == []


@given(PIECES | HOSTILE)
def test_neutralised_text_has_no_links_under_another_name(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(neutralise(text))
    flat = [t for token in tokens for t in (token, *(token.children or []))]
    assert not [t for t in flat if t.type in {"link_open", "image"}]


@given(PIECES | HOSTILE)
def test_neutralising_again_changes_nothing(text: str) -> None:
    assert neutralise(neutralise(text)) == neutralise(text)


@given(PIECES | HOSTILE)
def test_neutralising_loses_nothing_that_can_be_seen(text: str) -> None:
    assert neutralise(text).replace("\u200b", "") == visible(text)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("hi @alice", "hi @\u200balice"),
        ("fixes #12", "fixes #\u200b12"),
        ("closes GH-7", "closes GH\u200b-7"),
        ("closes GH\\-7", "closes GH\u200b\\-7"),
        ("a/b#3", "a/b#\u200b3"),
        ("&#64;bob", "&\u200b#\u200b64;bob"),
        ("x < y & z", "x < y & z"),
        ("# Heading\n\n- item `code`", "# Heading\n\n- item `code`"),
        ("mail a@b.example", "mail a@\u200bb.example"),
    ],
)
def test_only_what_github_acts_on_is_broken(text: str, safe: str) -> None:
    assert neutralise(text) == safe


@given(PIECES | HOSTILE)
def test_a_quote_cannot_be_left(text: str) -> None:
    body = f"{quote(text)}\n\nours"
    tokens = MarkdownIt("commonmark").parse(body)
    outer = [t for t in tokens if t.level == 0]
    assert (
        [t.type for t in outer]
        == [
            "blockquote_open",
            "blockquote_close",
            "paragraph_open",
            "paragraph_close",
        ]
        or not text.strip()
        or not visible(text).strip()
    )
    assert tokens[-2].content == "ours"


@given(PIECES | HOSTILE)
def test_a_code_block_cannot_be_left_and_holds_no_marker(text: str) -> None:
    block = code_block(text)
    tokens = MarkdownIt("commonmark").parse(f"{block}\n\nours")
    assert next(t.type for t in tokens if t.level == 0) == "fence"
    assert tokens[-2].content == "ours"
    assert "<!--" not in block
    assert not re.search(r"#\d", block)


@given(PIECES | HOSTILE)
def test_a_code_span_cannot_be_left(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(f"a {code_span(text)} b")
    (inline_token,) = [t for t in tokens if t.type == "inline"]
    types = [child.type for child in inline_token.children or []]
    assert types == ["text", "code_inline", "text"]


@given(PIECES | HOSTILE)
def test_inline_text_is_one_plain_line(text: str) -> None:
    safe = inline(text, 10_000)
    assert "\n" not in safe
    (inline_token,) = [t for t in MarkdownIt("commonmark").parse(f"a {safe} b") if t.children]
    assert {child.type for child in inline_token.children or []} <= {"text", "text_special"}
    assert not MENTION.search(rendered_text(f"a {safe} b"))
    assert not REFERENCE.search(rendered_text(f"a {safe} b"))


@given(PIECES | HOSTILE)
def test_plain_text_closes_and_mentions_nothing_and_hides_nothing(text: str) -> None:
    safe = plain(text)
    assert not MENTION.search(safe)
    assert not REFERENCE.search(safe)
    assert not any(is_invisible(char) for char in safe)


def test_a_commit_cannot_skip_checks() -> None:
    assert plain("Fix it [skip ci] [CI Skip]") == "Fix it (skip ci) (CI Skip)"


def test_plain_text_is_broken_visibly() -> None:
    assert plain("fixes #12, GH-3 for @bob") == "fixes # 12, GH 3 for @ bob"


def test_invisible_characters_go_and_are_counted() -> None:
    assert strip_invisible("a\u200bb\u202ec\u2066d\ufeff\u00ad\U000e0041") == ("abcd", 6)
    assert strip_invisible("a\r\nb\rc\u2028d\te") == ("a\nb\nc\nd\te", 0)


def test_an_emojis_colour_is_not_counted() -> None:
    assert strip_invisible("❤\ufe0f") == ("❤", 0)


def test_terminal_colours_go() -> None:
    assert visible("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07") == "red link"


@given(st.text())
def test_what_is_stripped_has_nothing_invisible_left(text: str) -> None:
    assert not any(is_invisible(char) for char in strip_invisible(text)[0])
    strip_invisible(text)[0].encode()


@given(st.text(), st.integers(min_value=5, max_value=50))
def test_one_line_is_one_line_and_short(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert "\n" not in line
    assert len(line) <= limit
