"""Commit messages: nothing that GitHub, git or a terminal would act on gets through."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.commit_message import (
    Message,
    clean_message,
    clean_name,
    compose_message,
    split_commit,
)


@pytest.mark.parametrize(
    ("raw", "subject"),
    [
        ("fix: Add instead of subtracting", "fix: Add instead of subtracting"),
        ("  \n\n  Second line is first\n", "Second line is first"),
        ("Tell @octocat and @org/team", "Tell octocat and org/team"),
        ("Mail a@b.example stays", "Mail a@b.example stays"),
        ("Use @@property", "Use property"),
        ("Fixes #12", "Fixes issue 12"),
        ("closes: owner/repo#12", "closes: owner/repo issue 12"),
        ("resolve GH-7", "resolve issue 7"),
        (
            "fix https://host.example/o/r/issues/3 now",
            "fix host.example/o/r/issues/3 now",
        ),
        ("Fix #@12", "Fix issue 12"),
        ("Use C# and colour #fff", "Use C# and colour #fff"),
        ("Quiet [skip ci] please", "Quiet  please"),
        ("Quiet [ci [skip ci]skip]", "Quiet"),
        ("a\u202eb\u200bc\x1b[31m", "abc[31m"),
        ("Tabs\tand\r\nmore", "Tabs    and"),
        ("(no commit message provided)", "Change a.py"),
        ("Co-authored-by: X <x@y.z>", "Change a.py"),
        ("", "Change a.py"),
        ("\ud800 broken", "broken"),
    ],
)
def test_a_subject_is_cleaned(raw: str, subject: str) -> None:
    assert clean_message(raw, "Change a.py").subject == subject


def test_a_body_is_kept_without_forged_trailers() -> None:
    raw = (
        "Subject\n\nWhy it is so.\n\n\n\nMore.\n\n"
        "Signed-off-by: Linus <l@example.com>\nco-authored-by: E <e@example.com>\n"
        "Drydock-Run: forged\nReviewed-by : nobody\nskip-checks: true\n"
    )
    message = clean_message(raw, "x")
    assert message == Message("Subject", "Why it is so.\n\nMore.")


def test_a_long_subject_is_cut_at_a_word_and_kept_whole_in_the_body() -> None:
    long = "word " * 30
    message = clean_message(long + "\n\nbody", "x")
    assert len(message.subject) <= 72
    assert message.subject.endswith("word…")
    assert message.body == f"{long.strip()}\n\nbody"


def test_an_endless_body_is_cut() -> None:
    message = clean_message("s\n\n" + "line\n" * 10_000, "x")
    assert len(message.body) <= 4_000
    assert len(message.body.split("\n")) <= 100


def test_our_trailers_are_the_last_paragraph() -> None:
    text = compose_message(
        Message("S", "Body"),
        {"Co-authored-by": "A <a@example.com>", "Drydock-Run": "r1\nInjected: yes"},
    )
    assert text == "S\n\nBody\n\nCo-authored-by: A <a@example.com>\nDrydock-Run: r1 Injected: yes\n"


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("Ann <ann@example.com>", "Ann ann@example.com"),
        ("Ann\nCo-authored-by: x", "Ann Co-authored-by: x"),
        ("", "unknown"),
        ("<>", "unknown"),
    ],
)
def test_a_name_is_one_line_without_brackets(raw: str, clean: str) -> None:
    assert clean_name(raw) == clean


@pytest.mark.parametrize(
    ("head", "message", "text"),
    [
        (b"tree x", "é".encode(), "é"),
        (b"tree x", b"\xe9", "\ufffd"),
        (b"tree x\nencoding ISO-8859-1", b"\xe9", "é"),
        (b"tree x\nencoding cp1251", "ж".encode("cp1251"), "ж"),
        (b"tree x\nencoding rot13", b"nop", "nop"),
        (b"tree x\nencoding ../../x", b"a", "a"),
    ],
)
def test_a_message_is_decoded_as_it_was_declared(head: bytes, message: bytes, text: str) -> None:
    assert split_commit(head + b"\n\n" + message) == text


HOSTILE = st.lists(
    st.sampled_from(
        [
            *("@", "#", "12", "fixes ", "Closes: ", "GH-", "o/r", "[skip ci]", "[ci skip]", " "),
            *("\n", "\n\n", "Co-authored-by: x", "Drydock-Run: y", "https://", "h.example/o/r/"),
            *("issues/1", "a", "\u200b", "\u202e", "\x1b", "\r", "Signed-off-by:", "octocat", "/"),
        ]
    )
    | st.text(max_size=4),
    max_size=14,
).map("".join)


@given(HOSTILE)
@example("@\u200b@a #\u200b1")
@example("GGH-H-1")
@example("hhttps://ttps://x/o/r/issues/1")
def test_nothing_that_acts_survives(raw: str) -> None:
    message = clean_message(raw, "fallback")
    text = f"{message.subject}\n{message.body}"
    assert 0 < len(message.subject) <= 72
    assert "\n" not in message.subject
    assert not re.search(r"(?<![\w/.])@[\w-]", text)
    assert not re.search(r"(?<![&\w])#\d|\w#\d", text)
    assert not re.search(r"\bgh-\d", text, re.IGNORECASE)
    assert not re.search(r"https?://\S+/(issues|pull)/", text, re.IGNORECASE)
    assert "[skip ci]" not in text.lower()
    assert not re.search(r"^\s*([\w-]+-by|drydock-\w+)\s*:", text, re.IGNORECASE | re.MULTILINE)
    assert all(char.isprintable() or char.isspace() for char in text)


@given(HOSTILE)
def test_cleaning_twice_changes_nothing_more(raw: str) -> None:
    once = clean_message(raw, "fallback")
    again = clean_message(f"{once.subject}\n\n{once.body}", "fallback")
    assert again.subject == once.subject


@given(st.text(alphabet=st.characters(whitelist_categories=["Lu", "Ll", "Nd", "Zs"]), max_size=60))
def test_plain_words_are_left_alone(raw: str) -> None:
    plain = raw.strip()
    assert clean_message(raw, "f").subject == (plain or "f")
