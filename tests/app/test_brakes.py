"""Which brake holds one more run, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from app.brakes import Brake, BrakeKind, Counts, Limits, reached
from app.decide import decide
from app.events import Event
from app.intents import Facts, MessageKey, Reply
from app.messages.brakes import brake_marker, brake_reached
from app.settings import Settings
from tests.app.test_ci import EVENT
from tests.app.test_ci import FACTS as CI_FACTS
from tests.app.test_decide import FACTS, ISSUE, ROBOT, commented, labeled, shapes
from tests.app.test_decide_pulls import FACTS as PULL_FACTS
from tests.app.test_decide_pulls import SIDE, said

LIMITS = Limits(rounds=3, repo_hour=9, user_hour=4, open_pulls=5)


@pytest.mark.parametrize(
    ("counts", "by_machine", "opens_pull", "expected"),
    [
        (Counts(), True, True, None),
        (Counts(2, 8, 3, 4), True, True, None),
        (Counts(rounds=3), True, False, Brake(BrakeKind.ROUNDS, 3)),
        (Counts(rounds=3), False, False, None),
        (Counts(repo_hour=9), False, False, Brake(BrakeKind.REPO_HOUR, 9)),
        (Counts(user_hour=4), False, False, Brake(BrakeKind.USER_HOUR, 4)),
        (Counts(user_hour=40), True, True, Brake(BrakeKind.USER_HOUR, 4)),
        (Counts(open_pulls=5), False, True, Brake(BrakeKind.OPEN_PULLS, 5)),
        (Counts(open_pulls=5), True, False, None),
    ],
)
def test_the_table(
    counts: Counts, by_machine: bool, opens_pull: bool, expected: Brake | None
) -> None:
    assert reached(counts, LIMITS, by_machine=by_machine, opens_pull=opens_pull) == expected


def held(facts: Facts, **counts: int) -> Facts:
    return replace(facts, counts=Counts(**counts), limits=LIMITS)


@pytest.mark.parametrize(
    "event",
    [
        labeled(),
        commented("/aider"),
        commented("/aider retry"),
        commented("/aider force"),
        commented("/aider force", issue=replace(ISSUE, state="closed")),
    ],
)
def test_whatever_would_begin_a_run_is_held_and_force_is_no_way_round(event: Event) -> None:
    last = replace(CI_FACTS.last_run, issue_number=7) if CI_FACTS.last_run else None
    facts = held(replace(FACTS, last_run=last), user_hour=4)
    assert shapes(decide(event, facts)) == ["react confused", "reply brake"]


def test_stopping_and_asking_are_not_held() -> None:
    facts = held(FACTS, user_hour=4, repo_hour=9)
    assert shapes(decide(commented("/aider status"), facts)) == ["reply nothing_running"]
    assert shapes(decide(commented("/aider stop"), facts)) == ["reply nothing_running"]


def test_rounds_hold_what_no_person_asked_for_and_nobody_else() -> None:
    assert shapes(decide(said("/aider more"), held(PULL_FACTS, rounds=3))) == [
        *("react eyes", "start command")
    ]
    by_bot = replace(said("/aider more"), actor=ROBOT)
    facts = replace(held(PULL_FACTS, rounds=3), allowed_bots=(ROBOT.login,))
    assert shapes(decide(by_bot, facts)) == ["react confused", "reply brake"]
    assert shapes(decide(EVENT, held(CI_FACTS, rounds=3))) == ["reply brake"]


def test_open_pull_requests_hold_new_ones_and_not_their_own_continuation() -> None:
    assert shapes(decide(labeled(), held(FACTS, open_pulls=5)))[-1] == "reply brake"
    assert shapes(decide(said("/aider more"), held(PULL_FACTS, open_pulls=5)))[-1] == (
        "start command"
    )


def test_the_reply_goes_where_it_was_asked_and_names_the_brake() -> None:
    reply = decide(commented("/aider", issue=SIDE), held(PULL_FACTS, repo_hour=9))[-1]
    assert isinstance(reply, Reply)
    assert (reply.key, reply.issue_number) == (MessageKey.BRAKE, SIDE.number)
    assert reply.brake == Brake(BrakeKind.REPO_HOUR, 9)


@pytest.mark.parametrize("kind", list(BrakeKind))
def test_every_brake_has_words_and_a_setting(kind: BrakeKind) -> None:
    words = brake_reached(Brake(kind, 7))
    assert words.startswith("**Nothing was started: 7 ")
    assert f"`DRYDOCK_{kind.upper()}`" in words
    assert kind.value in Settings.model_fields


def test_the_marker_is_another_one_for_each_hour_and_brake() -> None:
    at = datetime(2026, 5, 1, 10, 59, tzinfo=UTC)
    brake = Brake(BrakeKind.USER_HOUR, 4)
    assert brake_marker(brake, at) == brake_marker(brake, at.replace(minute=0))
    assert brake_marker(brake, at) != brake_marker(brake, at.replace(hour=11))
    assert brake_marker(brake, at) != brake_marker(Brake(BrakeKind.REPO_HOUR, 4), at)
