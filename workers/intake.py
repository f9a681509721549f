"""Delivery → event → facts → intents → done. The only place where a webhook's meaning is acted on.

Taking the same delivery twice changes nothing: runs are unique per delivery and command, comments
carry a marker, reactions are GitHub's own idempotent kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.config_words import team_unknown
from app.decide import decide, label_in_question, needs_facts
from app.events import (
    CheckCompleted,
    CommentCreated,
    Event,
    Ignored,
    InstallationChanged,
    IssueLabeled,
    MalformedDelivery,
    RepoEvent,
    parse_delivery,
)
from app.github.errors import (
    AccessLost,
    GitHubError,
    GitHubUnavailable,
    Invalid,
    NotAllowed,
    RateLimited,
)
from app.github.gateway import GitHubGateway
from app.github.values import RepoHandle
from app.intents import (
    AllowPath,
    CancelRun,
    Facts,
    FollowReach,
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
from app.messages import StatusView, brake_marker, not_started, reply_body, reply_marker
from app.policy import TeamAnswer
from app.repo_config import RepoConfig
from app.store import (
    AlreadyActive,
    AlreadyCreated,
    CancelOutcome,
    Delivery,
    DeliveryState,
    deliveries,
    reading,
    runs,
    writing,
)
from workers.check_lookups import CheckLookups, is_of_ours
from workers.commission import Commission, Created
from workers.kept import BundleGone, allow_path
from workers.lookups import Lookups, label_of, least_of, trigger_of
from workers.reach import follow_reach
from workers.rules import config_on_github
from workers.services import Services
from workers.status import tell, tell_place, view_of
from workers.succession import wake
from workers.turns import alone

log = structlog.get_logger()

# With `reconcile.delivery_patience` between tries: for about a day.
MAX_TRIES = 150
# What is our own fault is seldom healed by time.
MAX_TRIES_UNFORESEEN = 5


def take_delivery(services: Services, delivery_id: str) -> None:
    """Process one stored delivery; nothing when that was done already.

    What came earlier about the same issue, and was not tried yet, is processed before it: a person
    who stops a run and starts another means them in that order. Where another process has that
    issue in its hands it is left to that one, which looks again before it lets go.
    """
    with reading(services.engine) as session:
        asked = deliveries.get(session, delivery_id)
    tried, left = False, asked is not None
    while asked is not None and left:
        with alone(services.settings.state_dir, asked.subject or delivery_id) as is_ours:
            if not is_ours:
                return
            found = _next(services, asked, tried)
            if found is not None:
                _take(services, found)
                tried = tried or found.delivery_id == delivery_id
        # Only now: whoever came while it was locked has gone away again.
        left = _next(services, asked, tried) is not None


def _next(services: Services, asked: Delivery, tried: bool) -> Delivery | None:
    with reading(services.engine) as session:
        return deliveries.next_for(session, asked, tried)


def _take(services: Services, seen: Delivery) -> None:
    """Take up a delivery that nobody else has. One that needs no work costs one transaction."""
    delivery_id = seen.delivery_id
    ended = _passed_over(services, seen)
    if ended is None:
        with writing(services.engine, durable=False) as session:
            delivery = deliveries.begin(session, delivery_id, services.clock())
        if delivery is None:
            return
        ended = _processed(services, delivery)
    state, reason = ended
    if state is DeliveryState.FAILED:
        _say_not_started(services, seen)
    # Also one that is to be tried again is marked: it rests from now on, and its reason shows.
    # A power cut that takes it back has the delivery processed again, which changes nothing.
    with writing(services.engine, durable=False) as session:
        deliveries.mark(session, delivery_id, state, services.clock(), reason)
    log.info("delivery.taken", delivery=delivery_id, state=state, reason=reason)


def _passed_over(services: Services, delivery: Delivery) -> tuple[DeliveryState, str] | None:
    """Return what becomes of a delivery that needs neither GitHub nor the store; None for others.

    Also None where it cannot be told, as when GitHub has to be asked first who we are and does not
    answer: such a delivery counts as tried, so that the next ones pass it.
    """
    try:
        event = parse_delivery(delivery.event, delivery.body)
        ignored = event if isinstance(event, Ignored) else _needs_nothing(services, event)
    except MalformedDelivery as error:
        return DeliveryState.FAILED, str(error)
    except Exception as error:  # noqa: BLE001 -- `_processed` meets it again, and says so
        log.info("delivery.not_passed_over", delivery=delivery.delivery_id, error=repr(error))
        return None
    return (DeliveryState.IGNORED, ignored.reason) if ignored is not None else None


def _needs_nothing(services: Services, event: Event, label: str | None = None) -> Ignore | None:
    """`label` is the one that starts runs in the event's repository, once that is known."""
    settings = services.settings
    ignored = needs_facts(
        event,
        own_login=services.bot_login,
        app_id=services.github.app_id,
        label=label or label_in_question(event, settings.label),
        allowed_bots=settings.allowed_bots,
    )
    if ignored is None and not isinstance(event, RepoEvent | InstallationChanged):
        return Ignore("not about a repository")
    return ignored


