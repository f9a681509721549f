from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.commands import (
    MAX_COMMANDS,
    SUBCOMMANDS,
    Command,
    CommandError,
    CommandKind,
    CommandOptions,
    parse_commands,
)
from tests.effort import effort

LINES = st.lists(
    st.sampled_from(
        [
            "/aider stop",
            "/aider fix it",
            "> /aider x",
            "```",
            "~~~",
            "<!--",
            "-->",
            "- a",
            "",
            "text",
            "    /aider code",
            "`",
            "[x]:",
            "***",
            "| a | b |",
            "| - | - |",
            "<div>",
            "/aider",
            "# h",
        ]
    ),
    max_size=12,
).map("\n".join)


def only(text: str) -> Command:
    (found,) = parse_commands(text)
    assert isinstance(found, Command), found
    return found


def wrong(text: str) -> CommandError:
    (found,) = parse_commands(text)
    assert isinstance(found, CommandError), found
    return found


def kinds(text: str) -> list[str]:
    return [c.kind if isinstance(c, Command) else "error" for c in parse_commands(text)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/aider", ""),
        ("/aider fix the parser", "fix the parser"),
        ("   /aider three spaces are still text", "three spaces are still text"),
        ("Thanks!\n/aider fix it", "fix it"),
        ("Thanks!\n\n/aider fix it\nand that\n\nand this", "fix it\nand that\n\nand this"),
        ("/aider\r\nwith CRLF\r\n", "with CRLF"),
        ("/Aider from a phone", "from a phone"),
        ("/aider use `x < y` and **this**", "use `x < y` and **this**"),
        ("/aider fix\n```py\ncode()\n```\nafter", "fix\n```py\ncode()\n```\nafter"),
        ("> what about this?\n\n/aider do it", "do it"),
        ("/aider fix\n\n> a quote that belongs to it", "fix\n\n> a quote that belongs to it"),
        ("/aider fix it\n--\nAlice", "fix it\n--\nAlice"),
        ("/aider fix\n===", "fix\n==="),
        ("*see*\n/aider fix", "fix"),
        ("line with two spaces  \n/aider fix", "fix"),
    ],
)
def test_a_command_at_the_start_of_a_line_is_heard(text: str, said: str) -> None:
    assert only(text) == Command(CommandKind.RUN, said, line=only(text).line)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "please /aider fix",
        "/aiders fix",
        "/aider-fix",
        "/aider/fix",
        "x/aider",
        "//aider",
        "> /aider quoted",
        "> quoted\n/aider lazily continued, and shown as a quote",
        "> > /aider",
        "    /aider indented code",
        "\t/aider indented code",
        "```\n/aider in a fence\n```",
        "~~~text\n/aider in a fence\n~~~",
        "```\n/aider in a fence that is never closed",
        "`a\n/aider in a code span\nb`",
        "<!-- /aider -->",
        "<!--\n/aider\n-->",
        "text <!--\n/aider hidden\n--> text",
        "<div>\n/aider in an HTML block\n</div>",
        "[a\n/aider in a link](http://x)",
        "[x]:\n/aider",
        "- /aider in a list",
        "1. /aider in a list",
        "- a\n/aider lazily continued in a list",
        "# /aider in a heading",
        "**/aider** bold",
        "| a | b |\n|---|---|\n/aider in a table",
        "\\/aider escaped is no command either",
        "\uff0faider",
    ],
)
def test_what_is_not_at_the_start_of_ordinary_text_is_not_heard(text: str) -> None:
    assert parse_commands(text) == ()


@pytest.mark.parametrize("name", SUBCOMMANDS)
@pytest.mark.parametrize("form", ["{}", "{}.", "{}!", "{} please", "{} it, now", "  {}  ", "{}\n"])
def test_a_subcommand_alone_on_its_line_is_that_subcommand(name: str, form: str) -> None:
    assert only("/aider " + form.format(name)).kind == name
    assert only("/aider " + form.format(name.upper())).kind == name


INVISIBLE = ["\u200b", "\u200d", "\u2060", "\ufeff", "\u202c", "\u00ad", "\u2800", "\U000e0041"]


@pytest.mark.parametrize("char", INVISIBLE)
@pytest.mark.parametrize(
    "form", ["/aider stop{}", "/aider{} stop", "{}/aider stop", "/aider {}stop", "/aider stop {}"]
)
def test_an_invisible_character_at_the_end_of_a_word_is_ignored(form: str, char: str) -> None:
    assert only(form.format(char)) == Command(CommandKind.STOP)
    assert only(form.format(char * 3)) == Command(CommandKind.STOP)


def test_invisible_characters_are_ignored_behind_options_and_politeness_too() -> None:
    assert only("/aider retry\u200b please\u200b").kind is CommandKind.RETRY
    options = only("/aider base=dev\u200b attempts=2\ufeff fix\u200b it").options
    assert options == CommandOptions(base="dev", attempts=2)
    assert only("/aider fix\u200b it").text == "fix it"


@pytest.mark.parametrize("text", ["/aider st\u200bop", "/aider s\u2060top", "/aider he\u00adlp"])
def test_an_invisible_character_inside_a_subcommand_is_answered(text: str) -> None:
    error = wrong(text)
    assert "invisible character" in error.reason
    assert error.nearest in {"/aider stop", "/aider help"}


