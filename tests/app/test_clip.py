from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.clip import BODY_LIMIT, MIN_LIMIT, clip, github_length

MARKER = "<!-- drydock:status run=abc -->"
PIECES = st.lists(
    st.sampled_from(
        [
            "word ",
            "\n",
            "\n\n",
            "```\n",
            "`" * 40 + "\n",
            "~~~\n",
            "<details>\n\n",
            "\n\n</details>\n",
            "> quote\n",
            "x" * 300,
            "😀" * 50,
            MARKER,
            "- item\n",
        ]
    ),
    max_size=60,
).map("".join)


def test_a_body_within_the_limit_is_left_alone() -> None:
    assert clip("x" * BODY_LIMIT) == "x" * BODY_LIMIT


def test_characters_beyond_the_basic_plane_count_twice() -> None:
    assert github_length("a\U0001f600") == 3


def test_a_long_body_says_how_much_was_left_out_and_where_it_is() -> None:
    body = f"{MARKER}\n" + "word\n" * 20_000
    clipped = clip(body, more_url="https://dock.example/runs/abc")
    assert github_length(clipped) <= BODY_LIMIT
    assert clipped.startswith(MARKER)
    assert "characters were left out here" in clipped
    assert "[run page](https://dock.example/runs/abc)" in clipped


def test_a_marker_beyond_the_cut_is_kept() -> None:
    body = "word\n" * 20_000 + MARKER
    assert clip(body).startswith(MARKER)


def test_a_cut_code_block_and_details_are_closed() -> None:
    body = "<details><summary>x</summary>\n\n```\n" + "line\n" * 20_000
    clipped = clip(body)
    assert "\n```\n\n</details>\n\n*" in clipped


def test_a_limit_that_holds_no_note_is_refused() -> None:
    with pytest.raises(ValueError, match="cut below"):
        clip("x", MIN_LIMIT - 1)


@given(PIECES, st.integers(min_value=MIN_LIMIT, max_value=4_000))
def test_every_clipped_body_fits_and_keeps_its_marker_and_its_note_is_read(
    body: str, limit: int
) -> None:
    clipped = clip(body, limit, "https://dock.example/runs/abc")
    assert github_length(clipped) <= limit
    assert (MARKER in body) == (MARKER in clipped)
    if clipped != body:
        last = MarkdownIt("commonmark").parse(clipped)[-2]
        assert "left out here" in last.content


@given(st.text(max_size=6_000), st.integers(min_value=MIN_LIMIT, max_value=1_500))
def test_any_text_fits_when_clipped(body: str, limit: int) -> None:
    assert github_length(clip(body, limit)) <= limit
