"""What Drydock's own run of the tests gave, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.messages.words import duration, folded, tail
from app.repo_config import CONFIG_PATH
from app.report import RunReport, TestResult
from app.text import code_span, inline

_NAMED = 10


def verdict_sentence(report: RunReport) -> str:
    """Say what Drydock's own run of the tests gave, compared with the base where that was run."""
    test = report.test
    if test is None:
        return no_test_command()
    verdict = "✅ **The tests pass.**" if test.passed else "❌ **The tests fail.**"
    source = f" ({inline(report.test_source)})" if report.test_source else ""
    sentence = (
        f"{verdict} {code_span(test.command)}{source} {_exit_words(test)}{_counted(test)}; run by"
        f" Drydock in a fresh process after Aider had ended.{_before(report.test_before)}"
    )
    blame = _blame(test, report.test_before)
    return f"{sentence}\n\n{blame}" if blame else sentence


def _counted(test: TestResult) -> str:
    tally = test.tally
    if tally is None:
        return ""
    skipped = f", {tally.skipped} skipped" if tally.skipped else ""
    return f" ({tally.passed} passed, {tally.failed} failed{skipped})"


def _blame(test: TestResult, before: TestResult | None) -> str:
    """Say which failures are this change's, where both runs can be compared."""
    if test.passed or before is None:
        return ""
    if test.tally is None or before.tally is None:
        return "" if before.passed else "The command failed before the change as well."
    old = set(before.tally.failing)
    new = [name for name in test.tally.failing if name not in old]
    kept = [name for name in test.tally.failing if name in old]
    lines = [
        f"- Broken by this change: {_test_names(new)}" if new else "",
        f"- Failing before as well: {_test_names(kept)}" if kept else "",
    ]
    return "\n".join(line for line in lines if line)


def _test_names(names: Sequence[str]) -> str:
    shown = ", ".join(code_span(name, 120) for name in names[:_NAMED])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"


def _exit_words(test: TestResult) -> str:
    if test.timed_out:
        return f"did not end within {duration(test.seconds)}"
    if test.exit_code is None:
        return f"was killed by a signal after {duration(test.seconds)}"
    return f"exited with {test.exit_code} after {duration(test.seconds)}"


def _before(before: TestResult | None) -> str:
    if before is None:
        return ""
    return f" Before the change it {_exit_words(before)}{_counted(before)}."


def test_output(test: TestResult | None) -> str:
    """Return the end of what the tests printed, folded."""
    if test is None or not test.tail.strip():
        return ""
    return folded("The end of its output", tail(test.tail))


def other_checks(report: RunReport) -> str:
    """Say how lint and set-up ended, which Drydock ran as well; the output of what failed."""
    lint = [_check("Lint", report.lint)] if report.lint is not None else []
    lines = [*lint, *(_check("Set-up", done) for done in report.setup)]
    parts = ["\n".join(lines)]
    if report.lint is not None and not report.lint.passed:
        parts.append(test_output(report.lint))
    return "\n\n".join(part for part in parts if part)


def _check(name: str, done: TestResult) -> str:
    sign = "✅" if done.passed else "❌"
    return f"- {sign} {name}: {code_span(done.command)} {_exit_words(done)}"


def no_test_command() -> str:
    """Say that nothing was tested, and how that changes."""
    return (
        "⚠️ **No tests were run:** no test command is known for this repository. Set `test` in"
        f" `{CONFIG_PATH}` on the default branch, for example `test: make test`."
    )
