"""Keeps a run's status comment true, beside the work and never in its way.

One thread edits the comment; while an edit is under way only the latest view waits. GitHub being
slow or away delays what is shown and nothing else. An ending that could not be told stays noted in
the store, and the reconciler tells it later: never silence.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.github.errors import GitHubError, Gone, NotFound
from app.github.gateway import GitHubGateway
from app.github.values import RepoHandle
from app.intents import Reaction
from app.messages import StatusView, status_comment, status_marker, told_place
from app.report import RunReport
from app.rounds import is_ci
from app.states import RunState
from app.store import Run, reading, runs, writing
from workers.checks import check_start
from workers.locks import locked
from workers.reach import put_off_while_away
from workers.reports import report_of_row
from workers.run_folder import run_folder
from workers.services import Services
from workers.threads import post_answers

log = structlog.get_logger()

_REACTIONS = {RunState.PUBLISHED: Reaction.ROCKET, RunState.NO_CHANGES: None}
# 15 s, 30 s, 1 min, … 1 h, 1 h: for a day and a half.
FIRST_RETRY_S = 15.0
LONGEST_RETRY_S = 3600.0
MAX_TRIES = 45


class StatusTeller:
    """`entered` per phase, `ended` once; leaving the `with` waits for the last edit."""

    def __init__(self, services: Services, run: Run) -> None:
        self._services = services
        self._run = run
        self._seconds: dict[str, float] = {}
        self._phase = run.state
        self._since = time.monotonic()
        self._changed = threading.Condition()
        self._pending: StatusView | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._edit_until_closed, name="status", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.entered(self._run.state)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def entered(self, phase: RunState) -> None:
        """A phase began."""
        now = time.monotonic()
        if phase is not self._phase:
            self._seconds[self._phase] = round(now - self._since, 1)
            self._phase, self._since = phase, now
        view = view_of(self._run, self._services, None)
        seconds, began = dict(self._seconds), self._services.clock()
        self._show(replace(view, state=phase, seconds_by_phase=seconds, since=began))

    def ended(self, report: RunReport) -> None:
        """The run is over: show its one honest ending, and react to what was asked."""
        view = view_of(self._run, self._services, None)
        seconds = {phase: round(spent, 1) for phase, spent in report.seconds_by_phase.items()}
        self._show(replace(view, state=report.outcome, seconds_by_phase=seconds, report=report))

    def _show(self, view: StatusView) -> None:
        with self._changed:
            self._pending = view
            self._changed.notify()

    def _edit_until_closed(self) -> None:
        with self._services.gateway(handle_of(self._run)) as gateway:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._pending is not None or self._closing)
                    view, self._pending = self._pending, None
                if view is None:
                    return
                tell(self._services, gateway, self._run, view)


def handle_of(run: Run) -> RepoHandle:
    """Return which repository a run is about, and through which installation it is reached."""
    owner, _, name = run.repo.partition("/")
    return RepoHandle(run.installation_id, run.repo_id, owner, name)


def view_of(run: Run, services: Services, queue_position: int | None) -> StatusView:
    """Return what the status comment shows of a run as the store has it."""
    web = services.settings.web_url
    return StatusView(
        run_id=run.id,
        state=run.state,
        asked_by=run.asked_by,
        model=run.model or "",
        instruction=run.instruction,
        queue_position=queue_position,
        seconds_by_phase=run.seconds_by_phase,
        brief_sha256=run.brief_sha256 or "",
        run_url=f"{web}/runs/{run.id}" if web else None,
        report=report_of_row(run) if run.is_ended else None,
        after_check=is_ci(run.trigger_delivery_id),
        since=run.state_since,
    )


def tell_place(services: Services, gateway: GitHubGateway, run_id: str) -> None:
    """Tell what place in the queue a run has by now; nothing of one that waits no more."""
    with reading(services.engine) as session:
        run, place = runs.get(session, run_id), runs.queue_position(session, run_id)
    if run is None or place is None:
        return
    if _try_to_show(services, gateway, run, view_of(run, services, place)) is None:
        with writing(services.engine) as session:
            runs.mark_place(session, run_id, told_place(place))


def tell_ending(services: Services, run: Run) -> None:
    """Tell how a run ended that nobody drives any more."""
    with services.gateway(handle_of(run)) as gateway:
        tell(services, gateway, run, view_of(run, services, None))


def tell(services: Services, gateway: GitHubGateway, run: Run, view: StatusView) -> None:
    """Post or edit the status comment; at the end also react. A failure is noted, not raised.

    Nothing is tried where the App is known to have no access any more.
    """
    if view.report is not None and put_off_while_away(services, run.id):
        return
    failure = _try_to_show(services, gateway, run, view)
    if view.report is not None:
        _note(services, run, failure)


def _try_to_show(
    services: Services, gateway: GitHubGateway, run: Run, view: StatusView
) -> Exception | None:
    """Return what went wrong; None when GitHub shows it."""
    try:
        _show_on_github(services, gateway, run, view)
    except Exception as error:
        unforeseen = None if isinstance(error, GitHubError) else error
        log.warning("status.not_shown", run=run.id, error=str(error), exc_info=unforeseen)
        return error
    return None


def _show_on_github(services: Services, gateway: GitHubGateway, run: Run, view: StatusView) -> None:
    with _alone(run_folder(services.settings.state_dir, run.id)):
        now = _row(services, run.id) or run
        if _is_late(view, now):
            return
        try:
            gateway.ensure_comment(run.issue_number, status_marker(run.id), status_comment(view))
        finally:
            # A conversation that is locked hides nothing of the check.
            check_start(services, gateway, now, view)
        if view.report is not None:
            post_answers(gateway, now, view.report)
    reaction = reaction_for(view)
    if reaction is not None:
        react(gateway, run, reaction)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep two processes of this host from both finding no comment and both posting one.

    Where the disk has no room even for the lock's name, telling is worth more than the lock.
    """
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder / "status.lock", math.inf))
        except OSError as error:
            log.warning("status.no_lock", error=str(error))
        yield