def _say_not_started(services: Services, delivery: Delivery) -> None:
    """Tell the issue that its command came to nothing: 👀 may stand there already.

    Tried once; whoever may not even post is told by the delivery's reason in the log.
    """
    try:
        event = parse_delivery(delivery.event, delivery.body)
        if not isinstance(event, IssueLabeled | CommentCreated):
            return
        repo = event.repo
        handle = RepoHandle(event.installation_id, repo.id, repo.owner, repo.name)
        marker = reply_marker(delivery.delivery_id, -1)
        with services.gateway(handle) as gateway:
            gateway.ensure_comment(event.issue.number, marker, f"{marker}\n{not_started()}")
    except (GitHubError, MalformedDelivery) as error:
        log.warning("delivery.failure_not_told", delivery=delivery.delivery_id, error=str(error))


def _processed(services: Services, delivery: Delivery) -> tuple[DeliveryState, str]:
    """Return what became of it; `received` leaves it for the reconciler to try again."""
    try:
        event = parse_delivery(delivery.event, delivery.body)
        if isinstance(event, Ignored):
            return DeliveryState.IGNORED, event.reason
        return _act(services, delivery, event)
    except MalformedDelivery as error:
        return DeliveryState.FAILED, str(error)
    except AccessLost as error:
        return DeliveryState.IGNORED, f"the App has no access any more: {error}"
    except (GitHubUnavailable, RateLimited, NotAllowed) as error:
        # The last one too: a key is replaced, a permission granted.
        return _again(delivery, MAX_TRIES), f"GitHub: {error}"
    except GitHubError as error:
        return DeliveryState.FAILED, f"GitHub: {error}"
    except SQLAlchemyError:
        # Nothing can be noted either: it stays as it is, and is tried again.
        raise
    except Exception as error:
        log.exception("delivery.failed", delivery=delivery.delivery_id)
        return _again(delivery, MAX_TRIES_UNFORESEEN), f"{type(error).__name__}: {error}"


def _again(delivery: Delivery, most: int) -> DeliveryState:
    return DeliveryState.RECEIVED if delivery.attempts < most else DeliveryState.FAILED


def _act(services: Services, delivery: Delivery, event: Event) -> tuple[DeliveryState, str]:
    if isinstance(event, InstallationChanged):
        return _follow_reach(services, delivery, event)
    ignored = _needs_nothing(services, event)
    if ignored is not None or not isinstance(event, RepoEvent):
        return DeliveryState.IGNORED, ignored.reason if ignored else "not about a repository"
    if isinstance(event, CheckCompleted) and not is_of_ours(services, event):
        return DeliveryState.IGNORED, "the check is of no pull request of ours"
    repo = event.repo
    handle = RepoHandle(event.installation_id, repo.id, repo.owner, repo.name)
    try:
        with services.gateway(handle) as gateway:
            intake = Intake(services, gateway, delivery, event)
            ignored = _needs_nothing(services, event, intake.label)
            if ignored is not None:
                return DeliveryState.IGNORED, ignored.reason
            facts = intake.facts()
            intake.say_unknown(facts.team)
            return intake.apply(decide(event, facts))
    finally:
        # The next delivery may be hours away, and a run is driven by another process.
        services.tokens.revoke(handle.installation_id, handle.repo_id)


def _follow_reach(
    services: Services, delivery: Delivery, event: InstallationChanged
) -> tuple[DeliveryState, str]:
    (intent,) = decide(event, Facts(permission=None))
    if not isinstance(intent, FollowReach):
        return DeliveryState.IGNORED, intent.reason
    return DeliveryState.PROCESSED, follow_reach(services, intent, delivery)


@dataclass(frozen=True)
class Intake:
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

    def apply(self, intents: Sequence[Intent]) -> tuple[DeliveryState, str]:
        """Do them in order; the reasons are what the delivery is remembered by."""
        for index, intent in numbered(intents):
            self._apply(index, intent)
        waits = [intent.reason for intent in intents if isinstance(intent, Wait)]
        if waits:
            return _again(self.delivery, MAX_TRIES), waits[0]
        only_ignored = all(isinstance(intent, Ignore) for intent in intents)
        state = DeliveryState.IGNORED if only_ignored else DeliveryState.PROCESSED
        return state, "; ".join(intent.reason for intent in intents)

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
            log.info("intake.locked", delivery=self.delivery.delivery_id, why=str(error))

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
