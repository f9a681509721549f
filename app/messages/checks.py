"""What a run's check run shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.clip import BODY_LIMIT, clip, github_length
from app.github.values import CheckAnnotation, CheckButton
from app.messages.endings import ending_text, ending_title
from app.messages.status import PHASE_WORDS, StatusView, checklist
from app.report import GateFinding, RunReport
from app.states import ENDED, RunState
from app.text import code_block, one_line


@dataclass(frozen=True)
class CheckOutput:
    """A check run's fields: `conclusion` is None while the run is active."""

    status: str
    conclusion: str | None
    title: str
    summary: str
    annotations: tuple[CheckAnnotation, ...] = ()
    buttons: tuple[CheckButton, ...] = ()


STOP = CheckButton("Stop", "End this run; nothing is pushed", "stop")
RETRY = CheckButton("Retry", "Do it once more, from a fresh base", "retry")
# GitHub's own limits: annotations of one request, and characters of a title.
_ANNOTATIONS, _TITLE = 50, 255

_CONCLUSIONS: Mapping[RunState, str] = {
    RunState.NO_CHANGES: "neutral",
    RunState.REFUSED: "failure",
    RunState.FAILED: "failure",
    RunState.TIMED_OUT: "timed_out",
    RunState.CANCELLED: "cancelled",
}


def check_output(view: StatusView) -> CheckOutput:
    """Return the fields of a run's check run; success only if our own test run passed."""
    if view.state is RunState.QUEUED:
        waiting = "Waiting for a worker"
        return CheckOutput("queued", None, waiting, checklist(view), buttons=(STOP,))
    report = view.report
    if view.state not in ENDED or report is None:
        title = PHASE_WORDS.get(view.state, "Ending")
        return CheckOutput("in_progress", None, title, checklist(view), buttons=(STOP,))
    return CheckOutput(
        "completed",
        _conclusion(report),
        ending_title(report),
        clip(ending_text(report), BODY_LIMIT - 1, view.run_url),
        tuple(map(_annotation, _with_path(report.findings)[:_ANNOTATIONS])),
        (RETRY,),
    )


def _with_path(findings: Sequence[GateFinding]) -> list[GateFinding]:
    """Only files can be annotated; the summary has every finding."""
    return [finding for finding in findings if finding.path]


def _annotation(finding: GateFinding) -> CheckAnnotation:
    level = "warning" if finding.level == "warn" else "failure"
    title, message = one_line(finding.rule, _TITLE), one_line(finding.reason, 1000)
    return CheckAnnotation(finding.path, level, title, message)


def provenance_text(envelope: str) -> str:
    """Return a check's text with the signed statement: "" where it would not fit."""
    text = (
        "Where this commit came from, signed by this Drydock's operator; `drydock runs verify SHA`"
        f" checks it.\n\n{code_block(envelope, 'json')}"
    )
    return text if github_length(text) < BODY_LIMIT else ""


def _conclusion(report: RunReport) -> str:
    if report.outcome is RunState.PUBLISHED:
        passed = report.test is not None and report.test.passed and not report.rebased
        return "success" if passed else "neutral"
    return _CONCLUSIONS[report.outcome]
