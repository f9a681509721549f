"""What a refused run had made, and how it is judged again when a person lets a file through.

A refusal ends a run for good. So `/aider allow PATH` queues another one that is given the refused
run's bundle, its report, and who allowed what: its driver needs no machine. All of that lies in
the new run's folder before its row can be seen by any worker.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from app.intents import AllowPath
from app.report import RunReport
from app.store import AlreadyActive, AlreadyCreated, NewRun, Run, runs, writing
from workers.gate import Allowance
from workers.reports import as_json, from_json
from workers.run_folder import OUT_BUNDLE, QUARANTINE, RUNS, run_folder
from workers.services import Services
from workers.threads import remarks_in

_NOTE = "allowed.json"
_DAY_S = 86_400.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Kept:
    """A run that judges an earlier one's bundle: `of` is that run, `report` what it had found."""

    of: str
    allowances: tuple[Allowance, ...]
    report: RunReport


@dataclass(frozen=True)
class BundleGone:
    """The bundle is not on this host any more, or never was."""


def read_kept(folder: Path) -> Kept | None:
    """Return what a run's folder says it has to judge again; None for an ordinary run."""
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    allowances = tuple(Allowance(each["path"], each["by"]) for each in note["allowances"])
    return Kept(note["of"], allowances, from_json(note["report"]))


def allow_path(
    services: Services, intent: AllowPath, trigger: str, index: int
) -> Run | AlreadyActive | AlreadyCreated | BundleGone:
    """Queue a run that judges the refused one's bundle again, with one more path let through."""
    state_dir = services.settings.state_dir
    bundle = run_folder(state_dir, intent.run_id) / OUT_BUNDLE
    now = services.clock()
    with writing(services.engine) as session:
        refused = runs.get(session, intent.run_id)
        if refused is None or refused.report is None or not bundle.is_file():
            return BundleGone()
        made = runs.create(session, _again(refused, intent, trigger, index), now)
        if isinstance(made, Run):
            runs.log(session, made.id, "allowed", intent.reason, now)
            _hand_over(bundle, run_folder(state_dir, made.id), refused, intent)
        return made


def _again(refused: Run, intent: AllowPath, trigger: str, index: int) -> NewRun:
    """The same run once more, as far as anybody can see; who asked for it stays who asked."""
    report = from_json(refused.report)
    return NewRun(
        repo_id=refused.repo_id,
        repo=refused.repo,
        installation_id=refused.installation_id,
        issue_number=refused.issue_number,
        issue_title=refused.issue_title,
        asked_by=refused.asked_by,
        asked_by_id=refused.asked_by_id,
        target=refused.target,
        instruction=refused.instruction,
        trigger_delivery_id=trigger,
        trigger_index=index,
        trigger_comment_id=intent.comment_id,
        base_ref=report.base_ref,
        base_sha=report.base_sha,
        branch=refused.branch,
        pull_number=refused.pull_number,
        pull_url=refused.pull_url,
        remarks=tuple(map(asdict, remarks_in(refused.remarks))),
        model=refused.model,
        brief_text=refused.brief_text,
        brief_sha256=refused.brief_sha256,
    )


def _hand_over(bundle: Path, folder: Path, refused: Run, intent: AllowPath) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = folder / OUT_BUNDLE
    target.unlink(missing_ok=True)
    # The same bytes: nobody writes to a bundle once it has come out.
    os.link(bundle, target)
    earlier = read_kept(bundle.parent)
    allowed = (*(earlier.allowances if earlier else ()), Allowance(intent.path, intent.by.login))
    (folder / _NOTE).write_text(json.dumps(_note(refused, allowed)), encoding="utf-8")


def _note(refused: Run, allowed: tuple[Allowance, ...]) -> Mapping[str, object]:
    return {
        "of": refused.id,
        "allowances": [{"path": each.path, "by": each.by} for each in allowed],
        "report": as_json(from_json(refused.report)),
    }


def drop_old_bundles(state_dir: Path, keep_days: float, now: float | None = None) -> None:
    """Remove the bundles of refused runs, with their quarantines, that are older than that."""
    oldest = (time.time() if now is None else now) - keep_days * _DAY_S
    for bundle in (state_dir / RUNS).glob(f"*/{OUT_BUNDLE}"):
        try:
            if bundle.stat().st_mtime < oldest:
                shutil.rmtree(bundle.parent / QUARANTINE, ignore_errors=True)
                bundle.unlink()
                log.info("bundle.dropped", run=bundle.parent.name)
        except FileNotFoundError:
            continue  # the run that it belonged to has been cleaned meanwhile
