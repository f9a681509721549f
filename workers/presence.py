"""Tells the store now and then that this worker lives, and whether it can start machines."""

from __future__ import annotations

import threading
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.settings import SettingsError
from app.store import workers, writing
from sandbox.provider import ProviderFailed
from workers.owner import this_owner
from workers.services import Services

REPORT_EVERY_S = 20.0
FORGET_AFTER = timedelta(days=1)

log = structlog.get_logger()


def report_presence(services: Services) -> None:
    """Write one report. Errors: SQLAlchemyError."""
    name, problem = readiness(services)
    now = services.clock()
    with writing(services.engine) as session:
        workers.report(session, this_owner(), provider=name, now=now, problem=problem)
        workers.forget(session, now - FORGET_AFTER)


def readiness(services: Services) -> tuple[str, str]:
    """Return the provider's name, and why it cannot start machines ("" when it can)."""
    try:
        name = services.provider.name
        services.template()
    except (ProviderFailed, SettingsError) as error:
        return services.settings.provider, str(error)
    return name, ""


def keep_reporting(services: Services) -> threading.Event:
    """Report now and every REPORT_EVERY_S seconds from a thread; set the event to end it."""
    done = threading.Event()

    def run() -> None:
        while True:
            try:
                report_presence(services)
            except SQLAlchemyError as error:
                log.warning("presence.not_reported", error=str(error))
            if done.wait(REPORT_EVERY_S):
                return

    threading.Thread(target=run, name="presence", daemon=True).start()
    return done
