"""What came into the App's reach, and what went out of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.decide import decide, needs_facts
from app.events import InstallationChanged
from app.events.values import RepoName, subject_of
from app.intents import FollowReach, Ignore
from app.reach import reach_of
from tests.app.test_decide import ALICE, FACTS

SHIP, BOAT = RepoName(5, "acme/ship"), RepoName(6, "acme/boat")
EVENT = InstallationChanged(1, "acme", "deleted", ALICE)


@pytest.mark.parametrize(
    ("event", "repo_ids", "reason"),
    [
        (EVENT, None, "The App was uninstalled from acme by alice."),
        (replace(EVENT, removed=(SHIP,)), None, "The App was uninstalled from acme by alice."),
        (replace(EVENT, action="suspend"), None, "The App was suspended on acme by alice."),
        (
            replace(EVENT, action="removed", removed=(SHIP, BOAT)),
            {5, 6},
            "acme/ship, acme/boat were taken away from the App by alice.",
        ),
    ],
)
def test_what_went_is_named_with_who_took_it(
    event: InstallationChanged, repo_ids: set[int] | None, reason: str
) -> None:
    change = reach_of(event)
    assert change is not None
    assert (change.gone, change.repo_ids, change.reason) == (True, repo_ids, reason)
    assert decide(event, FACTS) == (FollowReach(change, reason),)


@pytest.mark.parametrize(
    ("event", "repo_ids"),
    [
        (replace(EVENT, action="created", added=(SHIP,)), {5}),
        (replace(EVENT, action="added", added=(BOAT,)), {6}),
        (replace(EVENT, action="unsuspend", added=(SHIP,)), None),
    ],
)
def test_what_came_is_no_end_of_anything(
    event: InstallationChanged, repo_ids: set[int] | None
) -> None:
    change = reach_of(event)
    assert change is not None
    assert (change.gone, change.repo_ids) == (False, repo_ids)


@pytest.mark.parametrize("action", ["created", "added", "removed", "new_permissions_accepted"])
def test_without_repositories_it_is_only_recorded(action: str) -> None:
    (ignored,) = decide(replace(EVENT, action=action), FACTS)
    assert isinstance(ignored, Ignore)


def test_permissions_that_are_accepted_bring_nothing_back() -> None:
    accepted = replace(EVENT, action="new_permissions_accepted", added=(SHIP,))
    assert needs_facts(accepted, own_login=None, app_id=None, label="aider") is not None


def test_what_happens_on_one_account_is_heard_in_its_order() -> None:
    again = replace(EVENT, action="created", installation_id=2)
    assert subject_of(EVENT) == subject_of(again)
    assert subject_of(EVENT) != subject_of(replace(EVENT, account="other"))
