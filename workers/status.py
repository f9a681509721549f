"""Keeps a run's status comment true, beside the work and never in its way.

One thread edits the comment; while an edit is under way only the latest view waits. GitHub being
slow or away delays what is shown and nothing else; the ending is told with patience.
"""

from __future__ import annotations

import fcntl
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from app.decide import Reaction
from app.github.errors import GitHubError
from app.github.gateway import GitHubGateway
from app.github.values import RepoHandle
from app.messages import StatusView, status_comment, status_marker
from app.report import RunReport
from app.states import RunState
from app.store import Run
from workers.reports import report_of_row
from workers.services import Services

log = structlog.get_logger()

_REACTIONS = {RunState.PUBLISHED: Reaction.ROCKET, RunState.NO_CHANGES: None}


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
        self._show(replace(view, state=phase, seconds_by_phase=dict(self._seconds)))

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


def run_folder(state_dir: Path, run_id: str) -> Path:
    """Return the run's own folder on this host, made if need be."""
    folder = state_dir / "runs" / run_id
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


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
    )


def tell(services: Services, gateway: GitHubGateway, run: Run, view: StatusView) -> None:
    """Post or edit the status comment; at the end also react. A failure is logged, not raised.

    The lock keeps two processes of this host from both finding no comment and both posting one.
    """
    lock = run_folder(services.settings.state_dir, run.id) / "status.lock"
    try:
        with lock.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            gateway.ensure_comment(run.issue_number, status_marker(run.id), status_comment(view))
        reaction = reaction_for(view)
        if reaction is not None:
            react(gateway, run, reaction)
    except GitHubError as error:
        log.warning("status.not_shown", run=run.id, error=str(error))


def reaction_for(view: StatusView) -> Reaction | None:
    """Return how an ending is shown on what was asked: 🚀 done, 😕 failed, nothing in between."""
    if view.report is None or view.state is RunState.CANCELLED:
        return None
    return _REACTIONS.get(view.state, Reaction.CONFUSED)


def react(gateway: GitHubGateway, run: Run, reaction: Reaction) -> None:
    """React to the comment that asked, or to the issue when a label did."""
    if run.trigger_comment_id is not None:
        gateway.react_to_comment(run.trigger_comment_id, reaction)
    else:
        gateway.react_to_issue(run.issue_number, reaction)
