"""Delivery → event → facts → intents → done. The only place where a webhook's meaning is acted on.

Taking the same delivery twice changes nothing: runs are unique per delivery and command, comments
carry a marker, reactions are GitHub's own idempotent kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from app.decide import (
    CancelRun,
    Facts,
    Ignore,
    Intent,
    React,
    Reply,
    RunFacts,
    StartRun,
    TargetKind,
    decide,
    needs_facts,
)
from app.events import Event, Ignored, MalformedDelivery, Ping, RepoEvent, parse_delivery
from app.github.errors import AccessLost, GitHubError, GitHubUnavailable, RateLimited
from app.github.gateway import GitHubGateway
from app.github.values import RepoHandle
from app.messages import StatusView, reply_body, reply_marker
from app.queue import enqueue_run
from app.store import (
    AlreadyActive,
    AlreadyCreated,
    CancelOutcome,
    Delivery,
    DeliveryState,
    Run,
    deliveries,
    reading,
    runs,
    writing,
)
from workers.commission import commission
from workers.services import Services
from workers.status import tell, view_of

log = structlog.get_logger()

MAX_TRIES = 20


def take_delivery(services: Services, delivery_id: str) -> None:
    """Process one stored delivery; nothing when that was done already."""
    with writing(services.engine) as session:
        delivery = deliveries.begin(session, delivery_id, services.clock())
    if delivery is None:
        return
    state, reason = _processed(services, delivery)
    if state is not DeliveryState.RECEIVED:
        with writing(services.engine) as session:
            deliveries.mark(session, delivery_id, state, services.clock(), reason)
    log.info("delivery.taken", delivery=delivery_id, state=state, reason=reason)


def _processed(services: Services, delivery: Delivery) -> tuple[DeliveryState, str]:
    """Return what became of it; `received` leaves it for the reconciler to try again."""
    try:
        event = parse_delivery(delivery.event, delivery.body)
        if isinstance(event, Ignored):
            return DeliveryState.IGNORED, event.reason
        return _act(services, delivery, event)
    except MalformedDelivery as error:
        return DeliveryState.FAILED, str(error)
    except (GitHubUnavailable, RateLimited) as error:
        state = DeliveryState.RECEIVED if delivery.attempts < MAX_TRIES else DeliveryState.FAILED
        return state, f"GitHub: {error}"
    except AccessLost as error:
        return DeliveryState.IGNORED, f"the App has no access any more: {error}"
    except GitHubError as error:
        return DeliveryState.FAILED, f"GitHub: {error}"


def _act(services: Services, delivery: Delivery, event: Event) -> tuple[DeliveryState, str]:
    settings = services.settings
    ignored = needs_facts(
        event,
        own_login=services.bot_login,
        app_id=services.github.app_id,
        label=settings.label,
        allowed_bots=settings.allowed_bots,
    )
    if ignored is not None or not isinstance(event, RepoEvent) or isinstance(event, Ping):
        return DeliveryState.IGNORED, ignored.reason if ignored else "not about a repository"
    repo = event.repo
    handle = RepoHandle(event.installation_id, repo.id, repo.owner, repo.name)
    with services.gateway(handle) as gateway:
        intake = Intake(services, gateway, delivery, event)
        return intake.apply(decide(event, intake.facts()))


@dataclass(frozen=True)
class Intake:
    """One delivery that may need something done."""

    services: Services
    gateway: GitHubGateway
    delivery: Delivery
    event: RepoEvent

    def facts(self) -> Facts:
        """Ask GitHub for the actor's permission, and the store for the issue's runs."""
        settings = self.services.settings
        active, last = self._runs()
        return Facts(
            permission=self.gateway.permission_of(self.event.actor.login),
            active_run=_run_facts(active) if active else None,
            last_run=_run_facts(last) if last else None,
            own_login=self.services.bot_login,
            app_id=self.services.github.app_id,
            label=settings.label,
            min_permission=settings.min_permission,
            allowed_bots=settings.allowed_bots,
            models=settings.model_choices,
        )

    def apply(self, intents: Sequence[Intent]) -> tuple[DeliveryState, str]:
        """Do them in order; the reasons are what the delivery is remembered by."""
        for index, intent in enumerate(intents):
            self._apply(index, intent)
        only_ignored = all(isinstance(intent, Ignore) for intent in intents)
        state = DeliveryState.IGNORED if only_ignored else DeliveryState.PROCESSED
        return state, "; ".join(intent.reason for intent in intents)

    def _apply(self, index: int, intent: Intent) -> None:
        match intent:
            case StartRun():
                self._start(index, intent)
            case CancelRun():
                self._cancel(intent)
            case React():
                self._react(intent)
            case Reply():
                self._reply(index, intent)
            case Ignore():
                log.info("intent.ignored", delivery=self.delivery.delivery_id, why=intent.reason)

    def _start(self, index: int, intent: StartRun) -> None:
        created = commission(self.services, self.gateway, self.delivery, self.event, intent, index)
        if isinstance(created, AlreadyActive):
            return
        run = created.run if isinstance(created, AlreadyCreated) else created
        if not run.is_ended:
            self._announce(run)
            enqueue_run(self.services.queue, run.id)

    def _announce(self, run: Run) -> None:
        with reading(self.services.engine) as session:
            now = runs.get(session, run.id)
            position = runs.queue_position(session, run.id)
        if now is not None and position is not None:
            tell(self.services, self.gateway, now, view_of(now, self.services, position))

    def _cancel(self, intent: CancelRun) -> None:
        with writing(self.services.engine) as session:
            outcome = runs.request_cancel(session, intent.run_id, intent.by, self.services.clock())
            run = runs.get(session, intent.run_id)
        if outcome is CancelOutcome.CANCELLED and run is not None:
            # Nobody drives it, so nobody else will say it.
            tell(self.services, self.gateway, run, view_of(run, self.services, None))

    def _react(self, intent: React) -> None:
        if intent.target.kind is TargetKind.ISSUE:
            self.gateway.react_to_issue(intent.target.id, intent.content)
        elif intent.target.kind is TargetKind.COMMENT:
            self.gateway.react_to_comment(intent.target.id, intent.content)
        else:
            self.gateway.react_to_review_comment(intent.target.id, intent.content)

    def _reply(self, index: int, intent: Reply) -> None:
        marker = reply_marker(self.delivery.delivery_id, index)
        settings = self.services.settings
        body = reply_body(
            intent,
            label=settings.label,
            min_permission=settings.min_permission,
            status=self._view(intent),
        )
        self.gateway.ensure_comment(intent.issue_number, marker, f"{marker}\n{body}")

    def _view(self, intent: Reply) -> StatusView | None:
        if intent.run is None or not intent.run.run_id:
            return None
        with reading(self.services.engine) as session:
            run = runs.get(session, intent.run.run_id)
            position = runs.queue_position(session, intent.run.run_id)
        return view_of(run, self.services, position) if run is not None else None

    def _runs(self) -> tuple[Run | None, Run | None]:
        """Return the issue's active run and its newest; this delivery's own run is neither.

        A delivery that is processed again must decide as it did the first time.
        """
        number = _issue_number(self.event)
        if number is None:
            return None, None
        with reading(self.services.engine) as session:
            active = runs.active_for(session, self.event.repo.id, number)
            last = runs.latest_for(session, self.event.repo.id, number)
        return self._not_ours(active), self._not_ours(last)

    def _not_ours(self, run: Run | None) -> Run | None:
        ours = run is not None and run.trigger_delivery_id == self.delivery.delivery_id
        return None if ours else run


def _issue_number(event: RepoEvent) -> int | None:
    issue = getattr(event, "issue", None) or getattr(event, "pull", None)
    return issue.number if issue is not None else None


def _run_facts(run: Run) -> RunFacts:
    return RunFacts(
        run_id=run.id,
        issue_number=run.issue_number,
        state=run.state,
        asked_by=run.asked_by,
        instruction=run.instruction,
        pull_request_url=run.pull_url,
    )