def _row(services: Services, run_id: str) -> Run | None:
    with reading(services.engine) as session:
        return runs.get(session, run_id)


def _is_late(view: StatusView, now: Run) -> bool:
    """Somebody told a later state meanwhile: an earlier one must not cover it. Pure."""
    if view.state is RunState.QUEUED:
        return now.state is not RunState.QUEUED
    return view.report is None and now.is_ended


def _note(services: Services, run: Run, failure: Exception | None) -> None:
    """Note whether the ending was told. If this fails, it counts as not told, and is due anyway."""
    now = services.clock()
    try:
        with writing(services.engine) as session:
            if failure is None:
                runs.mark_told(session, run.id, now)
                return
            row = runs.get(session, run.id)
            tries = row.tell_tries if row is not None else 0
            runs.mark_untold(session, run.id, next_telling(failure, tries, now))
    except SQLAlchemyError as error:
        log.warning("status.not_noted", run=run.id, error=str(error))


def next_telling(error: Exception, tries: int, now: datetime) -> datetime | None:
    """Return when to tell an ending again after `tries` failures and this one; None gives up.

    An issue that was deleted hears nothing; everything else may come back within a day, even what
    cannot be found (so GitHub speaks of a private repository that the App is not on). Pure.
    """
    if isinstance(error, Gone) or tries + 1 >= MAX_TRIES:
        return None
    return now + timedelta(seconds=min(FIRST_RETRY_S * 2 ** min(tries, 10), LONGEST_RETRY_S))


def reaction_for(view: StatusView) -> Reaction | None:
    """Return how an ending is shown on what was asked: 🚀 done, 😕 failed, nothing in between."""
    if view.report is None or view.state is RunState.CANCELLED:
        return None
    return _REACTIONS.get(view.state, Reaction.CONFUSED)


def react(gateway: GitHubGateway, run: Run, reaction: Reaction) -> None:
    """React to the comment that asked, or to the issue when a label did."""
    try:
        if run.trigger_comment_id is not None:
            gateway.react_to_comment(run.trigger_comment_id, reaction)
        else:
            gateway.react_to_issue(run.issue_number, reaction)
    except (NotFound, Gone):
        log.info("status.nothing_to_react_to", run=run.id)
