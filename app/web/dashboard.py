"""`/` (the runs) and `/runs/<id>` (one run). Plain HTML without scripts; see `access` for who."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from flask import Blueprint, Response, abort, render_template

from app.states import PHASES, RunState
from app.store import Run, attempts, reading, runs
from app.web.deps import Deps
from app.web.viewer import guard

RUNS_SHOWN = 100
LOG_LINES_SHOWN = 2000

_GOOD = frozenset({RunState.PUBLISHED})
_BAD = frozenset({RunState.FAILED, RunState.TIMED_OUT})


def dashboard(deps: Deps) -> Blueprint:
    """Return the blueprint of both pages."""
    blueprint = Blueprint("dashboard", __name__)

    @blueprint.before_request
    def may_they() -> Response | None:
        return guard(deps)

    @blueprint.get("/")
    def index() -> str:
        with reading(deps.engine) as session:
            found = runs.recent(session, RUNS_SHOWN)
            counts = runs.counts(session)
        return render_template(
            "runs.html",
            runs=found,
            counts={state: count for state, count in counts.items() if count},
            now=deps.clock(),
            live=any(not run.is_ended for run in found),
            issue_url=lambda run: _issue_url(deps, run),
        )

    @blueprint.get("/runs/<run_id>")
    def one(run_id: str) -> str:
        with reading(deps.engine) as session:
            run = runs.get(session, run_id)
            if run is None:
                abort(404, "there is no such run")
            return render_template(
                "run.html",
                run=run,
                now=deps.clock(),
                live=not run.is_ended,
                issue_url=_issue_url(deps, run),
                place=runs.queue_position(session, run_id),
                phases=_phases(run),
                attempts=attempts.of_run(session, run_id),
                log=runs.log_entries(session, run_id, limit=LOG_LINES_SHOWN),
            )

    blueprint.add_app_template_filter(_moment, "moment")
    blueprint.add_app_template_filter(_duration, "duration")
    blueprint.add_app_template_filter(_mood, "mood")
    blueprint.add_app_template_filter(_pretty, "pretty")
    blueprint.add_app_template_filter(_web_link, "web_link")
    blueprint.add_app_template_filter(_unmarked, "unmarked")
    blueprint.add_app_template_global(_seconds_of, "seconds_of")
    return blueprint


def _issue_url(deps: Deps, run: Run) -> str:
    # GitHub redirects from here to the pull request if it is one.
    return f"{deps.settings.github_url}/{run.repo}/issues/{run.issue_number}"


def _phases(run: Run) -> list[tuple[str, float]]:
    """Seconds by phase in the order in which phases follow each other."""
    order = (RunState.QUEUED, *PHASES)
    return [(s, run.seconds_by_phase[s]) for s in order if s in run.seconds_by_phase]


def _seconds_of(run: Run, now: datetime) -> float | None:
    """Seconds since a worker first took the run, until now or its end; None before."""
    if run.started_at is None:
        return None
    return ((run.ended_at or now) - run.started_at).total_seconds()


def _moment(value: datetime | None) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S UTC") if value is not None else "—"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "—"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _mood(state: RunState) -> str:
    """The style of a state: done, broken, ended otherwise, or going on."""
    if state in _GOOD:
        return "good"
    if state in _BAD:
        return "bad"
    return "live" if state in (RunState.QUEUED, *PHASES) else "other"


def _pretty(value: Mapping[str, Any] | None) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _unmarked(text: str) -> str:
    """Markdown of ours as plain words: the page shows none of it as HTML."""
    return text.replace("**", "").replace("`", "").replace("\\", "")


def _web_link(url: str | None) -> str | None:
    """Let only web addresses become links."""
    return url if url is not None and url.startswith(("https://", "http://")) else None
