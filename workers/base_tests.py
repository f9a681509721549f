"""Results of the tests on a base, kept on this host: the same base is not tested twice.

A result is kept for a repository, a base, a template and the commands that led to it. It was had
before the model's first word in that machine, so no run can write another's.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from app.report import TestResult
from workers.dock import Commands

KEPT = 2_000
_RESULTS: TypeAdapter[TestResult] = TypeAdapter(TestResult)


@dataclass(frozen=True)
class BaseKey:
    """What a result depends on."""

    repo_id: int
    base_sha: str
    template: str
    commands: Commands

    def name(self) -> str:
        parts = (self.repo_id, self.base_sha, self.template, self.commands.setup)
        told = json.dumps([*parts, self.commands.test])
        return hashlib.sha256(told.encode()).hexdigest()


def find(state_dir: Path, key: BaseKey) -> TestResult | None:
    """Return the kept result; None where there is none that can be read."""
    try:
        return _RESULTS.validate_json(_path(state_dir, key).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def keep(state_dir: Path, key: BaseKey, result: TestResult) -> None:
    """Keep a result, and let go of the oldest when there are too many.

    One that a timeout or a signal ended says something about the host's day: it is not kept.
    """
    if result.exit_code is None:
        return
    path = _path(state_dir, key)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(_RESULTS.dump_json(result))
    part.replace(path)
    _prune(path.parent)


def _prune(folder: Path) -> None:
    files = list(folder.glob("*.json"))
    if len(files) <= KEPT:
        return
    for old in sorted(files, key=lambda path: path.stat().st_mtime)[: len(files) - KEPT]:
        old.unlink(missing_ok=True)


def _path(state_dir: Path, key: BaseKey) -> Path:
    return state_dir / "base-tests" / f"{key.name()}.json"
