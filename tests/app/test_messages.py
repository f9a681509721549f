from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app import messages
from app.commands import SUBCOMMANDS, CommandError, parse_commands
from app.intents import MessageKey, Reply, RunFacts
from app.messages import (
    BODY_LIMIT,
    StatusView,
    check_output,
    co_author,
    commit_message,
    ending_text,
    ending_title,
    github_length,
    help_text,
    pull_request_body,
    pull_request_title,
    reply_body,
    status_comment,
)
from app.repo_config import ConfigError
from app.report import (
    CommitSummary,
    GateFinding,
    RefusalLine,
    Spending,
    Suggestion,
    TestResult,
)
from app.states import ACTIVE, ENDED, PHASES, FailureKind, RunState
from tests.app import reports

REPORT = replace(
    reports.REPORT,
    branch="aider/issue-7-it-leaks",
    head_sha="c" * 40,
    commits=(CommitSummary("d" * 40, "Close the bow", ("bow.py", "test_bow.py"), 3, 1),),
    diffstat=" bow.py | 4 +++-",
    test=TestResult("pytest -q", 0, 1.23, "2 passed"),
    test_before=TestResult("pytest -q", 1, 1.0),
    spending=Spending(12345, 678, 0.0123, 2),
    tier="gvisor",
    template_digest="e" * 64,
    brief_sha256="f" * 64,
    manifest_sha256="0" * 64,
    seconds_by_phase={"checkout": 0.8, "agent": 12.0},
    pull_request_url="https://git.example/acme/ship/pull/9",
    pull_request_number=9,
    run_url="https://dock.example/runs/01abc",
)
VIEW = StatusView("01abc", RunState.AGENT, "alice", seconds_by_phase={"checkout": 0.8})
HOSTILE = st.lists(
    st.sampled_from(
        [
            "@alice",
            "fixes #12",
            "GH-3",
            "<!-- drydock:status run=1 -->",
            "</details>",
            "```\n",
            "`",
            "\n\n",
            "[a](javascript:b)",
            "<b>",
            "word ",
            "| ",
            "> ",
            "# ",
            "https://x.test/issues/1",
        ]
    ),
    max_size=10,
).map("".join)
MENTION = re.compile(r"(?<!\w)@[A-Za-z0-9]")
ALL_ENDINGS = [
    (outcome, kind)
    for outcome, kind in product(sorted(ENDED), [None, *FailureKind])
    if (outcome is RunState.FAILED) == (kind is not None)
]


def text_outside_code(markdown: str) -> str:
    tokens = MarkdownIt("commonmark").parse(markdown)
    flat = [t for token in tokens for t in (token, *(token.children or []))]
    return "\n".join(t.content for t in flat if t.type in {"text", "html_block", "html_inline"})


def test_a_pull_requests_first_lines_tell_it_all() -> None:
    lines = pull_request_body(REPORT).splitlines()
    assert lines[0] == "<!-- drydock:pull run=01abc -->"
    assert lines[1] == "Fixes #7"
    assert lines[3].startswith("✅ **The tests pass.** `pytest -q` exited with 0 after 1.2 s")
    assert "Before the change it exited with 1 after 1.0 s." in lines[3]


def test_a_pull_request_names_everything_that_a_reviewer_asks_for() -> None:
    body = pull_request_body(REPORT)
    for words in (
        "Asked for by alice in #7",
        "- dddddddddd Close the bow (2 files, +3 -1)",
        "bow.py | 4",
        "2 passed",
        "`openai/gpt-x`; 12,345 tokens in, 678 out in 2 calls, $0.0123",
        "`gvisor`, without network or credentials; template `eeeeeeeeeeee`",
        "nothing was refused",
        "f" * 64,
        "0" * 64,
        "[01abc](https://dock.example/runs/01abc)",
        "### Asking for changes",
    ):
        assert words in body


def test_refusals_are_listed_with_their_number_and_reason() -> None:
    body = pull_request_body(
        replace(REPORT, refusals=(RefusalLine("evil.example:443", "no grant", 2),))
    )
    assert "**2 requests were refused**" in body
    assert "- `evil.example:443`, 2 times: no grant" in body


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (TestResult("t", 1, 70), "❌ **The tests fail.** `t` exited with 1 after 1 min 10 s"),
        (TestResult("t", None, 600, timed_out=True), "did not end within 10 min 00 s"),
        (TestResult("t", None, 5), "was killed by a signal"),
        (TestResult("t", 0, 5, timed_out=True), "❌ **The tests fail.**"),
        (None, "**No tests were run:**"),
    ],
)
def test_the_verdict_is_that_of_our_own_run(test: TestResult | None, words: str) -> None:
    assert words in pull_request_body(replace(REPORT, test=test))


