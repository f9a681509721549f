"""Follows what the App can reach: runs of what went away end, and are told of once it is back."""

from __future__ import annotations

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.intents import FollowReach
from app.reach import Reach
from app.store import Delivery, Run, reach, reading, runs, writing
from workers.services import Services

log = structlog.get_logger()


def follow_reach(services: Services, intent: FollowReach, delivery: Delivery) -> str:
    """Do it, and return what the delivery is remembered by. Errors: SQLAlchemyError."""
    change = intent.change
    if change.gone:
        ended = _end(services, change, delivery)
        return f"{change.reason} {len(ended)} runs end by it"
    now = services.clock()
    with writing(services.engine) as session:
        due = reach.bring_back(session, change.installation_id, change.repo_ids, now)
    return f"{change.reason} {due} endings can be told now"


def _end(services: Services, change: Reach, delivery: Delivery) -> tuple[Run, ...]:
    now = services.clock()
    with writing(services.engine) as session:
        return reach.end_away(
            session,
            change.installation_id,
            change.repo_ids,
            change.by,
            change.reason,
            until=delivery.received_at,
            now=now,
        )


def put_off_while_away(services: Services, run_id: str) -> bool:
    """Put off telling of a run that the App cannot reach, and say whether that was done."""
    try:
        with reading(services.engine) as session:
            row = runs.get(session, run_id)
        if row is None or not row.away:
            return False
        with writing(services.engine) as session:
            runs.mark_untold(session, run_id, None)
    except SQLAlchemyError as error:
        log.warning("status.not_noted", run=run_id, error=str(error))
        return False
    return True
