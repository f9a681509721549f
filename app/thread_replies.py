"""What is answered to each inline comment of a review, as Markdown. Pure.

Never "done" without a commit that changes the lines: a commit elsewhere in the file is called that.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.clip import clip
from app.intents import Remark
from app.messages import ending_title
from app.report import RunReport
from app.states import RunState
from app.text import code_span, inline, quote

# A comment is about what stands there, and an answer to it seldom changes just that line.
NEAR = 3
_ANSWER_LIMIT = 3_000


@dataclass(frozen=True)
class Touched:
    """What a run's commits did to one file: the last that changed it, and where.

    `ranges` are first and last line of each change, as lines of the file before the run; a pure
    addition after line n is (n, n).
    """

    sha: str
    subject: str
    ranges: tuple[tuple[int, int], ...]


def thread_marker(run_id: str, comment_id: int) -> str:
    """The first line of an answer, so that a repeated ending gives no second one."""
    return f"<!-- drydock:thread run={run_id} comment={comment_id} -->"


def thread_reply(remark: Remark, report: RunReport, touched: Touched | None) -> str:
    """Return the answer to one comment, with its marker."""
    marker = thread_marker(report.run_id, remark.comment_id)
    words = _words(remark, report, touched)
    return clip(f"{marker}\n{words}\n", more_url=report.run_url)


def _words(remark: Remark, report: RunReport, touched: Touched | None) -> str:
    # What was pushed is there, also where the run was cut off after it.
    if report.outcome is not RunState.PUBLISHED and (report.branch is None or touched is None):
        return _not_addressed(report)
    if touched is None:
        changed = f"no commit of this run changes {code_span(remark.path, 300)}"
        return f"**Not addressed:** {changed}. Say more exactly what to change: `/aider …`."
    commit = f"{touched.sha} ({inline(touched.subject, 120)})"
    beside = f" It is on the branch {code_span(report.branch or '?')}." if report.aside else ""
    if is_near(remark, touched):
        return f"Addressed in {commit}.{beside}{_test_words(report)}"
    return f"**Look at this one:** {commit} changes this file, but not these lines.{beside}"


def _not_addressed(report: RunReport) -> str:
    answer = report.answer.strip()
    if report.outcome is RunState.NO_CHANGES and answer:
        shown = answer if len(answer) <= _ANSWER_LIMIT else f"{answer[:_ANSWER_LIMIT]} […]"
        said = "Nothing was changed. This is what the model said; nobody checked it:"
        return f"{said}\n\n{quote(shown)}"
    return f"**Not addressed:** {ending_title(report)} The status comment says more."


def _test_words(report: RunReport) -> str:
    if report.test is None or report.rebased:
        return ""
    return f" The tests {'pass' if report.test.passed else '**fail**'}."


def is_near(remark: Remark, touched: Touched) -> bool:
    """Say whether a change is at the comment's lines, or within `NEAR` of them.

    A comment on the whole file, or one whose lines are gone, is met by any change to the file.
    """
    if remark.line is None:
        return True
    first, last = remark.start_line or remark.line, remark.line
    return any(first - NEAR <= end and start <= last + NEAR for start, end in touched.ranges)
