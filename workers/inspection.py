"""The gate's phase: what a machine gave back is judged, and made again as ours."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from app.report import CommitSummary, GateFinding
from workers.checkout import MirrorLock
from workers.gate import (
    Finding,
    GateRefusal,
    GateRules,
    Level,
    Quarantine,
    is_refused,
    judge,
    quarantine,
    read_facts,
)
from workers.git import Git
from workers.recreate import (
    FileStat,
    NewCommit,
    Signature,
    read_diff,
    read_stats,
    recreate_commits,
)

DIFF_CAP = 512 * 1024


@dataclass(frozen=True)
class Passed:
    """What may go out: the quarantine that holds it, and what it is in words."""

    git_dir: Path
    head_sha: str
    commits: tuple[CommitSummary, ...]
    diffstat: str
    diff: str
    warnings: tuple[GateFinding, ...]


@dataclass(frozen=True)
class Refused:
    findings: tuple[GateFinding, ...]


@dataclass(frozen=True)
class NothingChanged:
    """The commits came back, but together they change no file."""


def inspect(
    git: Git,
    lock: MirrorLock,
    bundle: Path,
    base_sha: str,
    folder: Path,
    rules: GateRules,
    signature: Signature,
) -> Passed | Refused | NothingChanged:
    """Quarantine the bundle, judge the applied trees, re-create the commits. Errors: GitFailed."""
    into = folder / "quarantine.git"
    shutil.rmtree(into, ignore_errors=True)
    taken = quarantine(git, bundle, base_sha, lock.path, into, rules)
    if isinstance(taken, GateRefusal):
        return Refused(_shown(taken.findings))
    findings = judge(read_facts(git, taken), rules)
    if is_refused(findings):
        return Refused(_shown(findings))
    made = recreate_commits(git, taken, signature)
    if not made:
        return NothingChanged()
    return _passed(git, taken, made, findings)


def _passed(
    git: Git, taken: Quarantine, made: tuple[NewCommit, ...], findings: tuple[Finding, ...]
) -> Passed:
    head = made[-1].sha
    stats = read_stats(git, taken.git_dir, taken.base_sha, head)
    return Passed(
        git_dir=taken.git_dir,
        head_sha=head,
        commits=_summaries(git, taken, made),
        diffstat=diffstat(stats),
        diff=read_diff(git, taken.git_dir, taken.base_sha, head, DIFF_CAP).text,
        warnings=_shown(tuple(f for f in findings if f.level is Level.WARN)),
    )


def _summaries(
    git: Git, taken: Quarantine, made: tuple[NewCommit, ...]
) -> tuple[CommitSummary, ...]:
    parents = (taken.base_sha, *(commit.sha for commit in made))
    return tuple(
        _summary(commit, read_stats(git, taken.git_dir, parent, commit.sha))
        for parent, commit in zip(parents, made, strict=False)
    )


def _summary(commit: NewCommit, stats: tuple[FileStat, ...]) -> CommitSummary:
    return CommitSummary(
        sha=commit.sha,
        subject=commit.subject,
        files=tuple(stat.path for stat in stats),
        insertions=sum(stat.added or 0 for stat in stats),
        deletions=sum(stat.deleted or 0 for stat in stats),
    )


def diffstat(stats: tuple[FileStat, ...]) -> str:
    """Say in one line how much changed."""
    files = f"{len(stats)} file{'' if len(stats) == 1 else 's'} changed"
    added = sum(stat.added or 0 for stat in stats)
    deleted = sum(stat.deleted or 0 for stat in stats)
    return f"{files}, +{added} -{deleted} lines"


def _shown(findings: tuple[Finding, ...]) -> tuple[GateFinding, ...]:
    return tuple(GateFinding(path=f.path, rule=f.rule, reason=f.reason) for f in findings)
