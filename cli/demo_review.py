"""The demo's second act: a reviewer's inline `/aider` comment gets a commit, and a reply."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.markdown import Markdown
from rich.panel import Panel
from rich.text import Text

from app.report import RunReport
from cli.phases import PhaseLines
from cli.present import diff_view, money, test_line
from cli.watch import follow
from demo.github import Person, Pull, ReviewComment
from demo.stage import REVIEWED_LINE, REVIEWED_PATH, WISH
from workers.reports import report_of_row

REPLY_PATIENCE_S = 30.0
POLL_S = 0.1


@dataclass(frozen=True)
class Answered:
    """What a reviewer's comment came to. `reply` is what stands in its thread, "" for nothing."""

    report: RunReport
    pull: Pull
    reply: str
    seconds: float

    @property
    def passed(self) -> bool:
        """The head is a commit of this run, its tests pass, and the thread names it."""
        report = self.report
        tested = report.test is not None and report.test.passed
        head = report.head_sha or "?"
        return tested and self.pull.head_sha == head and head in self.reply


def second_act(
    folder: Path, pull: Pull, reviewer: Person, phases: PhaseLines, first_run: str
) -> Answered:
    """Ask for a change on a line of the diff, and watch until it is answered."""
    began = time.monotonic()
    phases.begin("review", "Review: ask for a change")
    remark = reviewer.comments_on_line(pull, REVIEWED_PATH, REVIEWED_LINE, f"/aider {WISH}")
    run = follow(folder, phases, after=first_run, key="review_")
    reply = _reply_to(remark)
    return Answered(report_of_row(run), pull, reply, time.monotonic() - began)


def _reply_to(remark: ReviewComment) -> str:
    """Return the bot's words in the thread; they follow the run's end by a moment."""
    deadline = time.monotonic() + REPLY_PATIENCE_S
    while time.monotonic() < deadline:
        for comment in remark.pull.review_comments:
            if comment.in_reply_to is remark:
                return comment.body
        time.sleep(POLL_S)
    return ""


def show_answer(console: Console, answered: Answered) -> None:
    """Print the thread as a reviewer reads it, and the commit that came."""
    report = answered.report
    thread = Group(
        Text(f"{REVIEWED_PATH}, line {REVIEWED_LINE}", style="dim"),
        Text(f"mona: /aider {WISH}"),
        Text("drydock:"),
        Markdown(answered.reply or "(no reply)"),
    )
    console.print(Panel(thread, title=f"Review of #{answered.pull.number}"))
    facts = [f"commit  {c.sha[:10]}  {c.subject}" for c in report.commits]
    facts += [f"tests   {test_line(report.test)}", f"model   {report.model}: {money(report)}"]
    diff = answered.pull.repo.git.text("diff", report.base_sha, report.head_sha or "HEAD")
    console.print(Panel(Group(Text("\n".join(facts)), Text(), diff_view(diff)), title="The answer"))


def answer_summary(answered: Answered) -> dict[str, Any]:
    """Return the second act as JSON values (docs/design.md, section 10)."""
    report = answered.report
    return {
        "outcome": report.outcome.value,
        "commits": [commit.sha for commit in report.commits],
        "tests_exit_code": report.test.exit_code if report.test else None,
        "replied": bool(answered.reply),
        "seconds": round(answered.seconds, 2),
    }
