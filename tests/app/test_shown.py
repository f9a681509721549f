from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.shown import Removed, as_shown, describe_removed

PIECES = st.lists(
    st.sampled_from(
        [
            "<!--",
            "-->",
            "--",
            ">",
            "<!",
            "<?",
            "?>",
            "`",
            "```\n",
            "\n",
            "\n\n",
            "    ",
            "word ",
            "\\",
            "<div ",
            "x='y'",
            "<img src=u alt=v>",
            "![a](b)",
            "[x]: y (z)\n",
            "[x]",
            "(u 't')",
            "> ",
        ]
    ),
    max_size=14,
).map("".join)


def shown(text: str) -> str:
    return as_shown(text)[0]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain *words*", "plain *words*"),
        ("a <!-- b --> c", "a  c"),
        ("<!-- a\n\nb -->c", "c"),
        ("`<!-- code -->` <!-- hidden -->", "`<!-- code -->`"),
        ("```\n<!-- code -->\n```", "```\n<!-- code -->\n```"),
        ("    <!-- code -->\n\nx", "<!-- code -->\n\nx"),
        ("text <!-- never closed is shown", "text <!-- never closed is shown"),
        ("<!-- never closed at a line's start\n\nhidden", ""),
        ("a <!-- shown\n\n<!-- hidden --> b", "a <!-- shown\n\n b"),
        ("\\`<!-- an escaped tick makes no code -->\\`", "\\`\\`"),
        ("<div>\n`\n<!-- no code in HTML -->\n`\n</div>", "<div>\n`\n\n`\n</div>"),
        ("x<?php hidden ?>y", "xy"),
        ("x<!DOCTYPE hidden>y", "xy"),
        ("x<![CDATA[hidden]]>y", "xy"),
        ("[//]: # (hidden words)\ntext", "text"),
        ("[x]: http://u 'hidden'\n\nsee [x]", "[X]: http://u\n\nsee [x]"),
        ("[a](http://u 'hidden')", "[a](http://u)"),
        ("`[a](http://u 'code')`", "`[a](http://u 'code')`"),
        ("![hidden](http://u/i.png)", "(image: http://u/i.png)"),
        ("<img alt='hidden' src='http://u'>", "(image: http://u)"),
        ("<a href='http://u' title='hidden'>x</a>", '<a href="http://u">x</a>'),
        ("<details open><summary>s</summary>", "<details><summary>s</summary>"),
        ("List<String> and 1 < 2 > 0", "List<String> and 1 < 2 > 0"),
        ("`Map<K extends V>`", "`Map<K extends V>`"),
    ],
)
def test_only_what_github_shows_is_left(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_what_went_is_counted() -> None:
    removed = as_shown("a <!-- b --> c\u202e\u200b [d](e 'f')")[1]
    assert removed == Removed(1, 2, 1)
    assert (
        describe_removed(removed)
        == "1 HTML comment, 2 invisible characters, 1 piece of hidden text"
    )
    assert describe_removed(Removed()) == "nothing"
    assert not Removed()


def test_a_comment_made_by_removing_another_goes_too() -> None:
    assert "hidden" not in shown("<!<!-- x -->-- hidden -->")


def test_a_comment_nested_deeper_than_we_chase_is_made_visible() -> None:
    text = "x " + "<!" * 12 + "<!-- a -->" + "-- b -->" * 12
    assert "<!--" not in shown(text)


@given(PIECES)
def test_no_mixture_crashes_and_no_more_is_found_the_second_time(text: str) -> None:
    once = shown(text)
    assert not as_shown(once)[1].invisible_characters
    assert not any(char in once for char in "\u200b\u202e\ue000")


@given(st.text(max_size=200))
def test_no_text_crashes(text: str) -> None:
    as_shown(text)[0].encode()


@pytest.mark.parametrize(
    "text",
    [
        "<!--" * 15000,
        "![" * 30000,
        "[" * 60000,
        "<a " * 20000,
        "](a (" * 12000,
        "<!" * 30000,
        "`" * 60000,
        "*a_ " * 15000,
        "[x]: y\n" * 8000,
        "> " * 30000,
        "<" + "a " * 30000,
    ],
)
def test_the_worst_bodies_take_seconds_at_most(text: str) -> None:
    started = time.monotonic()
    as_shown(text)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("filler", [" ", "\n", "\t"])
def test_white_space_in_an_image_costs_no_more_than_its_length(filler: str) -> None:
    begun = time.process_time()
    as_shown("![a](" + filler * 60_000)
    assert time.process_time() - begun < 5