@pytest.mark.parametrize(
    "text",
    ["/ai\u200bder stop", "/\u200baider stop", "\u200b    /aider stop", "> \u200b/aider stop"],
)
def test_an_invisible_character_makes_no_command_of_what_is_none(text: str) -> None:
    assert parse_commands(text) == ()


def test_lines_below_a_command_are_kept_as_they_were_written() -> None:
    assert only("/aider fix\nthis\u200b one").text == "fix\nthis\u200b one"


def test_a_long_line_of_invisible_characters_costs_no_more_than_its_length() -> None:
    def parse_both() -> None:
        parse_commands("/aider " + "\u200b" * 60_000 + "stop")
        parse_commands("/aider " + "a\u200b" * 30_000)

    assert effort(parse_both, 1, fresh=parse_commands.cache_clear) < 1


@pytest.mark.parametrize(
    "text",
    ["stop using globals", "help me fix the parser", "status codes are wrong", "retrying loops"],
)
def test_a_sentence_that_begins_like_a_subcommand_is_a_wish(text: str) -> None:
    assert only(f"/aider {text}") == Command(CommandKind.RUN, text)


def test_what_stands_below_a_subcommand_is_its_text() -> None:
    assert only("/aider retry\nbut with a dict") == Command(CommandKind.RETRY, "but with a dict")


def test_several_commands_come_in_order_and_each_ends_the_one_before() -> None:
    found = parse_commands("/aider stop\n/aider retry\nwith care\n\ntext\n/aider fix\n")
    assert [(c.kind, c.text, c.line) for c in found if isinstance(c, Command)] == [
        (CommandKind.STOP, "", 1),
        (CommandKind.RETRY, "with care\n\ntext", 2),
        (CommandKind.RUN, "fix", 6),
    ]


def test_options_stand_in_front_of_the_text() -> None:
    command = only("/aider model=openai/gpt-x base=`dev` attempts=3 fix a=b")
    assert command.options == CommandOptions("openai/gpt-x", "dev", 3)
    assert command.text == "fix a=b"


def test_options_may_follow_a_subcommand() -> None:
    command = only("/aider retry model=m\nand this")
    assert command == Command(CommandKind.RETRY, "and this", CommandOptions(model="m"))


def test_text_with_an_equals_sign_later_on_is_text() -> None:
    assert only("/aider set x=1 everywhere").text == "set x=1 everywhere"


@pytest.mark.parametrize(
    ("text", "reason", "nearest"),
    [
        ("/aider modle=x fix", "no option modle=", "model="),
        ("/aider zzz=x fix", "no option zzz=", None),
        ("/aider base=a base=b fix", "given twice", None),
        ("/aider model= fix", "needs a value", None),
        ("/aider base=a..b fix", "not a name that git takes", None),
        ("/aider base=-x fix", "not a name that git takes", None),
        ("/aider attempts=0", "from 1 to 8", None),
        ("/aider attempts=99", "from 1 to 8", None),
        ("/aider attempts=two", "from 1 to 8", None),
        ("/aider attempts=٣", "from 1 to 8", None),
        ("/aider stpo", "no command /aider stpo", "/aider stop"),
        ("/aider halp", "no command /aider halp", "/aider help"),
    ],
)
def test_a_wrong_command_is_answered_with_the_nearest_right_one(
    text: str, reason: str, nearest: str | None
) -> None:
    error = wrong(text)
    assert reason in error.reason
    assert error.nearest == nearest


def test_a_wrong_command_leaves_the_others_standing() -> None:
    assert kinds("/aider stop\n/aider modle=x\n/aider status") == ["stop", "error", "status"]


def test_beyond_the_limit_the_rest_is_refused_once() -> None:
    found = parse_commands("/aider stop\n" * (MAX_COMMANDS + 5))
    assert len(found) == MAX_COMMANDS + 1
    assert isinstance(found[-1], CommandError)
    assert found[-1].line == MAX_COMMANDS + 1


def test_the_marks_of_the_parser_cannot_be_forged() -> None:
    assert parse_commands("text /aider\ue0000\ue000\n\n    /aider") == ()
    assert kinds("\ue0000\ue000\n/aider stop") == ["stop"]


@given(st.text(max_size=300))
def test_no_text_crashes_the_grammar(text: str) -> None:
    parse_commands(text)


@given(LINES)
def test_no_mixture_of_markdown_crashes_the_grammar(text: str) -> None:
    for found in parse_commands(text):
        line = text.split("\n")[found.line - 1]
        assert line.startswith("/aider")


@given(LINES)
def test_what_is_wholly_quoted_or_fenced_is_never_heard(text: str) -> None:
    assert parse_commands("\n".join(f"> {line}" for line in text.split("\n"))) == ()
    assert parse_commands(f"`````\n{text}\n`````") == ()


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=80))
def test_a_command_is_found_below_any_closed_paragraph_of_words(text: str) -> None:
    words = "".join(c for c in text if c.isalnum() or c == " ")
    assert kinds(f"{words}\n\n/aider stop")[-1] == "stop"