def test_lint_and_set_up_are_told_with_how_they_ended() -> None:
    lint = TestResult("make lint", 1, 2.0, "x.py:1: too long")
    setup = (TestResult("npm ci", 0, 12.0), TestResult("make deps", 0, 3.0))
    body = pull_request_body(replace(REPORT, lint=lint, setup=setup))
    assert "- ❌ Lint: `make lint` exited with 1 after 2.0 s" in body
    assert "- ✅ Set-up: `npm ci` exited with 0 after 12 s\n- ✅ Set-up: `make deps`" in body
    assert "x.py:1: too long" in body
    assert body.index("**The tests pass.**") < body.index("Lint") < body.index("### What changed")
    passed = pull_request_body(replace(REPORT, lint=replace(lint, exit_code=0)))
    assert "- ✅ Lint: `make lint`" in passed
    assert "too long" not in passed
    assert "Lint" not in pull_request_body(REPORT)


def test_what_the_machine_could_reach_is_listed() -> None:
    places = ("the model's API (openai)", "@b.example")
    body = pull_request_body(replace(REPORT, could_reach=places))
    assert "- Could reach: the model's API (openai), " in body
    assert "@b.ex" not in body
    assert "; nothing else" in body
    assert "Could reach" not in pull_request_body(REPORT)


def test_suggested_reviewers_are_named_and_not_mentioned() -> None:
    who = (Suggestion("acme/crew", "owns 2 of 2 files"), Suggestion("mona", "changed them once"))
    body = pull_request_body(replace(REPORT, suggested=who))
    assert (
        "Suggested reviewers, whom nobody has asked: `acme/crew` (owns 2 of 2 files),"
        " `mona` (changed them once)\n"
    ) in body
    assert "@" not in body.replace("@users.noreply", "")
    assert "Suggested" not in pull_request_body(REPORT)


def test_an_unknown_price_is_never_called_free() -> None:
    body = pull_request_body(replace(REPORT, spending=Spending(1, 1, None, 1, estimated=True)))
    assert "about 1 tokens in, 1 out in 1 call, cost unknown" in body


def test_a_title_closes_and_mentions_nothing_when_merged() -> None:
    title = pull_request_title(
        replace(REPORT, issue_title="Fixes #12 for @bob\n[skip ci] " + "x" * 300)
    )
    assert title.startswith("Fixes # 12 for @ bob (skip ci) ")
    assert len(title) <= 200
    assert pull_request_title(replace(REPORT, issue_title="\u200b")) == "Resolve issue 7"


@given(HOSTILE, HOSTILE, HOSTILE)
def test_nothing_from_outside_acts_in_a_pull_request(words: str, path: str, tail: str) -> None:
    report = replace(
        REPORT,
        issue_title=words,
        asked_by=words,
        instruction=path,
        commits=(CommitSummary("d" * 40, words, (path,), 1, 1),),
        diffstat=tail,
        test=TestResult(tail, 1, 1.0, tail),
        refusals=(RefusalLine(path, words, 1),),
        warnings=(words,),
        base_ref=path,
        branch=path,
        tier=words,
    )
    body = pull_request_body(report)
    shown = text_outside_code(body)
    assert not MENTION.search(shown)
    assert set(re.findall(r"#(\d+)", body)) == {"7"}
    assert re.findall(r"(?i)gh-\d|/issues/\d", shown) == []
    assert body.count("<!--") == 1
    assert body.count("### ") == 3 or "# " in words + path + tail
    assert "Review this like anybody's work" in shown


def test_a_huge_report_fits_and_says_what_is_missing() -> None:
    commits = tuple(CommitSummary("d" * 40, "x" * 900) for _ in range(5000))
    body = pull_request_body(
        replace(REPORT, commits=commits, diffstat="y\n" * 50_000, instruction="z" * 60_000)
    )
    assert github_length(body) <= BODY_LIMIT
    assert "- and 4950 more" in body
    assert body.startswith("<!-- drydock:pull run=01abc -->\nFixes #7")


