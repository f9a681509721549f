"""The store: deliveries, runs, attempts and logs in SQLite or PostgreSQL.

    engine = make_engine(url)
    upgrade(engine)
    with writing(engine) as session:
        run = runs.create(session, NewRun(…), now)

Times are aware datetimes; what comes out is frozen. A database that does not answer raises
`sqlalchemy.exc.SQLAlchemyError`.
"""

from app.store import attempts, deliveries, reach, runs, spending, tallies, workers
from app.store.engine import BadDatabaseUrl, make_engine, reading, writing
from app.store.inbox import Inbox
from app.store.schema import is_current, upgrade
from app.store.values import (
    AlreadyActive,
    AlreadyCreated,
    Attempt,
    CancelOutcome,
    Delivery,
    DeliveryState,
    LogEntry,
    NewDelivery,
    NewRun,
    ReleaseOutcome,
    Run,
    RunFields,
    TargetKind,
    Worker,
)

__all__ = [
    "AlreadyActive",
    "AlreadyCreated",
    "Attempt",
    "BadDatabaseUrl",
    "CancelOutcome",
    "Delivery",
    "DeliveryState",
    "Inbox",
    "LogEntry",
    "NewDelivery",
    "NewRun",
    "ReleaseOutcome",
    "Run",
    "RunFields",
    "TargetKind",
    "Worker",
    "attempts",
    "deliveries",
    "is_current",
    "make_engine",
    "reach",
    "reading",
    "runs",
    "spending",
    "tallies",
    "upgrade",
    "workers",
    "writing",
]
