"""Delivery → event → facts → intents → done. The only place where a webhook's meaning is acted on.

Taking the same delivery twice changes nothing: runs are unique per delivery and command, comments
carry a marker, reactions are GitHub's own idempotent kind.
"""

from __future__ import annotations

import structlog
from sqlalchemy.exc import SQLAlchemyError

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
    NotAllowed,
    RateLimited,
)
from app.github.values import RepoHandle
from app.intents import Facts, FollowReach, Ignore
from app.messages import not_started, reply_marker
from app.store import Delivery, DeliveryState, deliveries, reading, writing
from workers.check_lookups import is_of_ours
from workers.reach import follow_reach
from workers.services import Services
from workers.taken import MAX_TRIES, Outcome, Taken, state_after_try
from workers.turns import alone

log = structlog.get_logger()

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
    ended = _outcome(services, seen)
    if ended is None:
        return
    # Also one that is to be tried again is marked: it rests from now on, and its reason shows.
    # A power cut that takes it back has the delivery processed again, which changes nothing.
    with writing(services.engine, durable=False) as session:
        deliveries.mark(session, seen.delivery_id, ended.state, services.clock(), ended.reason)
    log.info("delivery.taken", delivery=seen.delivery_id, state=ended.state, reason=ended.reason)


def _outcome(services: Services, seen: Delivery) -> Outcome | None:
    """Return what became of a delivery; None when somebody else was done with it before."""
    event = _read(seen)
    if isinstance(event, Outcome):
        return event
    ended = _passed_over(services, seen, event)
    if ended is not None:
        return ended
    with writing(services.engine, durable=False) as session:
        delivery = deliveries.begin(session, seen.delivery_id, services.clock())
    if delivery is None:
        return None
    ended = _processed(services, delivery, event)
    if ended.state is DeliveryState.FAILED:
        _say_not_started(services, delivery, event)
    return ended


def _read(delivery: Delivery) -> Event | Outcome:
    """Return what a delivery says; what becomes of it where that is nothing for us."""
    try:
        event = parse_delivery(delivery.event, delivery.body)
    except MalformedDelivery as error:
        return Outcome(DeliveryState.FAILED, str(error))
    except Exception as error:
        # Reading it again would not help: nothing but the body has a part in it.
        log.exception("delivery.not_read", delivery=delivery.delivery_id)
        return Outcome(DeliveryState.FAILED, f"{type(error).__name__}: {error}")
    return _ignored(event.reason) if isinstance(event, Ignored) else event


def _passed_over(services: Services, delivery: Delivery, event: Event) -> Outcome | None:
    """Return what becomes of a delivery that needs neither GitHub nor the store; None for others.

    Also None where it cannot be told, as when GitHub has to be asked first who we are and does not
    answer: such a delivery counts as tried, so that the next ones pass it.
    """
    try:
        ignored = _needs_nothing(services, event)
    except Exception as error:  # noqa: BLE001 -- `_processed` meets it again, and says so
        log.info("delivery.not_passed_over", delivery=delivery.delivery_id, error=repr(error))
        return None
    return _ignored(ignored.reason) if ignored is not None else None


def _ignored(reason: str) -> Outcome:
    return Outcome(DeliveryState.IGNORED, reason)


def _needs_nothing(services: Services, event: Event, label: str | None = None) -> Ignore | None:
    """`label` is the one that starts runs in the event's repository, once that is known."""
    settings = services.settings
    return needs_facts(
        event,
        own_login=services.bot_login,
        app_id=services.github.app_id,
        label=label or label_in_question(event, settings.label),
        allowed_bots=settings.allowed_bots,
    )


def _say_not_started(services: Services, delivery: Delivery, event: Event) -> None:
    """Tell the issue that its command came to nothing: 👀 may stand there already.

    Tried once; whoever may not even post is told by the delivery's reason in the log.
    """
    if not isinstance(event, IssueLabeled | CommentCreated):
        return
    marker = reply_marker(delivery.delivery_id, -1)
    try:
        with services.gateway(_handle_of(event)) as gateway:
            gateway.ensure_comment(event.issue.number, marker, f"{marker}\n{not_started()}")
    except GitHubError as error:
        log.warning("delivery.failure_not_told", delivery=delivery.delivery_id, error=str(error))


def _processed(services: Services, delivery: Delivery, event: Event) -> Outcome:
    """Return what became of it; `received` leaves it for the reconciler to try again."""
    try:
        return _act(services, delivery, event)
    except AccessLost as error:
        return _ignored(f"the App has no access any more: {error}")
    except (GitHubUnavailable, RateLimited, NotAllowed) as error:
        # The last one too: a key is replaced, a permission granted.
        return Outcome(state_after_try(delivery, MAX_TRIES), f"GitHub: {error}")
    except GitHubError as error:
        return Outcome(DeliveryState.FAILED, f"GitHub: {error}")
    except SQLAlchemyError:
        # Nothing can be noted either: it stays as it is, and is tried again.
        raise
    except Exception as error:
        log.exception("delivery.failed", delivery=delivery.delivery_id)
        state = state_after_try(delivery, MAX_TRIES_UNFORESEEN)
        return Outcome(state, f"{type(error).__name__}: {error}")


def _act(services: Services, delivery: Delivery, event: Event) -> Outcome:
    if isinstance(event, InstallationChanged):
        return _follow_reach(services, delivery, event)
    if not isinstance(event, RepoEvent):
        return _ignored("not about a repository")
    if isinstance(event, CheckCompleted) and not is_of_ours(services, event):
        return _ignored("the check is of no pull request of ours")
    handle = _handle_of(event)
    try:
        with services.gateway(handle) as gateway:
            taken = Taken(services, gateway, delivery, event)
            ignored = _needs_nothing(services, event, taken.label)
            if ignored is not None:
                return _ignored(ignored.reason)
            facts = taken.facts()
            taken.say_unknown(facts.team)
            return taken.apply(decide(event, facts))
    finally:
        # The next delivery may be hours away, and a run is driven by another process.
        services.tokens.revoke(handle.installation_id, handle.repo_id)


def _handle_of(event: RepoEvent) -> RepoHandle:
    repo = event.repo
    return RepoHandle(event.installation_id, repo.id, repo.owner, repo.name)


def _follow_reach(services: Services, delivery: Delivery, event: InstallationChanged) -> Outcome:
    (intent,) = decide(event, Facts(permission=None))
    if not isinstance(intent, FollowReach):
        return _ignored(intent.reason)
    return Outcome(DeliveryState.PROCESSED, follow_reach(services, intent, delivery))
