"""Who might review what passed the gate, by what the base says: CODEOWNERS and its history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import structlog

from app.codeowners import LOCATIONS, MAX_BYTES, OwnerRule, read_codeowners
from app.report import Suggestion
from app.suggestions import suggest
from workers.git import Git, GitFailed
from workers.inspection import Passed
from workers.objects import UnreadableBlob, list_changed_paths, read_blob

log = structlog.get_logger()

# So many of a change's files, and of the newest commits that touched them, are looked at.
MAX_PATHS = 200
MAX_COMMITS = 500
_ADDRESS_CAP = MAX_COMMITS * 1_000


def suggest_reviewers(
    git: Git, mirror: Path, passed: Passed, base_sha: str, asked_by: str
) -> tuple[Suggestion, ...]:
    """Return who might review, owners first; nobody where git cannot tell, which ends no run."""
    try:
        paths = _changed(git, passed, base_sha)
        rules = _rules(git, mirror, base_sha)
        emails = _authors(git, mirror, base_sha, paths)
    except GitFailed as error:
        log.warning("reviewers.unknown", error=str(error))
        return ()
    return suggest(rules, paths, emails, asked_by)


def _changed(git: Git, passed: Passed, base_sha: str) -> list[str]:
    """Return the names that are UTF-8, as others cannot be in CODEOWNERS."""
    listed = list_changed_paths(git, passed.git_dir, base_sha, passed.head_sha)
    names = (name.decode("utf-8", "replace") for name in listed)
    return [name for name in names if "\N{REPLACEMENT CHARACTER}" not in name][:MAX_PATHS]


def _rules(git: Git, mirror: Path, sha: str) -> tuple[OwnerRule, ...]:
    for path in LOCATIONS:
        try:
            data = read_blob(git, mirror, sha, path, MAX_BYTES)
        except UnreadableBlob:
            return ()
        if data is not None:
            return read_codeowners(data.decode("utf-8", "replace"))
    return ()


def _authors(git: Git, mirror: Path, sha: str, paths: Sequence[str]) -> list[str]:
    """Return an address for each commit that touched one of the files."""
    if not paths:
        return []
    argv = ["log", f"--max-count={MAX_COMMITS}", "--no-merges", "--format=%ae"]
    told = git.run(
        [*argv, "--no-show-signature", "--end-of-options", sha, "--", *paths],
        git_dir=mirror,
        output_cap=_ADDRESS_CAP,
    )
    return told.decode("utf-8", "replace").splitlines()
