"""Answers in the threads of a review, once its run has ended; and what a run did to one file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import structlog

from app.github.errors import GitHubError
from app.github.gateway import GitHubGateway
from app.intents import Remark
from app.report import CommitSummary, RunReport
from app.store import Run
from app.thread_replies import Touched, thread_marker, thread_reply
from workers.git import Git, GitFailed

log = structlog.get_logger()

_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", re.MULTILINE)


def answer_threads(
    gateway: GitHubGateway, git: Git, git_dir: Path | None, run: Run, report: RunReport
) -> None:
    """Answer every inline comment that the run was to answer, each in its thread, once.

    The status comment has told the ending by itself, so a thread that GitHub refuses (locked,
    deleted) is noted and the others are answered. `git_dir` holds the commits that were pushed.
    """
    for remark in (Remark(**each) for each in run.remarks):
        try:
            touched = touched_by(git, git_dir, report, remark.path) if git_dir else None
            marker = thread_marker(report.run_id, remark.comment_id)
            body = thread_reply(remark, report, touched)
            gateway.create_reply(run.issue_number, remark.thread_id, marker, body)
        except (GitHubError, GitFailed) as error:
            log.warning(
                "thread.not_answered", run=run.id, thread=remark.thread_id, error=str(error)
            )


def touched_by(git: Git, git_dir: Path, report: RunReport, path: str) -> Touched | None:
    """Return what the run's commits did to one file; None for nothing. Errors: GitFailed."""
    last = _last_that_touches(git, git_dir, report.base_sha, report.commits, path)
    if last is None:
        return None
    # The path is somebody's word; every path is literal to our git.
    diff = git.run(
        [
            *("diff-tree", "-r", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv"),
            *(report.base_sha, report.commits[-1].sha, "--", path),
        ],
        git_dir=git_dir,
    )
    return Touched(last.sha, last.subject, old_ranges(diff))


def _last_that_touches(
    git: Git, git_dir: Path, base: str, commits: Sequence[CommitSummary], path: str
) -> CommitSummary | None:
    parents = (base, *(commit.sha for commit in commits))
    for parent, commit in reversed(list(zip(parents, commits, strict=False))):
        argv = ["diff-tree", "-r", "--quiet", parent, commit.sha, "--", path]
        if git.attempt(argv, git_dir=git_dir).exit_code == 1:
            return commit
    return None


def old_ranges(diff: bytes) -> tuple[tuple[int, int], ...]:
    """Return first and last line of each change in a diff without context, by the old file. Pure.

    https://git-scm.com/docs/diff-format
    """
    found = ((int(start), int(count or 1)) for start, count in _HUNK.findall(diff))
    return tuple((start, start + max(count, 1) - 1) for start, count in found)
