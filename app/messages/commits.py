"""Commits in words: those of a run, listed, and the message of each one made anew. Pure."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from app.messages.words import LISTED, TITLE_LIMIT, and_more, folded, head, token
from app.report import CommitSummary, RunReport
from app.text import code_block, inline, one_line, plain

CONVENTIONAL = re.compile(
    r"(build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(?:\([\w ./-]{1,40}\))?!?: \S"
)


def conventional_type(report: RunReport) -> str:
    """The type that most of the run's commits have; a run mends something where none has one."""
    found = (CONVENTIONAL.match(commit.subject) for commit in report.commits)
    types = [match[1] for match in found if match is not None]
    return max(types, key=types.count) if types else "fix"


def commit_lines(report: RunReport) -> str:
    """Return a run's commits as a list, and the files below it."""
    lines = [_commit_line(commit) for commit in report.commits[:LISTED]]
    lines += and_more(len(report.commits))
    stat = folded("Files", code_block(report.diffstat)) if report.diffstat.strip() else ""
    return "\n".join(lines) + (f"\n\n{stat}" if stat else "")


def _commit_line(commit: CommitSummary) -> str:
    count = len(commit.files)
    files = f"{count} {'file' if count == 1 else 'files'}"
    size = f"{files}, +{commit.insertions} -{commit.deletions}"
    return f"- {commit.sha[:10]} {inline(commit.subject)} ({size})"


_TRAILER = re.compile(
    r"^\s*(?:[A-Za-z-]+-by|drydock-[a-z-]+|skip-checks)\s*:.*$", re.IGNORECASE | re.MULTILINE
)


def commit_message(words: str, run_id: str, co_author_line: str | None) -> str:
    """Return the message of a re-created commit: the model's words made plain, our trailers.

    Trailers in the model's words are dropped: who wrote a commit is for us to say.
    """
    subject, _, rest = _TRAILER.sub("", plain(words)).strip().partition("\n")
    subject = one_line(subject, TITLE_LIMIT) or "Change by Aider"
    body = head(rest.strip(), 5_000)
    trailers = "\n".join(line for line in (co_author_line, f"Drydock-Run: {token(run_id)}") if line)
    return "\n\n".join(part for part in (subject, body, trailers) if part) + "\n"


def co_author(login: str, user_id: int, github_url: str) -> str:
    """Return the trailer that credits a GitHub account, by the address GitHub gives everybody."""
    host = urlsplit(github_url).hostname or "github.com"
    name = re.sub(r"[^A-Za-z0-9_\[\]-]", "", login)
    return f"Co-authored-by: {name} <{user_id}+{name}@users.noreply.{host}>"
