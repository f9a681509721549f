"""Answers in the threads of a review, once its run has ended; and what a run did to one file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog

from app.github.errors import Gone, Invalid, NotAllowed, NotFound
from app.github.gateway import GitHubGateway
from app.intents import Remark
from app.report import CommitSummary, RunReport
from app.store import Run
from app.thread_replies import Touched, thread_marker, thread_reply
from workers.git import Git, GitFailed

log = structlog.get_logger()

_ANSWER = "answer"
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", re.MULTILINE)


def remarks_in(stored: Sequence[Mapping[str, Any]]) -> tuple[Remark, ...]:
    """Return the inline comments that a run's row keeps, without the answers to them. Pure."""
    return tuple(
        Remark(**{name: value for name, value in each.items() if name != _ANSWER})
        for each in stored
    )


def with_answers(
    git: Git, git_dir: Path | None, run: Run, report: RunReport
) -> tuple[Mapping[str, Any], ...]:
    """Return what the row of a run that ends keeps of its inline comments: each with its answer.

    They are posted from there, also by whoever finds the ending untold. `git_dir` holds the
    commits that were pushed.
    """
    return tuple(
        {**asdict(remark), _ANSWER: _answer(git, git_dir, report, remark)}
        for remark in remarks_in(run.remarks)
    )


def _answer(git: Git, git_dir: Path | None, report: RunReport, remark: Remark) -> str:
    """Return the answer to one comment; "" where it cannot be told what became of its file."""
    try:
        touched = touched_by(git, git_dir, report, remark.path) if git_dir else None
    except GitFailed as error:
        log.warning("thread.not_answered", run=report.run_id, error=str(error))
        return ""
    return thread_reply(remark, report, touched)


def post_answers(gateway: GitHubGateway, run: Run, report: RunReport) -> None:
    """Answer every inline comment that the run was to answer, each in its thread, once.

    The status comment has told the ending by itself, so a thread that GitHub refuses (locked,
    deleted) is noted and the others are answered. Errors: GitHubError when GitHub is away.
    """
    for stored, remark in zip(run.remarks, remarks_in(run.remarks), strict=True):
        # A run that ended while nobody drove it did nothing.
        body = stored.get(_ANSWER, thread_reply(remark, report, None))
        if not body:
            continue
        marker = thread_marker(report.run_id, remark.comment_id)
        try:
            gateway.create_reply(run.issue_number, remark.thread_id, marker, body)
        except (NotAllowed, NotFound, Gone, Invalid) as error:
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
