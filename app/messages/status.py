"""The one status comment of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.clip import clip
from app.messages.endings import ending_text
from app.messages.words import duration, folded, token, with_instruction
from app.report import RunReport
from app.states import ENDED, PHASES, RunState
from app.text import code_span, inline

PHASE_WORDS: Mapping[RunState, str] = {
    RunState.CHECKOUT: "Fetch the repository",
    RunState.MACHINE: "Start a machine",
    RunState.SETUP: "Set it up",
    RunState.AGENT: "Aider works",
    RunState.VERIFY: "Run the tests",
    RunState.GATE: "Check the commits",
    RunState.PUBLISH: "Open the pull request",
}


FAR = 20
"""More runs than these before one's own are not counted."""


@dataclass(frozen=True)
class StatusView:
    """What the status comment of one run shows at one moment.

    `queue_position` counts from 1 and is None once the run was claimed. `seconds_by_phase` holds
    the phases that ran, keyed by `RunState` value. `report` is there once the run ended.
    `after_check` says that a failed check began it, on behalf of who asked for the run before.
    `since` is when the present phase began, in UTC: it stays true without an edit a minute.
    """

    run_id: str
    state: RunState
    asked_by: str
    model: str = ""
    instruction: str = ""
    queue_position: int | None = None
    seconds_by_phase: Mapping[str, float] = field(default_factory=dict)
    brief_sha256: str = ""
    notes: tuple[str, ...] = ()
    run_url: str | None = None
    report: RunReport | None = None
    after_check: bool = False
    since: datetime | None = None


def status_marker(run_id: str) -> str:
    """The first line of a run's status comment; it is searched for before one is created."""
    return f"<!-- drydock:status run={token(run_id)} -->"


def status_comment(view: StatusView) -> str:
    """Return the one comment of a run: where it is, phase by phase, and how it ended."""
    ended = view.report if view.state in ENDED else None
    shown = _moving(view) if ended is None else _ended(view, ended)
    parts = [status_marker(view.run_id), *shown]
    return clip("\n\n".join(part for part in parts if part) + "\n", more_url=view.run_url)


def _moving(view: StatusView) -> list[str]:
    return [
        f"**{headline(view)}**",
        _asked(view),
        checklist(view),
        _notes(view.notes),
        footer(view, "`/aider stop` ends it"),
    ]


def _asked(view: StatusView) -> str:
    if view.after_check:
        return f"A check failed on the head; {inline(view.asked_by)} asked for the run before."
    return f"Asked for by {inline(view.asked_by)}" + with_instruction(view.instruction)


def _ended(view: StatusView, report: RunReport) -> list[str]:
    return [
        ending_text(report),
        folded(f"What was done{_took(view)}", checklist(view)),
        _notes(view.notes),
        footer(view, ""),
    ]


def headline(view: StatusView) -> str:
    """Say in one sentence where a run is."""
    if view.state is not RunState.QUEUED:
        return "Drydock is working on this."
    ahead = told_place(view.queue_position or 1) - 1
    if ahead == 0:
        return "Drydock took this on; the run starts as soon as a worker is free."
    if ahead > FAR:
        return f"Drydock took this on; more than {FAR} runs are before it."
    return f"Drydock took this on; {ahead} {'run is' if ahead == 1 else 'runs are'} before it."


def told_place(place: int) -> int:
    """Return a place in the queue, from 1, as it is told: very long queues need no edit a step."""
    return min(place, FAR + 2)


def checklist(view: StatusView) -> str:
    """Return every phase with how far it is."""
    return "\n".join(_phase_line(phase, view) for phase in PHASES)


def _phase_line(phase: RunState, view: StatusView) -> str:
    seconds = view.seconds_by_phase.get(phase.value)
    words = PHASE_WORDS[phase]
    if phase is view.state:
        since = f" since {view.since:%H:%M} UTC" if view.since is not None else ""
        return f"- [ ] **{words}** …{since}"
    if seconds is None:
        return f"- [ ] {words}"
    if _stopped_in(view) == phase.value:
        return f"- [ ] **{words}**: ended here after {duration(seconds)}"
    return f"- [x] {words} ({duration(seconds)})"


def _took(view: StatusView) -> str:
    """Say how long all phases took together; waiting is none of them."""
    seconds = sum(view.seconds_by_phase.get(phase.value, 0.0) for phase in PHASES)
    return f", in {duration(seconds)}" if seconds else ""


def _stopped_in(view: StatusView) -> str | None:
    """The phase that a run ended in before its time."""
    if view.state not in ENDED or view.state in {RunState.PUBLISHED, RunState.NO_CHANGES}:
        return None
    return list(view.seconds_by_phase)[-1] if view.seconds_by_phase else None


def footer(view: StatusView, hint: str) -> str:
    """Return one small line with the model, the brief and where to look."""
    parts = [
        f"Model {code_span(view.model)}" if view.model else "",
        f"brief {code_span(view.brief_sha256[:12])}" if view.brief_sha256 else "",
        f"[run page]({view.run_url})" if view.run_url else f"run {code_span(view.run_id)}",
        hint,
    ]
    return f"<sub>{' · '.join(part for part in parts if part)}</sub>"


def _notes(notes: Sequence[str]) -> str:
    return "\n".join(f"- {inline(note, 1000)}" for note in notes)
