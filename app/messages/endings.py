"""How runs end: what happened, what it means, and who does what next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.messages.commits import commit_lines
from app.messages.findings import finding_lines, gate_warnings, how_to_allow
from app.messages.verdicts import other_checks, verdict_sentence
from app.messages.words import (
    ANSWER_LIMIT,
    NOTHING_CHANGED,
    OPERATOR,
    RETRY,
    detail_words,
    folded,
    head,
    spent,
    tail,
    warning_lines,
)
from app.repo_config import CONFIG_PATH
from app.report import RunReport
from app.states import FailureKind, RunState
from app.text import code_span, quote


@dataclass(frozen=True)
class _Ending:
    """`title` says what happened, `means` what follows from it, `next` who does what now."""

    title: str
    means: str
    next: str


_FAILURES: Mapping[FailureKind, _Ending] = {
    FailureKind.MODEL_AUTH: _Ending(
        "The model's server rejected the key.",
        f"No run can work until this is put right. {NOTHING_CHANGED}",
        f"{OPERATOR} checks `DRYDOCK_MODEL_API_KEY` and `DRYDOCK_MODEL_API_BASE`"
        f" (`drydock doctor` tries them); then {RETRY}.",
    ),
    FailureKind.MODEL_QUOTA: _Ending(
        "The money for the model ran out.",
        f"The vendor says that the account has no credit or quota left. {NOTHING_CHANGED}",
        f"{OPERATOR} tops up the account; then {RETRY}.",
    ),
    FailureKind.BUDGET: _Ending(
        "The spending cap is reached.",
        f"Drydock stopped the run before it could cost more. {NOTHING_CHANGED}",
        f"{OPERATOR} can raise the cap that is named above; a cap of a day is free again after"
        f" midnight UTC. Then {RETRY}.",
    ),
    FailureKind.MODEL_UNAVAILABLE: _Ending(
        "The model could not be reached.",
        "Its server did not answer, answered with errors, or asked to slow down for too long."
        f" {NOTHING_CHANGED}",
        f"wait a few minutes and {RETRY}. If it stays like this, {OPERATOR}"
        " checks `DRYDOCK_MODEL_API_BASE` and the vendor's status page.",
    ),
    FailureKind.CONTEXT_OVERFLOW: _Ending(
        "The task did not fit into the model's context.",
        f"The issue and the files that it needs are too long together. {NOTHING_CHANGED}",
        "split the issue or name the few files that matter, for example"
        " `/aider only change src/parser.py`; or choose a model with a larger context.",
    ),
    FailureKind.SETUP: _Ending(
        "The repository's set-up failed.",
        f"Aider was not started. {NOTHING_CHANGED}",
        f"a maintainer corrects `setup` in `{CONFIG_PATH}` on the default branch; then {RETRY}.",
    ),
    FailureKind.AGENT: _Ending(
        "Aider ended without a usable result.",
        f"It stopped early, or its edits could not be applied. {NOTHING_CHANGED}",
        f"{RETRY}, or say more exactly what to change: `/aider in FILE, change …`.",
    ),
    FailureKind.SANDBOX: _Ending(
        "The machine for the run failed.",
        f"This is about the host that Drydock runs on, not about the issue. {NOTHING_CHANGED}",
        f"{OPERATOR} runs `drydock doctor`; then {RETRY}.",
    ),
    FailureKind.GITHUB: _Ending(
        "GitHub did not take the result.",
        "The work was done, but it could not be fetched, pushed or opened as a pull request.",
        f"{RETRY}. If it stays like this, an owner checks that the App is still installed here"
        " and may write contents and pull requests.",
    ),
    FailureKind.INTERNAL: _Ending(
        "Drydock itself failed.",
        f"This is a defect in Drydock, not in the issue. {NOTHING_CHANGED}",
        f"{RETRY}; {OPERATOR} finds the details in the log under the run's id.",
    ),
}


_ENDINGS: Mapping[RunState, _Ending] = {
    RunState.NO_CHANGES: _Ending(
        "Aider changed nothing.",
        f"The model saw what is asked and made no edit. {NOTHING_CHANGED}",
        "say what should change, and where: `/aider in FILE, change …`.",
    ),
    RunState.REFUSED: _Ending(
        "Drydock refused the result.",
        f"It breaks a rule that protects this repository. {NOTHING_CHANGED}",
        "ask for it in another way (`/aider … without changing those files`), or make this"
        " part of the change by hand.",
    ),
    RunState.TIMED_OUT: _Ending(
        "The run reached its time limit.",
        f"Its machine was destroyed. {NOTHING_CHANGED}",
        f"{RETRY}, or split the issue into smaller ones; {OPERATOR} can raise"
        " `DRYDOCK_TTL_MINUTES` and the limits beside it.",
    ),
    RunState.CANCELLED: _Ending(
        "The run was stopped.",
        f"Its machine was destroyed. {NOTHING_CHANGED}",
        f"nothing, or {RETRY} to start over.",
    ),
}


_ANSWERED = _Ending(
    "Aider answered in words and changed nothing.",
    f"{NOTHING_CHANGED} This is what the model said; nobody checked it:",
    "if something should be changed, say what: `/aider …`.",
)


def ending_title(report: RunReport) -> str:
    """Return one plain sentence about how a run ended."""
    if report.outcome is RunState.PUBLISHED:
        return _published_title(report)
    return _ending(report).title


def ending_text(report: RunReport) -> str:
    """Return the honest message of a run's ending: what happened, what it means, what to do."""
    if report.explanation:
        told = _truly(report.explanation, report)
        return "\n\n".join(part for part in (told, spent(report)) if part)
    return _published(report) if report.outcome is RunState.PUBLISHED else _unpublished(report)


