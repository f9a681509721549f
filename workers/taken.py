"""A delivery that was taken up: what is known about it, and what was decided, done.

Doing it again changes nothing: runs are unique per delivery and command, comments carry a marker,
reactions are GitHub's own idempotent kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import structlog

from app.config_words import team_unknown
from app.events import CheckCompleted, RepoEvent
from app.github.errors import Invalid, NotAllowed
from app.github.gateway import GitHubGateway
from app.intents import (
    AllowPath,
    CancelRun,
    Facts,
    Ignore,
    Intent,
    MessageKey,
    React,
    ReactableKind,
    Reply,
    RunFacts,
    StartRun,
    UndoPush,
    Wait,
)
from app.messages import StatusView, brake_marker, reply_body, reply_marker
from app.policy import TeamAnswer
from app.repo_config import RepoConfig
from app.store import (
    AlreadyActive,
    AlreadyCreated,
    CancelOutcome,
    Delivery,
    DeliveryState,
    reading,
    runs,
    writing,
)
from workers.check_lookups import CheckLookups
from workers.commission import Commission, Created
from workers.kept import BundleGone, allow_path
from workers.lookups import Lookups, label_of, least_of, trigger_of
from workers.rules import config_on_github
from workers.services import Services
from workers.status import tell, tell_place, view_of
from workers.succession import wake

log = structlog.get_logger()

# With `reconcile.delivery_patience` between tries: for about a day.
MAX_TRIES = 150


class Outcome(NamedTuple):
    """What became of a delivery, and why."""

    state: DeliveryState
    reason: str


def state_after_try(delivery: Delivery, most: int) -> DeliveryState:
    """Return what becomes of one that cannot be done with now: it is tried `most` times. Pure."""
    return DeliveryState.RECEIVED if delivery.attempts < most else DeliveryState.FAILED


@dataclass(frozen=True)
class Taken:
    """One delivery that may need something done."""

    services: Services
    gateway: GitHubGateway
    delivery: Delivery
    event: RepoEvent

    @property
    def trigger(self) -> str:
        return trigger_of(self.delivery, self.event)

    @cached_property
    def config(self) -> RepoConfig:
        """What the repository says, asked once; where that is wrong, the run will tell."""
        return config_on_github(self.gateway, self.event.repo.default_branch)

    @property
    def label(self) -> str:
        return label_of(self.services.settings, self.config)

    def facts(self) -> Facts:
        if isinstance(self.event, CheckCompleted):
            about = (self.services, self.gateway, self.event, self.trigger, self.config)
            return CheckLookups(*about).facts()
        found = Lookups(self.services, self.gateway, self.event, self.trigger, self.config)
        return found.facts()

    def say_unknown(self, team: TeamAnswer | None) -> None:
        """Tell it where it was asked: the actor may well be in that team."""
        about = getattr(self.event, "issue", None) or getattr(self.event, "pull", None)
        if team is None or team.is_member is not None or about is None:
            return
        marker = reply_marker(self.trigger, -2)
        body = f"{marker}\n{team_unknown(team.team, team.why)}"
        self.gateway.ensure_comment(about.number, marker, body)

    def apply(self, intents: Sequence[Intent]) -> Outcome:
        """Do them in order; the reasons are what the delivery is remembered by."""
        for index, intent in numbered(intents):
            self._apply(index, intent)
        waits = [intent.reason for intent in intents if isinstance(intent, Wait)]
        if waits:
            return Outcome(state_after_try(self.delivery, MAX_TRIES), waits[0])
        only_ignored = all(isinstance(intent, Ignore) for intent in intents)
        state = DeliveryState.IGNORED if only_ignored else DeliveryState.PROCESSED
        return Outcome(state, "; ".join(intent.reason for intent in intents))

    def _apply(self, index: int, intent: Intent) -> None:
        match intent:
            case StartRun():
                self._start(index, intent)
            case UndoPush():
                self._undo(index, intent)
            case CancelRun():
                self._cancel(intent)
            case AllowPath():
                self._allow(index, intent)
            case React():
                self._react(intent)
            case Reply():
                self._reply(index, intent)
            case Ignore() | Wait():
                log.info("intent.ignored", delivery=self.delivery.delivery_id, why=intent.reason)

    def _start(self, index: int, intent: StartRun) -> None:
        self._begin(index, intent, self._commission.run(intent, index))

    def _undo(self, index: int, intent: UndoPush) -> None:
        self._begin(index, intent, self._commission.undo(intent, index))

    def _allow(self, index: int, intent: AllowPath) -> None:
        created = allow_path(self.services, intent, self.trigger, index)
        if isinstance(created, BundleGone):
            reason = "the bundle is not kept any more"
            self._reply(index, Reply(intent.issue_number, MessageKey.BUNDLE_GONE, reason))
            return
        self._begin(index, intent, created)

    @property
    def _commission(self) -> Commission:
        about = (self.services, self.gateway, self.delivery, self.event)
        return Commission(*about, self.trigger, self.config)

    def _begin(self, index: int, intent: StartRun | UndoPush | AllowPath, created: Created) -> None:
        if isinstance(created, AlreadyActive):
            # Somebody was quicker since the facts were asked.
            self._say_already_running(index, intent, created.run_id)
            return
        run = created.run if isinstance(created, AlreadyCreated) else created
        if not run.is_ended:
            tell_place(self.services, self.gateway, run.id)
            wake(self.services, run.id)

    def _say_already_running(
        self, index: int, intent: StartRun | UndoPush | AllowPath, run_id: str
    ) -> None:
        number = intent.pull.number if isinstance(intent, UndoPush) else intent.issue_number
        reason = "another run was started meanwhile"
        run = RunFacts(run_id, number, "")
        self._reply(index, Reply(number, MessageKey.ALREADY_RUNNING, reason, run=run))

    def _cancel(self, intent: CancelRun) -> None:
        with writing(self.services.engine) as session:
            # A run that an earlier command of the same comment started had no name to be told by.
            run_id = intent.run_id or runs.started_by(session, self.trigger) or ""
            outcome = runs.request_cancel(session, run_id, intent.by, self.services.clock())
            run = runs.get(session, run_id)
        if outcome is CancelOutcome.CANCELLED and run is not None:
            # Nobody drives it, so nobody else will say it.
            tell(self.services, self.gateway, run, view_of(run, self.services, None))

    def _react(self, intent: React) -> None:
        with self._unless_locked():
            self._react_to(intent)

    def _react_to(self, intent: React) -> None:
        if intent.target.kind is ReactableKind.ISSUE:
            self.gateway.react_to_issue(intent.target.id, intent.content)
        elif intent.target.kind is ReactableKind.COMMENT:
            self.gateway.react_to_comment(intent.target.id, intent.content)
        else:
            self.gateway.react_to_review_comment(intent.target.id, intent.content)

    def _reply(self, index: int, intent: Reply) -> None:
        marker = reply_marker(self.trigger, index)
        if intent.brake is not None:
            marker = brake_marker(intent.brake, self.delivery.received_at)
        settings = self.services.settings
        body = reply_body(
            intent,
            label=self.label,
            min_permission=least_of(settings, self.config),
            status=self._view(intent),
        )
        with self._unless_locked():
            self.gateway.ensure_comment(intent.issue_number, marker, f"{marker}\n{body}")

    @contextmanager
    def _unless_locked(self) -> Iterator[None]:
        """GitHub lets no App speak in a locked conversation, today or tomorrow: what was to be said
        is in the delivery's reason, and what was asked for is done."""
        try:
            yield
        except (NotAllowed, Invalid) as error:
            if "locked" not in str(error):
                raise
            log.info("delivery.locked", delivery=self.delivery.delivery_id, why=str(error))

    def _view(self, intent: Reply) -> StatusView | None:
        if intent.run is None or not intent.run.run_id:
            return None
        with reading(self.services.engine) as session:
            run = runs.get(session, intent.run.run_id)
            position = runs.queue_position(session, intent.run.run_id)
        return view_of(run, self.services, position) if run is not None else None


def numbered(intents: Sequence[Intent]) -> Iterator[tuple[int, Intent]]:
    """Number what is done once only. Pure.

    Reactions shift no number: how many there are hangs on how many comments of a review are left,
    and a later delivery of the same review has to find what an earlier one did.
    """
    number = 0
    for intent in intents:
        yield number, intent
        number += not isinstance(intent, React)
