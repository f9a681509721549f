from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from app.github.errors import GitHubUnavailable, Invalid, NotAllowed
from app.github.gateway import GitHubGateway
from app.github.values import RepoHandle
from workers.invite import invite
from workers.record import Asked, Record


@dataclass
class Github:
    """Refuses some people, and takes all or none, as the original does."""

    refuses: dict[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    requests: int = 0
    handle: RepoHandle = field(default_factory=lambda: RepoHandle(1, 2, "Acme", "ship"))

    def request_reviewers(self, _number: int, logins: Sequence[str], teams: Sequence[str]) -> None:
        self.requests += 1
        for name in (*logins, *teams):
            if name in self.refuses:
                raise self.refuses[name]
        self.asked += [*logins, *teams]

    def add_labels(self, _number: int, *labels: str) -> None:
        if "labels" in self.refuses:
            raise self.refuses["labels"]
        self.labels += labels

    def update_pull(self, _number: int, *, body: str) -> None:
        self.bodies.append(body)


def invited(github: Github, record: Record) -> Record:
    invite(cast(GitHubGateway, github), record)
    return record


def record(**more: tuple[str, ...]) -> Record:
    asked = Asked("R1", "acme/ship", 1, "A title", "mona", "openai/a")
    return Record(asked, pull_number=5, **more)  # type: ignore[arg-type]


def test_all_are_asked_at_once_and_the_body_stays_as_it_is() -> None:
    github = Github()
    invited(github, record(reviewers=("ada", "acme/crew"), labels=("bot",)))
    assert (github.asked, github.labels) == (["ada", "crew"], ["bot"])
    assert (github.requests, github.bodies) == (1, [])


def test_nothing_is_asked_where_nothing_is_wished() -> None:
    github = Github()
    assert invited(github, record()).warnings == []
    assert github.requests == 0


def test_one_who_is_refused_keeps_nobody_else_out() -> None:
    github = Github({"eve": Invalid(("no collaborator",)), "crew": NotAllowed("members: read")})
    told = invited(github, record(reviewers=("ada", "eve", "acme/crew")))
    assert github.asked == ["ada"]
    assert told.warnings == [
        "GitHub does not let eve be asked for a review: no collaborator",
        "GitHub does not let acme/crew be asked for a review: members: read",
    ]
    (body,) = github.bodies
    assert "no collaborator" in body


def test_a_single_reviewer_is_asked_once() -> None:
    github = Github({"eve": Invalid(("no",))})
    invited(github, record(reviewers=("eve",)))
    assert github.requests == 1


def test_a_team_of_another_organization_is_not_even_asked() -> None:
    github = Github()
    told = invited(github, record(reviewers=("other/crew",)))
    assert github.requests == 0
    assert "the team is not one of this repository's organization" in told.warnings[0]


def test_labels_that_are_refused_are_told() -> None:
    told = invited(Github({"labels": Invalid(("too long",))}), record(labels=("a", "b")))
    assert told.warnings == ["GitHub did not take the labels a, b: too long"]


def test_doing_it_again_warns_no_second_time() -> None:
    github = Github({"eve": Invalid(("no",))})
    again = record(reviewers=("eve",))
    invited(github, again)
    invited(github, again)
    assert (len(again.warnings), len(github.bodies)) == (1, 1)


def test_github_being_away_is_no_refusal() -> None:
    with pytest.raises(GitHubUnavailable):
        invited(Github({"ada": GitHubUnavailable("down")}), record(reviewers=("ada",)))
