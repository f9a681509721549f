"""What the gate found, and how a person lets a file through. Pure."""

from __future__ import annotations

import re

from app.messages.words import LISTED, and_more
from app.report import GateFinding, RunReport
from app.states import RunState
from app.text import code_span, inline


def finding_lines(report: RunReport) -> str:
    """Return the gate's findings as a list."""
    lines = [_finding(finding) for finding in report.findings[:LISTED]]
    return "\n".join((*lines, *and_more(len(report.findings))))


def _finding(finding: GateFinding) -> str:
    rule = code_span(finding.rule)
    sign = "⚠️ " if finding.level == "warn" else ""
    where = f"{code_span(finding.path)}: " if finding.path else ""
    return f"- {sign}{where}{inline(finding.reason, 400)} (rule {rule})"


def how_to_allow(report: RunReport) -> str:
    """Say how a maintainer lets a refused file through, where one may."""
    paths = refused_paths(report)
    if report.outcome is not RunState.REFUSED or not paths:
        return ""
    others = sum(f.level == "refuse" and not f.allowable for f in report.findings)
    rest = " What else was refused stays so." if others else ""
    return (
        f"What was made is kept for a while. A maintainer who has looked at it may let a file"
        f" through for this run: {code_span('/aider allow ' + allow_word(paths[0]), 300)}."
        f" It is judged again without new work by the model.{rest}"
    )


def refused_paths(report: RunReport) -> tuple[str, ...]:
    """Return the paths that were refused and that a person may let through, each once."""
    found = (f.path for f in report.findings if f.level == "refuse" and f.allowable and f.path)
    return tuple(dict.fromkeys(found))


def allow_word(path: str) -> str:
    """Return a path as it has to be written after `/aider allow`."""
    return path if re.fullmatch(r"[^\s`\"']+", path) else f'"{path}"'


def gate_warnings(report: RunReport) -> str:
    """What the gate wants looked at: it comes first, since a reviewer must not miss it."""
    if not report.findings:
        return ""
    return f"**Look at this first:**\n\n{finding_lines(report)}"