def _truly(words: str, report: RunReport) -> str:
    """Return our words with what is known of a push: they all say that there was none."""
    if report.outcome is RunState.PUBLISHED:
        return words
    return words.replace(NOTHING_CHANGED, _what_was_pushed(report))


def _what_was_pushed(report: RunReport) -> str:
    """Only what was cut off after the gate can have pushed; an explanation says so itself."""
    if report.branch:
        branch = code_span(report.branch)
        return f"Its commits had been pushed before, and are on the branch {branch}."
    if report.head_sha and not report.explanation:
        commit = code_span(report.head_sha[:12])
        return f"It was about to push {commit}: whether it did, the branch shows."
    return NOTHING_CHANGED


def _unpublished(report: RunReport) -> str:
    ending = _ending(report)
    parts = [
        f"**{ending.title}**{detail_words(report.detail)}",
        _truly(ending.means, report),
        finding_lines(report),
        quote(head(report.answer, ANSWER_LIMIT)) if _answered(report) else "",
        folded("The end of the output", tail(report.log_tail)) if report.log_tail.strip() else "",
        f"**Next:** {ending.next}",
        how_to_allow(report),
        spent(report),
    ]
    return "\n\n".join(part for part in parts if part)


def _ending(report: RunReport) -> _Ending:
    if _answered(report):
        return _ANSWERED
    if report.outcome is RunState.FAILED:
        return _FAILURES[report.failure_kind or FailureKind.INTERNAL]
    return _ENDINGS[report.outcome]


def _answered(report: RunReport) -> bool:
    return report.outcome is RunState.NO_CHANGES and bool(report.answer.strip())


def _published_title(report: RunReport) -> str:
    if report.continues is not None:
        return _continued_title(report, report.continues)
    number = report.pull_request_number
    named = f"Pull request #{number}" if number else "The pull request"
    if report.test is None:
        return f"{named} is there; no tests were run."
    return f"{named} is there; its tests {'pass' if report.test.passed else 'fail'}."


def _continued_title(report: RunReport, number: int) -> str:
    count = len(report.commits)
    commits = f"{count} {'commit' if count == 1 else 'commits'}"
    if report.aside:
        return f"The work could not be added to #{number}; it lies on a branch beside it."
    if report.undoes:
        return f"The last push to #{number} was taken back."
    if report.test is None:
        return f"{commits} added to #{number}; no tests were run."
    passing = "pass" if report.test.passed else "fail"
    when = "ed before they were rebased" if report.rebased else ""
    return f"{commits} added to #{number}; the tests {passing}{when}."


def _published(report: RunReport) -> str:
    title = _published_title(report)
    if report.continues is not None:
        return _continued(report, title)
    link = f" {report.pull_request_url}" if report.pull_request_url else ""
    parts = [f"**{title}**{link}", verdict_sentence(report), spent(report)]
    return "\n\n".join(part for part in parts if part)


def _continued(report: RunReport, title: str) -> str:
    """What a reviewer needs of a follow-up: the pull request's own text stays as it is."""
    branch = code_span(report.branch or "?")
    aside = (
        f"The branch moved on while Drydock worked, and both changed the same lines. Nothing of it"
        f" was touched; the commits are on {branch}.\n\n**Next:** merge or cherry-pick them from"
        " there, or comment `/aider retry` to do the work again on the new head."
    )
    parts = [
        f"**{title}**",
        aside if report.aside else "",
        gate_warnings(report),
        "" if report.undoes else verdict_sentence(report),
        other_checks(report),
        commit_lines(report),
        warning_lines(report.warnings),
        quote(head(report.answer, ANSWER_LIMIT)) if report.answer.strip() else "",
        spent(report),
    ]
    return "\n\n".join(part for part in parts if part)