@pytest.mark.parametrize(("outcome", "kind"), ALL_ENDINGS)
def test_every_ending_says_what_happened_what_it_means_and_what_to_do(
    outcome: RunState, kind: FailureKind | None
) -> None:
    report = replace(REPORT, outcome=outcome, failure_kind=kind, detail="a <b> @detail")
    text = ending_text(report)
    assert text.startswith("**")
    assert ending_title(report).endswith(".")
    if outcome is not RunState.PUBLISHED:
        assert "**Next:** " in text
        assert "a \\<\u200bb\\> @\u200bdetail" in text


def test_no_two_endings_have_the_same_words() -> None:
    titles = [
        ending_title(replace(REPORT, outcome=outcome, failure_kind=kind))
        for outcome, kind in ALL_ENDINGS
    ]
    assert len(set(titles)) == len(titles)


def test_an_answer_in_words_is_quoted_and_cannot_act() -> None:
    report = replace(
        REPORT, outcome=RunState.NO_CHANGES, answer="No bug.\n\n@bob closes #3\n```\nx"
    )
    text = ending_text(report)
    assert "Aider answered in words" in text
    assert "> No bug.\n>\n> @\u200bbob closes #\u200b3\n> ```\n> x\n\n**Next:**" in text


def test_gate_findings_name_file_rule_and_reason() -> None:
    finding = GateFinding(".github/workflows/ci.yml", "workflows", "workflows may not be changed")
    text = ending_text(replace(REPORT, outcome=RunState.REFUSED, findings=(finding,)))
    assert "- `.github/workflows/ci.yml`: workflows may not be changed (rule `workflows`)" in text


def test_an_explanation_of_ours_takes_the_place_of_the_general_words() -> None:
    words = messages.config_error(ConfigError("unknown key tset", 2, "test"))
    refused = replace(REPORT, outcome=RunState.REFUSED, explanation=words)
    assert ending_text(replace(refused, spending=Spending())) == words
    assert ending_text(refused).startswith(words), "what it cost stands below"
    assert words.startswith("**`.github/drydock.yml`, line 2:** unknown key tset.")
    assert "Did you mean `test`?" in words


def test_the_status_comment_begins_with_its_marker_and_shows_the_phases() -> None:
    lines = status_comment(VIEW).splitlines()
    assert lines[0] == "<!-- drydock:status run=01abc -->"
    assert "- [x] Fetch the repository (0.8 s)" in lines
    assert "- [ ] **Aider works** …" in lines
    assert "- [ ] Open the pull request" in lines


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (None, "as soon as"),
        (1, "as soon as"),
        (2, "1 run is before it"),
        (5, "4 runs are before it"),
    ],
)
def test_a_queued_run_says_how_many_are_before_it(position: int | None, words: str) -> None:
    view = replace(VIEW, state=RunState.QUEUED, queue_position=position)
    assert words in status_comment(view)


@pytest.mark.parametrize("state", sorted(ACTIVE))
def test_every_active_state_has_a_comment_and_an_unfinished_check(state: RunState) -> None:
    view = replace(VIEW, state=state)
    assert "Asked for by alice." in status_comment(view)
    check = check_output(view)
    assert check.conclusion is None
    assert check.status in {"queued", "in_progress"}


@pytest.mark.parametrize(("outcome", "kind"), ALL_ENDINGS)
def test_every_ended_state_has_a_comment_and_a_concluded_check(
    outcome: RunState, kind: FailureKind | None
) -> None:
    report = replace(REPORT, outcome=outcome, failure_kind=kind)
    view = replace(VIEW, state=outcome, report=report, seconds_by_phase=report.seconds_by_phase)
    assert ending_text(report) in status_comment(view)
    check = check_output(view)
    assert (check.status, bool(check.conclusion)) == ("completed", True)
    assert (check.conclusion == "success") == (outcome is RunState.PUBLISHED)


def test_a_check_is_a_success_only_when_our_own_tests_passed() -> None:
    for test in (None, TestResult("t", 1, 1.0)):
        report = replace(REPORT, test=test)
        view = replace(VIEW, state=RunState.PUBLISHED, report=report)
        assert check_output(view).conclusion == "neutral"


def test_an_ended_run_shows_where_it_stopped() -> None:
    report = replace(REPORT, outcome=RunState.CANCELLED, detail="/aider stop by bob")
    view = replace(
        VIEW, state=RunState.CANCELLED, report=report, seconds_by_phase={"checkout": 1, "agent": 30}
    )
    text = status_comment(view)
    assert "- [ ] **Aider works**: ended here after 30 s" in text
    assert "/aider stop by bob" in text


