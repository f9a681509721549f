"""`/aider allow PATH`: its grammar, who may say it, and what is answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.commands import Command, CommandError, CommandKind, parse_commands
from app.decide import decide
from app.intents import AllowPath, CancelRun, MessageKey, React, Reply, RunFacts
from app.messages import allow_word, ending_text, refused_paths
from app.report import GateFinding
from app.states import RunState
from tests.app.test_decide import FACTS, commented
from tests.app.test_messages import REPORT

REFUSED = RunFacts("r0", 7, "refused", "alice", refused_paths=(".npmrc", "my file"))
FACTS = replace(FACTS, permission="maintain", last_run=REFUSED)


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("/aider allow .npmrc", ".npmrc"),
        ("/aider ALLOW `my file`", "my file"),
        ('/aider allow "my file"  ', "my file"),
        ("/aider allow a/b'c", "a/b'c"),
    ],
)
def test_allow_takes_one_path(said: str, path: str) -> None:
    (found,) = parse_commands(said)
    assert found == Command(CommandKind.ALLOW, path)


@pytest.mark.parametrize(
    "said", ["/aider allow", "/aider allow  ", "/aider model=x allow a", "/aider allow\n.npmrc"]
)
def test_allow_without_a_path_or_with_options_is_a_mistake(said: str) -> None:
    (found,) = parse_commands(said)
    assert isinstance(found, CommandError)
    assert "one path" in found.reason


@pytest.mark.parametrize(
    ("said", "nearest"),
    [
        ("/aider allow .npmrc and a.sh", "/aider allow .npmrc"),
        ("/aider allow src/x for now, please", "/aider allow src/x"),
        ('/aider allow "my file" too', '/aider allow "my file"'),
        ("/aider allow `my file`, yours", "/aider allow `my file`"),
        ("/aider allow .npmrc\nThanks!", "/aider allow .npmrc"),
        ("/aider allow x\nand more", "/aider allow x"),
        ("/aider allow .npmrc\n\n> quoted", "/aider allow .npmrc"),
    ],
)
def test_words_behind_or_below_the_path_are_answered_and_nothing_is_let_through(
    said: str, nearest: str
) -> None:
    (found,) = parse_commands(said)
    assert isinstance(found, CommandError)
    assert "nothing else" in found.reason
    assert found.nearest == nearest
    assert not any(isinstance(each, AllowPath) for each in decide(commented(said), FACTS))


@pytest.mark.parametrize(
    "tail", [" please", ", thanks!", "  ", "\n\n", "\u200b", " \u200b\n\ufeff"]
)
def test_politeness_and_what_nobody_sees_are_no_words(tail: str) -> None:
    assert parse_commands(f"/aider allow `my file`{tail}") == (
        Command(CommandKind.ALLOW, "my file"),
    )


@pytest.mark.parametrize(
    "said",
    [
        "/aider allow users to log in",
        "/aider allow empty names. They are legal",
        "/aider allowed hosts are ignored: a/b",
    ],
)
def test_a_wish_that_begins_with_allow_is_a_wish(said: str) -> None:
    (found,) = parse_commands(said)
    assert isinstance(found, Command)
    assert found.kind is CommandKind.RUN


@pytest.mark.parametrize("path", ["a/b.c", "my file", "it's", "a`b"])
def test_a_path_as_it_is_written_is_read_back(path: str) -> None:
    (found,) = parse_commands(f"/aider allow {allow_word(path)}")
    assert found == Command(CommandKind.ALLOW, path)


def test_a_maintainer_lets_a_refused_path_through() -> None:
    react, allow = decide(commented("/aider allow `my file`"), FACTS)
    assert isinstance(react, React)
    assert isinstance(allow, AllowPath)
    assert (allow.run_id, allow.path, allow.by.login) == ("r0", "my file", "alice")


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        (replace(FACTS, permission="write"), MessageKey.MAY_NOT_ALLOW),
        (replace(FACTS, permission="admin", allow_permission="nobody"), MessageKey.MAY_NOT_ALLOW),
        (replace(FACTS, last_run=None), MessageKey.NOTHING_TO_ALLOW),
        (replace(FACTS, last_run=replace(REFUSED, refused_paths=())), MessageKey.NOTHING_TO_ALLOW),
        (replace(FACTS, last_run=replace(REFUSED, state="failed")), MessageKey.NOTHING_TO_ALLOW),
        (replace(FACTS, active_run=replace(REFUSED, state="agent")), MessageKey.ALREADY_RUNNING),
    ],
)
def test_whatever_stands_in_the_way_is_answered(facts: object, key: MessageKey) -> None:
    intents = decide(commented("/aider allow .npmrc"), facts)  # type: ignore[arg-type]
    assert [each.key for each in intents if isinstance(each, Reply)] == [key]
    assert not any(isinstance(each, AllowPath | CancelRun) for each in intents)


def test_a_path_that_was_not_refused_is_answered_with_the_nearest() -> None:
    reply = decide(commented("/aider allow .npm"), FACTS)[-1]
    assert isinstance(reply, Reply)
    assert reply.error is not None
    assert reply.error.nearest == "/aider allow .npmrc"


def test_a_refusal_says_how_a_file_is_let_through_and_what_stays_refused() -> None:
    findings = (
        GateFinding("a b.sh", "protected_path", "no", "refuse", allowable=True),
        GateFinding("x", "path_unsafe", "no", "refuse"),
        GateFinding("y", "binary", "look", "warn", allowable=True),
    )
    report = replace(REPORT, outcome=RunState.REFUSED, findings=findings)
    assert refused_paths(report) == ("a b.sh",)
    text = ending_text(report)
    assert '`/aider allow "a b.sh"`' in text
    assert "What else was refused stays so." in text
    assert "- ⚠️ `y`: look" in text
