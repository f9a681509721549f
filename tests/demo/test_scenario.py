from __future__ import annotations

import json

import pytest

from demo.scenario import (
    BUILT_IN,
    Chooser,
    Edit,
    Fault,
    Hang,
    HttpError,
    Message,
    Reset,
    Scenario,
    Text,
    Truncated,
    commit_message,
    failing,
    fix_after_failing_test,
    follow_up,
    render,
    scenarios_from_json,
)

WRONG = ("    return a - b\n", "    return abs(a - b)\n")
RIGHT = ("    return abs(a - b)\n", "    return a + b\n")
FIX = fix_after_failing_test("src/calc.py", WRONG, RIGHT)
ASK = Message("user", "add(2, 3) is wrong")
EXAMPLE = Message("assistant", "To make this change we need to modify a file of an example.")


def said(reply: object) -> Message:
    assert isinstance(reply, Text | Edit)
    return Message("assistant", render(reply))


def test_an_edit_is_written_as_aiders_diff_format_wants_it() -> None:
    assert render(Edit("src/calc.py", *WRONG, say="So.")) == (
        "So.\n\nsrc/calc.py\n```python\n<<<<<<< SEARCH\n    return a - b\n=======\n"
        "    return abs(a - b)\n>>>>>>> REPLACE\n```\n"
    )


def test_a_new_file_has_an_empty_search_and_a_missing_newline_is_added() -> None:
    assert "<<<<<<< SEARCH\n=======\nA = 1\n>>>>>>> REPLACE" in render(Edit("a.py", "", "A = 1"))


def test_the_reply_follows_from_the_conversation() -> None:
    chooser = Chooser([FIX])
    wrong, right = FIX.replies
    assert chooser.choose([EXAMPLE, ASK]) is wrong
    after = [EXAMPLE, ASK, said(wrong), Message("assistant", "Ok."), Message("user", "fails")]
    assert chooser.choose(after) is right
    assert chooser.choose([*after, said(right), Message("user", "more")]) is right


def test_a_run_that_starts_again_is_answered_from_the_beginning() -> None:
    chooser = Chooser([FIX])
    assert chooser.choose([ASK, said(FIX.replies[0])]) is FIX.replies[1]
    assert chooser.choose([ASK]) is FIX.replies[0]
    assert Chooser([FIX]).choose([ASK]) is FIX.replies[0]


def test_a_summary_keeps_the_place_in_the_conversation() -> None:
    chooser = Chooser([FIX])
    prompt = Message("system", "*Briefly* summarize this partial conversation about programming.")
    told = f"# USER\nfix it\n# ASSISTANT\n{render(FIX.replies[0]).strip()}\n"  # type: ignore[arg-type]
    summary = chooser.choose([prompt, Message("user", told)])
    assert isinstance(summary, Text)
    again = [Message("user", f"I spoke to you previously.\n{summary.text}"), EXAMPLE, ASK]
    assert chooser.choose(again) is FIX.replies[1]


def test_a_commit_message_fits_the_diff_that_is_shown() -> None:
    prompt = Message("system", "You write concise, one-line Git commit messages for diffs.")
    chooser = Chooser([FIX])
    for search, replace in (WRONG, RIGHT):
        diff = f"--- a/src/calc.py\n+++ b/src/calc.py\n-{search}+{replace}"
        reply = chooser.choose([prompt, Message("user", diff)])
        expected = {WRONG: FIX.replies[0], RIGHT: FIX.replies[1]}[search, replace]
        assert isinstance(expected, Edit)
        assert reply == Text(expected.commit)
    other = "--- a/x.py\n+++ b/x.py\n+new line\n"
    assert chooser.choose([prompt, Message("user", other)]) == Text("fix: Update x.py")


def test_a_commit_message_is_one_line_of_at_most_72_characters() -> None:
    diff = [Message("user", "+++ b/" + "x" * 100)]
    assert len(commit_message(FIX, diff)) == 72
    assert commit_message(FIX, []) == "fix: Update the code"


def test_the_first_scenario_whose_words_are_in_the_conversation_answers() -> None:
    later = follow_up("negative numbers", "calc.py", "a\n", "b\n")
    chooser = Chooser([later, FIX])
    assert chooser.choose([ASK]) is FIX.replies[0]
    assert chooser.choose([Message("user", "Handle negative numbers too")]) is later.replies[0]
    # The model's own words do not count.
    assert chooser.choose([ASK, Message("assistant", "negative numbers")]) is FIX.replies[0]
    with pytest.raises(LookupError):
        Chooser([later]).choose([ASK])


def test_a_limited_error_is_given_so_many_times_for_equal_requests() -> None:
    chooser = Chooser([failing(Fault.RATE_LIMIT, 2, [Text("now")])])
    kinds = [type(chooser.choose([ASK])) for _ in range(4)]
    assert kinds == [HttpError, HttpError, Text, Text]
    assert isinstance(chooser.choose([Message("user", "another")]), HttpError)


def test_an_error_after_a_reply_waits_for_that_reply() -> None:
    scenario = Scenario("s", (Text("first"), HttpError(Fault.AUTH)))
    chooser = Chooser([scenario])
    assert chooser.choose([ASK]) == Text("first")
    assert chooser.choose([ASK, Message("assistant", "first")]) == HttpError(Fault.AUTH)


def test_a_function_may_choose() -> None:
    assert Chooser(lambda messages: Text(str(len(messages)))).choose([ASK, ASK]) == Text("2")


def test_scenarios_are_read_from_json() -> None:
    replies = [
        {"kind": "text", "text": "a"},
        {"kind": "edit", "path": "a.py", "search": "a", "replace": "b", "commit": "fix: a"},
        {"kind": "error", "fault": "rate_limit", "times": 2, "retry_after": 1},
        {"kind": "hang", "seconds": 5},
        {"kind": "truncated", "text": "b"},
        {"kind": "reset"},
    ]
    one = {"name": "one", "when": "w", "replies": replies}
    expected = Scenario(
        "one",
        (
            Text("a"),
            Edit("a.py", "a", "b", commit="fix: a"),
            HttpError(Fault.RATE_LIMIT, 2, 1),
            Hang(5),
            Truncated("b"),
            Reset(),
        ),
        "w",
    )
    assert scenarios_from_json(json.dumps(one)) == (expected,)
    assert scenarios_from_json(json.dumps([one, one])) == (expected, expected)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"name": "a"}, "replies"),
        ({"name": "a", "replies": []}, "no replies"),
        ({"name": "a", "replies": [{"kind": "song"}]}, "song"),
        ({"name": "a", "replies": [{"kind": "text", "words": "x"}]}, "has no words"),
        ({"name": "a", "replies": [{"kind": "text"}]}, "text"),
        ({"name": "a", "replies": [{"kind": "error", "fault": "flood"}]}, "flood"),
        ([5], "not a scenario"),
    ],
)
def test_a_wrong_scenario_file_is_refused(data: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        scenarios_from_json(json.dumps(data))


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_scenario_has_an_answer(name: str) -> None:
    assert Chooser([BUILT_IN[name]()]).choose([ASK]) is not None
