"""A finished run on a terminal: what a reviewer would look at, in the order of looking."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from app.messages import ending_title
from app.report import RunReport, TestResult
from app.states import RunState

_DIFF_STYLES = {"+": "green", "-": "red", "@@": "cyan"}


def report_panel(report: RunReport) -> RenderableType:
    """Return the report as one panel. All text of the model or repository is shown literally."""
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(report):
        facts.add_row(Text(name, style="bold"), Text(value))
    parts: list[RenderableType] = [facts]
    if report.test is not None and not report.test.passed and report.test.tail:
        parts.append(Panel(Text(report.test.tail), title="end of the test's output"))
    number = f"#{report.issue_number}" if report.issue_number else ""
    title = Text(f"{outcome_words(report)} · {report.repo}{number}")
    return Panel(Group(*parts), title=title, border_style=_colour(report))


def outcome_words(report: RunReport) -> str:
    """Say how a run without GitHub ended: its work is a branch, and nothing was published."""
    if report.outcome is not RunState.PUBLISHED:
        return ending_title(report).rstrip(".")
    count = len(report.commits)
    return f"{count} {'commit' if count == 1 else 'commits'} on a branch"


def diff_view(diff: str) -> RenderableType:
    """Return a unified diff in the terminal's own colours, which fit its background."""
    lines = (Text(line, style=_style_of(line)) for line in diff.splitlines())
    return Text("\n").join(lines)


def _style_of(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "index ")):
        return "bold"
    return next((style for mark, style in _DIFF_STYLES.items() if line.startswith(mark)), "")


def print_report(console: Console, report: RunReport, diff: str) -> None:
    console.print(report_panel(report))
    if diff:
        console.print(diff_view(diff))


def _facts(report: RunReport) -> list[tuple[str, str]]:
    rows = [
        ("asked", report.issue_title),
        ("outcome", ": ".join(filter(None, (outcome_words(report), report.detail)))),
        ("branch", report.branch or "none"),
        *(("commit", f"{c.sha[:10]} {c.subject}") for c in report.commits),
        *((("tests before", test_line(report.test_before)),) if report.test_before else ()),
        ("tests", _tests(report)),
        *((("lint", test_line(report.lint)),) if report.lint else ()),
        ("model", f"{report.model}: {money(report)}"),
        ("machine", f"{report.tier or 'none'} (template {report.template_digest[:12] or 'none'})"),
        ("brief", report.brief_sha256[:12] or "none"),
        ("refused egress", _refusals(report)),
        *(("gate", f"{f.path}: {f.reason} ({f.rule})") for f in report.findings),
        *(("warning", warning) for warning in report.warnings),
        ("seconds", ", ".join(f"{k} {v:.1f}" for k, v in report.seconds_by_phase.items())),
    ]
    if report.answer:
        rows.append(("answer", report.answer))
    return rows


def _tests(report: RunReport) -> str:
    if report.test is None and report.test_before is not None:
        return "not run again: there was nothing new to test"
    return test_line(report.test)


def test_line(test: TestResult | None) -> str:
    """Say in one line what our own run of the test command gave."""
    if test is None:
        return "not run: no test command is known"
    if test.timed_out:
        return f"{test.command}: ended by the time limit after {test.seconds:.0f} s"
    verdict = "passed" if test.passed else "failed"
    return f"{test.command}: {verdict}, exit status {test.exit_code}, {test.seconds:.1f} s"


def money(report: RunReport) -> str:
    """Say tokens and cost; an unknown price is said, never shown as zero."""
    spent = report.spending
    cost = "price unknown" if spent.cost_usd is None else f"${spent.cost_usd:.4f}"
    mark = " (estimated)" if spent.estimated else ""
    return (
        f"{spent.input_tokens} tokens in, {spent.output_tokens} out, "
        f"{spent.calls} {'call' if spent.calls == 1 else 'calls'}, {cost}{mark}"
    )


def _refusals(report: RunReport) -> str:
    if not report.refusals:
        return "nothing"
    return "; ".join(f"{r.target} x{r.count} ({r.reason})" for r in report.refusals)


def _colour(report: RunReport) -> str:
    if report.outcome is not RunState.PUBLISHED:
        return "yellow"
    return "green" if report.test is None or report.test.passed else "yellow"
