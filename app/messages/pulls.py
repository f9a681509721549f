"""The pull request's title and body. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from app.clip import clip
from app.messages.commits import CONVENTIONAL, commit_lines, conventional_type
from app.messages.findings import gate_warnings
from app.messages.verdicts import other_checks, test_output, verdict_sentence
from app.messages.words import (
    LISTED,
    TITLE_LIMIT,
    and_more,
    duration,
    spending_words,
    token,
    warning_lines,
    with_instruction,
)
from app.report import RunReport
from app.text import code_span, inline, one_line, plain


def pull_request_title(report: RunReport) -> str:
    """Return the issue's title as plain text that closes and mentions nothing when merged."""
    title = one_line(plain(report.issue_title), TITLE_LIMIT)
    title = title or f"Resolve issue {report.issue_number}"
    if not report.conventional or CONVENTIONAL.match(title):
        return title
    return f"{conventional_type(report)}: {title}"


def pull_request_body(report: RunReport) -> str:
    """Return the body: the verdict, what was asked and what changed first, then how it was made."""
    parts = [
        f"Fixes #{report.issue_number}",
        gate_warnings(report),
        verdict_sentence(report),
        test_output(report.test),
        other_checks(report),
        _asked(report),
        "### What changed",
        commit_lines(report),
        warning_lines(report.warnings),
        _suggested(report),
        "### Asking for changes",
        _how_to_ask(report),
        "### How it was made",
        _made(report),
    ]
    body = "\n\n".join(part for part in parts if part) + "\n"
    return clip(f"{pull_request_marker(report.run_id)}\n{body}", more_url=report.run_url)


def pull_request_marker(run_id: str) -> str:
    """The first line of a pull request of ours, by which it is found again."""
    return f"<!-- drydock:pull run={token(run_id)} -->"


def _asked(report: RunReport) -> str:
    asked = f"Asked for by {inline(report.asked_by)} in #{report.issue_number}"
    return asked + with_instruction(report.instruction)


def _suggested(report: RunReport) -> str:
    """Name people as code, which mentions nobody."""
    if not report.suggested:
        return ""
    names = ", ".join(f"{code_span(who.name)} ({inline(who.why)})" for who in report.suggested)
    return f"Suggested reviewers, whom nobody has asked: {names}"


def _how_to_ask(report: RunReport) -> str:
    return (
        "Review this like anybody's work; you can push to the branch. Say what should be different"
        " in a comment here (`/aider …`), on a line of the diff, or in a review that requests"
        " changes: the answer is a commit, and a reply in each thread. `/aider undo` reverts the"
        " last push. To start over, close this pull request and comment `/aider retry` on"
        f" #{report.issue_number}."
    )


def _made(report: RunReport) -> str:
    branch = report.branch or "?"
    lines = [
        f"- Model: {code_span(report.model)}; {spending_words(report.spending)}",
        f"- Machine: {code_span(report.tier)}, without network or credentials; template"
        f" {code_span(report.template_digest[:12])}",
        *_reach(report),
        f"- Egress: {refusal_words(report)}",
        *_refusals(report),
        f"- Base: {code_span(report.base_ref)} at {report.base_sha[:10]};"
        f" branch {code_span(branch)}",
        f"- Brief: SHA-256 {code_span(report.brief_sha256)}",
        f"- Manifest: SHA-256 {code_span(report.manifest_sha256)}",
        f"- Time: {duration(report.seconds)}{_phases(report.seconds_by_phase)}",
        f"- Run: {_run_link(report)}",
    ]
    return "\n".join(lines)


def refusal_words(report: RunReport) -> str:
    """Say in one clause what egress refused."""
    count = sum(line.count for line in report.refusals)
    if not count:
        return "nothing was refused"
    return f"**{count} {'request was' if count == 1 else 'requests were'} refused**"


def _reach(report: RunReport) -> tuple[str, ...]:
    names = report.could_reach
    if not names:
        return ()
    shown = ", ".join(inline(name, 300) for name in names[:LISTED])
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return (f"- Could reach: {shown}{more}; nothing else",)


def _refusals(report: RunReport) -> tuple[str, ...]:
    lines = [
        f"  - {code_span(line.target)}, {line.count} times: {inline(line.reason, 300)}"
        for line in report.refusals[:LISTED]
    ]
    return (*lines, *(f"  {more}" for more in and_more(len(report.refusals))))


def _phases(seconds: Mapping[str, float]) -> str:
    shown = ", ".join(f"{inline(name)} {duration(value)}" for name, value in seconds.items())
    return f" ({shown})" if shown else ""


def _run_link(report: RunReport) -> str:
    if report.run_url:
        return f"[{token(report.run_id)}]({report.run_url})"
    return code_span(report.run_id)
