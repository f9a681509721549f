from __future__ import annotations

import pytest

from app.events import Actor
from app.policy import (
    Allow,
    Deny,
    DenyKind,
    TeamAnswer,
    least_permission,
    may_run,
    permission_rank,
)

ROLES = ("none", "read", "triage", "write", "maintain", "admin")
ALICE = Actor("alice", 1)
ROBOT = Actor("robot[bot]", 2, "Bot")


@pytest.mark.parametrize("needed", ROLES[2:])
@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_enough_exactly_from_the_needed_one_up(role: str, needed: str) -> None:
    answer = may_run(ALICE, role, min_permission=needed, own_login="dock[bot]")
    assert isinstance(answer, Allow) == (ROLES.index(role) >= ROLES.index(needed))


@pytest.mark.parametrize("role", [None, "", "owner", "ADMIN", "security-lead"])
def test_an_unknown_role_is_no_role(role: str | None) -> None:
    answer = may_run(ALICE, role, min_permission="triage", own_login=None)
    assert isinstance(answer, Deny)
    assert answer.kind is DenyKind.PERMISSION
    assert permission_rank(role) == 0


@pytest.mark.parametrize("needed", ["", "none", "everybody"])
def test_an_unknown_requirement_lets_nobody_in(needed: str) -> None:
    assert isinstance(may_run(ALICE, "admin", min_permission=needed, own_login=None), Deny)


def test_our_own_events_are_denied_whatever_else_is_true() -> None:
    us = Actor("Dock[bot]", 3, "Bot")
    answer = may_run(
        us, "admin", min_permission="triage", own_login="dock[bot]", allowed_bots=("dock[bot]",)
    )
    assert answer == Deny(DenyKind.OWN_EVENT, "our own event")


def test_bots_are_denied_unless_listed() -> None:
    denied = may_run(ROBOT, "admin", min_permission="write", own_login=None)
    assert isinstance(denied, Deny)
    assert denied.kind is DenyKind.BOT
    listed = may_run(
        ROBOT, None, min_permission="write", own_login=None, allowed_bots=("Robot[bot]",)
    )
    assert isinstance(listed, Allow)


def test_a_deleted_account_has_no_permission() -> None:
    answer = may_run(Actor("ghost", 10137), "admin", min_permission="write", own_login=None)
    assert isinstance(answer, Deny)
    assert answer.kind is DenyKind.GHOST


@pytest.mark.parametrize("operators", ROLES[2:])
@pytest.mark.parametrize("allow", [None, *ROLES[2:], "acme/crew"])
@pytest.mark.parametrize("may_lower", [False, True])
def test_a_repository_raises_what_is_needed_and_lowers_it_to_triage_at_most_where_it_may(
    allow: str | None, operators: str, may_lower: bool
) -> None:
    needed = least_permission(allow, operators=operators, may_lower=may_lower)
    floor = ROLES.index("triage" if may_lower else operators)
    if allow is None:
        assert needed == operators
    elif allow in ROLES:
        assert ROLES.index(needed) == max(floor, ROLES.index(allow))
    else:
        assert ROLES.index(needed) == floor


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("is_member", [True, False, None])
def test_a_team_lets_in_only_members_who_have_the_least_permission_too(
    role: str, is_member: bool | None
) -> None:
    team = TeamAnswer("acme/crew", is_member)
    answer = may_run(ALICE, role, min_permission="write", own_login=None, team=team)
    enough = ROLES.index(role) >= ROLES.index("write")
    assert isinstance(answer, Allow) == (is_member is True and enough)
    if isinstance(answer, Deny):
        assert answer.kind is (DenyKind.TEAM if enough else DenyKind.PERMISSION)


def test_no_answer_about_a_team_is_no_and_says_why() -> None:
    team = TeamAnswer("acme/crew", None, "members: read is not granted")
    answer = may_run(ALICE, "admin", min_permission="write", own_login=None, team=team)
    reason = "alice is not known to be in acme/crew (members: read is not granted)"
    assert answer == Deny(DenyKind.TEAM, reason)
