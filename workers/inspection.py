"""The gate's phase: what a machine gave back is judged, and made again as ours."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.messages import CONVENTIONAL
from app.report import CommitSummary, GateFinding
from workers.bounded import Bounds, OutOfBounds, run_bounded
from workers.checkout import MirrorLock
from workers.gate import (
    Finding,
    GateRefusal,
    GateRules,
    Level,
    Quarantine,
    Rule,
    is_allowable,
    is_refused,
    judge,
    quarantine,
    read_facts,
)
from workers.git import Git, GitFailed
from workers.recreate import (
    FileStat,
    NewCommit,
    Signature,
    read_diff,
    read_stats,
    recreate_commits,
)
from workers.run_folder import QUARANTINE

DIFF_CAP = 512 * 1024
# So many of the newest subjects show a repository's habit; from fewer than `FEW` none is read.
SUBJECTS = 30
FEW = 5


@dataclass(frozen=True)
class Passed:
    """What may go out: the quarantine that holds it, and what it is in words.

    `conventional` says that most of the base's own subjects are conventional commits.
    """

    git_dir: Path
    head_sha: str
    commits: tuple[CommitSummary, ...]
    diffstat: str
    diff: str
    warnings: tuple[GateFinding, ...]
    conventional: bool = False


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
    canaries: Sequence[str] = (),
) -> Passed | Refused | NothingChanged:
    """Quarantine the bundle, judge the applied trees, re-create the commits.

    Errors: GitFailed, and JobLost where its process ended for a reason of its own.
    `canaries` are values that must not come out of the machine. All of it happens in a process of
    its own, within bounds: what is beyond them is refused.
    """
    into = folder / QUARANTINE
    shutil.rmtree(into, ignore_errors=True)
    bounds = Bounds(rules.max_gate_seconds, rules.max_memory_bytes)
    asked = (git, lock.path, bundle, base_sha, into, rules, signature, tuple(canaries))
    try:
        return run_bounded(bounds, _inspect, *asked)
    except OutOfBounds as error:
        return _too_much(into, str(error))
    except GitFailed as error:
        if not _is_of_the_change(error):
            raise
        return _too_much(into, error.stderr or str(error))


def _is_of_the_change(error: GitFailed) -> bool:
    """Its time, output or memory was at an end, or it crashed: such content is hostile as any."""
    if error.ours or error.disk_full:
        return False
    return error.exit_code is None or error.exit_code < 0 or error.out_of_memory


def _too_much(into: Path, why: str) -> Refused:
    shutil.rmtree(into, ignore_errors=True)
    finding = Finding(Rule.CHANGE_SIZE, "", f"the change is more than can be looked through: {why}")
    return Refused(_shown((finding,)))


def _inspect(
    git: Git,
    mirror: Path,
    bundle: Path,
    base_sha: str,
    into: Path,
    rules: GateRules,
    signature: Signature,
    canaries: Sequence[str],
) -> Passed | Refused | NothingChanged:
    taken = quarantine(git, bundle, base_sha, mirror, into, rules)
    if isinstance(taken, GateRefusal):
        return Refused(_shown(taken.findings))
    findings = judge(read_facts(git, taken, rules, canaries), rules)
    if is_refused(findings):
        return Refused(_shown(findings))
    made = recreate_commits(git, taken, signature)
    if not made:
        return NothingChanged()
    conventional = is_conventional(read_subjects(git, mirror, base_sha))
    return replace(_passed(git, taken, made, findings), conventional=conventional)


def read_subjects(git: Git, mirror: Path, sha: str) -> list[str]:
    """Return the subjects of the newest commits of a branch, merges left out."""
    argv = ["log", f"--max-count={SUBJECTS}", "--no-merges", "--format=%s", "--no-show-signature"]
    told = git.run([*argv, "--end-of-options", sha], git_dir=mirror, output_cap=SUBJECTS * 10_000)
    return told.decode("utf-8", "replace").splitlines()


def is_conventional(subjects: Sequence[str]) -> bool:
    """Return whether most of some subjects have the form of conventional commits. Pure."""
    matching = sum(CONVENTIONAL.match(subject) is not None for subject in subjects)
    return len(subjects) >= FEW and 2 * matching > len(subjects)


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


def summarise(git: Git, git_dir: Path, base: str, head: str, subject: str) -> Passed:
    """Return one commit of our own on `base`, as what may go out. Errors: GitFailed."""
    stats = read_stats(git, git_dir, base, head)
    commit = _summary(NewCommit(head, head, subject), stats)
    diff = read_diff(git, git_dir, base, head, DIFF_CAP).text
    return Passed(git_dir, head, (commit,), diffstat(stats), diff, ())


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
    return tuple(
        GateFinding(f.path, f.rule.value, f.reason, f.level.value, is_allowable(f))
        for f in findings
    )