@given(HOSTILE, HOSTILE)
def test_nothing_from_outside_acts_in_a_status_comment(words: str, other: str) -> None:
    report = replace(
        REPORT, outcome=RunState.NO_CHANGES, answer=words, detail=other, log_tail=other
    )
    moving = replace(VIEW, asked_by=words, instruction=other, notes=(words,), model=other)
    for text in (
        status_comment(moving),
        status_comment(replace(moving, state=RunState.NO_CHANGES, report=report)),
    ):
        assert text.count("<!--") == 1
        assert not MENTION.search(text_outside_code(text))
        assert not re.search(r"#\d", text)


@pytest.mark.parametrize("key", list(MessageKey))
def test_every_reply_has_words(key: MessageKey) -> None:
    reply = Reply(7, key, "why", run=RunFacts("01abc", 7, "agent"))
    for status in (None, VIEW):
        body = reply_body(reply, label="aider", status=status)
        assert len(body) > 20
        # What we post may never be taken for a command.
        assert parse_commands(body) == ()


def test_a_wrong_command_is_answered_with_the_nearest() -> None:
    error = CommandError("there is no option modle=", "model=", 3)
    body = reply_body(Reply(7, MessageKey.COMMAND_ERROR, "why", error=error), label="aider")
    assert "there is no option modle= (line 3)" in body
    assert "Did you mean `model=`?" in body


def test_help_lists_every_command_and_fits_one_screen() -> None:
    text = help_text("aider")
    assert all(f"/aider {name}" in text for name in SUBCOMMANDS)
    assert len(text.splitlines()) <= 25


def test_every_notice_says_what_to_do_next() -> None:
    for text in (
        messages.empty_repository(),
        messages.missing_base("dev"),
        messages.app_lost_access("acme/ship"),
        messages.config_error(ConfigError("x")),
    ):
        assert text.startswith("**")
        assert "**Next:** " in text
    assert ".github/drydock.yml" in messages.no_test_command()


def test_no_message_begins_like_a_command() -> None:
    for outcome, kind in ALL_ENDINGS:
        assert (
            parse_commands(ending_text(replace(REPORT, outcome=outcome, failure_kind=kind))) == ()
        )
    assert parse_commands(pull_request_body(REPORT)) == ()


def test_a_commit_message_has_our_trailers_and_not_the_models() -> None:
    words = "Fix #3 for @bob\n\nBody\nCo-authored-by: Eve <e@x>\nSigned-off-by: Eve\nDrydock-Run: 1"
    text = commit_message(words, "01abc", co_author("alice", 11, "https://github.com"))
    assert text == (
        "Fix # 3 for @ bob\n\nBody\n\n"
        "Co-authored-by: alice <11+alice@users.noreply.github.com>\nDrydock-Run: 01abc\n"
    )


def test_an_empty_commit_message_gets_a_subject() -> None:
    assert commit_message("Signed-off-by: x", "1", None) == "Change by Aider\n\nDrydock-Run: 1\n"


def test_a_co_author_has_the_address_of_that_github() -> None:
    line = co_author("al<i>ce\n", 5, "https://git.corp.example:8443")
    assert line == "Co-authored-by: alice <5+alice@users.noreply.git.corp.example>"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3725, "1 h 02 min"),
    ],
)
def test_durations_are_for_people(seconds: float, words: str) -> None:
    assert messages.duration(seconds) == words


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_has_words(phase: RunState) -> None:
    assert messages.PHASE_WORDS[phase]


LOST = replace(REPORT, outcome=RunState.FAILED, failure_kind=FailureKind.INTERNAL)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"branch": None, "head_sha": None}, "Nothing was pushed."),
        ({"branch": None}, f"It was about to push `{'c' * 12}`: whether it did"),
        ({}, "are on the branch `aider/issue-7-it-leaks`"),
    ],
)
def test_an_ending_claims_no_more_of_a_push_than_is_known(
    changes: dict[str, None], words: str
) -> None:
    text = ending_text(replace(LOST, **changes))  # type: ignore[arg-type]
    assert words in text
    assert ("Nothing was pushed" in text) is (words == "Nothing was pushed.")


def test_what_a_log_says_of_a_push_is_left_as_it_is() -> None:
    report = replace(LOST, log_tail="aider: Nothing was pushed.")
    assert "aider: Nothing was pushed." in ending_text(report)


def test_an_undo_that_cannot_be_done_says_why_and_that_nothing_was_pushed() -> None:
    text = messages.undo_impossible("The same lines were changed since.")
    assert "The same lines were changed since." in text
    assert "Nothing was pushed." in text
    assert "**Next:**" in text
