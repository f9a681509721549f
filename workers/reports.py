"""A report as the store keeps it, and back."""

from __future__ import annotations

from pydantic import TypeAdapter

from app.report import RunReport
from app.store import Run, TargetKind
from workers.expense import spent_before

_REPORTS: TypeAdapter[RunReport] = TypeAdapter(RunReport)


def as_json(report: RunReport) -> dict[str, object]:
    """Return a report as the store keeps it."""
    value: dict[str, object] = _REPORTS.dump_python(report, mode="json")
    return value


def from_json(value: object) -> RunReport:
    """Return the report that `as_json` wrote."""
    return _REPORTS.validate_python(value)


def report_of_row(run: Run) -> RunReport:
    """Return the report of an ended run: the stored one, or what the row alone can tell.

    A run that ended while nobody drove it (cancelled in the queue, its workers lost) has no other.
    """
    if run.report is not None:
        stored = from_json(run.report)
        if stored.outcome is run.state:
            return stored
    return RunReport(
        run_id=run.id,
        outcome=run.state,
        failure_kind=run.failure_kind,
        detail=run.detail or cancelled_by(run.cancel_requested_by),
        repo=run.repo,
        issue_number=run.issue_number,
        issue_title=run.issue_title,
        asked_by=run.asked_by,
        instruction=run.instruction,
        model=run.model or "",
        base_ref=run.base_ref or "",
        # That of a pull request is there from the start, and tells of no push.
        branch=run.branch if run.target is TargetKind.ISSUE else None,
        base_sha=run.base_sha or "",
        head_sha=run.head_sha,
        brief_sha256=run.brief_sha256 or "",
        spending=spent_before(run),
        seconds_by_phase=dict(run.seconds_by_phase),
    )


def cancelled_by(login: str | None) -> str:
    """Say who wanted a run to stop; "" for nobody."""
    return f"Asked for by {login}." if login else ""
