"""Drives one run through its states, from the claim to the one honest ending.

Kill this process at any point: the lease runs out, the reconciler queues the run again, and the
next driver starts from the row. What was judged and recorded before the push is published from
where it lies; everything earlier is done again in a new machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from app.messages import undo_impossible
from app.repo_config import ConfigError, RepoConfig
from app.report import RunReport, Spending
from app.states import FailureKind, RunEvent, RunState
from app.store import Run, RunFields, TargetKind, reading, runs, writing
from egress.meter import Cap, first_reached
from workers.caps import own_cap, repository_cap, shared_caps
from workers.checkout import EmptyRepository, NoSuchBranch, Source, lock_mirror
from workers.dock import Dock, DockJob
from workers.endings import ending_of_error
from workers.expense import fields_of_spending, spent_before, together
from workers.gate import GateRules
from workers.git import HttpAuth
from workers.grants import operator_egress
from workers.inspection import NothingChanged, Passed, Refused, inspect
from workers.journal import Journal, LostRun
from workers.kept import Kept, read_kept
from workers.model import choose_model
from workers.owner import this_owner
from workers.patience import until_github_answers
from workers.policies import canaries_of, dock_limits, gate_rules, signature_of
from workers.prepare import Prepared, Wanted, prepare
from workers.publish import publish
from workers.pulse import LEASE_S, Pulse
from workers.record import Asked, Ending, Record
from workers.reports import as_json, cancelled_by, from_json
from workers.reviewers import suggest_reviewers
from workers.rules import NO_RULES, Rules, default_branch_of, operator_limits, rules_on_github
from workers.run_folder import IN_BUNDLE, OUT_BUNDLE, QUARANTINE, run_folder
from workers.services import Services
from workers.status import StatusTeller, handle_of
from workers.steps import (
    cargo_of,
    ending_of_config,
    ending_of_tests,
    note_judged,
    note_prepared,
    with_own_ttl,
    work_in,
)
from workers.succession import wake_follower
from workers.threads import with_answers
from workers.undo import CannotUndo, Undone, take_back

T = TypeVar("T")

log = structlog.get_logger()


def take_run(services: Services, _hint: str) -> None:
    """Claim the fairest queued run, which need not be the one that the message named; drive it."""
    owner = this_owner()
    with writing(services.engine) as session:
        run = runs.claim(session, owner, LEASE_S, services.clock())
    if run is None:
        return
    try:
        Driver(services, run, owner).drive()
    except LostRun:
        log.info("run.lost", run=run.id)
    wake_follower(services, run)


class Driver:
    """One attempt at one run."""

    def __init__(self, services: Services, run: Run, owner: str) -> None:
        self._services = services
        self._run = run
        self._owner = owner
        self._folder = run_folder(services.settings.state_dir, run.id)
        self._said = NO_RULES
        self._kept: Kept | None = None
        self._docked: Dock | None = None
        self._spent = Spending()
        self._record = record_of(run, services)
        self._gateway = services.gateway(handle_of(run))
        self._teller = StatusTeller(services, run)
        self._journal = Journal(
            services, run, owner, self._record, self._folder, self._teller.entered
        )

    def drive(self) -> None:
        """Do the run and say how it ended. LostRun when it stopped being ours."""
        try:
            with Pulse(self._beat, self._journal.stop) as pulse, self._teller, self._gateway:
                ending = self._attempt(pulse)
                self._close(ending)
        finally:
            # What this process was lent; whoever drives on has tokens of its own.
            self._services.tokens.revoke(self._run.installation_id, self._run.repo_id)
        self._clean(ending)

    def _beat(self) -> bool:
        """Stay the run's owner, and tell its row what was spent: this process may be killed."""
        now, spent = self._services.clock(), self._spent_so_far()
        with writing(self._services.engine) as session:
            lives = runs.heartbeat(session, self._run.id, self._owner, LEASE_S, now)
            if spent != self._spent:
                fields = fields_of_spending(spent)
                runs.update(session, self._run.id, now, owner=self._owner, **fields)
        self._spent = spent
        return lives

    def _spent_so_far(self) -> Spending:
        if self._docked is None:
            return self._spent
        return together(spent_before(self._run), self._docked.spending())

    def _attempt(self, pulse: Pulse) -> Ending:
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return self._work()
        except LostRun:
            return self._cancelled_or_lost()
        except Exception as error:
            if pulse.stopped:
                return self._cancelled_or_lost()
            log.exception("run.failed", run=self._run.id)
            ending = ending_of_error(error, self._journal.state, self._run.repo)
            return with_own_ttl(ending, self._said.config)

    def _cancelled_or_lost(self) -> Ending:
        with reading(self._services.engine) as session:
            now = runs.get(session, self._run.id)
        if now is None or now.lease_owner != self._owner or now.cancel_requested_by is None:
            raise LostRun(self._run.id)
        detail = now.detail if now.away else cancelled_by(now.cancel_requested_by)
        return Ending(RunEvent.CANCEL, detail=detail)

    def _work(self) -> Ending:
        self._kept = read_kept(self._folder)
        earlier = self._judged_before()
        if earlier is not None:
            return self._publish(earlier)
        if self._run.undoes is not None:
            return self._undo(self._run.undoes)
        wrong = self._hear_rules()
        if wrong is not None:
            return wrong
        if self._kept is not None:
            return self._judge_again(self._kept)
        own = own_cap(self._services.settings, self._spent_before_usd)
        over = first_reached((own, *self._caps()))
        if over is not None:
            return Ending(RunEvent.FAIL, FailureKind.BUDGET, over.text)
        with Dock(self._dock_job(self._said.config), self._services.provider) as dock:
            self._docked = dock
            prepared = self._prepare()
            if isinstance(prepared, Ending):
                return prepared
            bundle = self._dock(dock, prepared)
        if isinstance(bundle, Ending):
            return bundle
        passed = self._inspect(bundle)
        return passed if isinstance(passed, Ending) else self._publish(passed)

    def _judge_again(self, kept: Kept) -> Ending:
        """Judge what an earlier run had made, with what people have let through since."""
        self._record.restore(kept.report)
        prepared = self._prepare()
        if isinstance(prepared, Ending):
            return prepared
        passed = self._inspect(self._folder / OUT_BUNDLE)
        return passed if isinstance(passed, Ending) else self._publish(passed)

    def _undo(self, run_id: str) -> Ending:
        """Take back what another run pushed; that needs neither a model nor a machine."""
        with reading(self._services.engine) as session:
            undone = runs.get(session, run_id)
        # A wrong config stands in no undo's way.
        self._hear_rules()
        self._record.signed_commits = self._said.config.signed_commits
        self._journal.enter(RunState.GATE)
        if undone is None:
            return cannot_undo("The run that pushed them is not known here any more.")
        taken = self._patiently(lambda: self._take_back(undone))
        if isinstance(taken, CannotUndo):
            return cannot_undo(taken.reason)
        self._record.base_sha = taken.head
        passed = self._judged(taken.passed)
        return passed if isinstance(passed, Ending) else self._publish(passed)

    def _take_back(self, undone: Run) -> Undone | CannotUndo:
        services, run = self._services, self._run
        signature = signature_of(services.settings, run)
        with lock_mirror(services.settings.state_dir, source_of(self._services, self._run)) as lock:
            branch = run.base_ref or ""
            return take_back(services.git, lock, branch, undone, self._folder, signature)

    # ---- the phases ----------------------------------------------------------------------

    def _hear_rules(self) -> Ending | None:
        """Learn what the repository says of its runs, before anything is started for this one."""
        heard = self._patiently(self._ask_for_rules)
        if isinstance(heard, ConfigError):
            return ending_of_config(heard)
        self._said = heard
        return None

    def _ask_for_rules(self) -> Rules | ConfigError:
        branch = default_branch_of(self._gateway)
        return rules_on_github(self._gateway, branch, operator_limits(self._services))

    def _prepare(self) -> Prepared | Ending:
        self._record.brief_sha256 = self._run.brief_sha256 or ""
        self._record.base_ref = self._run.base_ref or ""
        return note_prepared(self._record, self._patiently(self._fetch))

    def _fetch(self) -> Prepared | EmptyRepository | NoSuchBranch | ConfigError:
        run, settings = self._run, self._services.settings
        wanted = Wanted(
            rules=self._said,
            base_ref=run.base_ref or "",
            sha=run.base_sha,
            brief=run.brief_text or "",
            depth=settings.clone_depth,
        )
        with lock_mirror(settings.state_dir, source_of(self._services, self._run)) as lock:
            return prepare(self._services.git, lock, wanted, self._folder)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while GitHub is away: nothing has been lost yet, and it should stay so."""
        services = self._services
        longest_s = services.patience.github_s
        return until_github_answers(ask, self._journal.pause, longest_s, services.tokens.clock)

    def _dock(self, dock: Dock, prepared: Prepared) -> Path | Ending:
        cargo = cargo_of(prepared, self._run.brief_text or "")
        settings, repo_id = self._services.settings, self._run.repo_id
        return work_in(dock, cargo, self._journal, self._record, settings, repo_id)

    def _dock_job(self, config: RepoConfig) -> DockJob:
        settings = self._services.settings
        template = self._services.template(config.template)
        self._record.template_digest = template.digest
        return DockJob(
            run_id=self._run.id,
            model=choose_model(settings, template.path / "prices.json", self._run.model),
            template=template,
            limits=dock_limits(settings, config),
            folder=self._folder,
            audit=settings.state_dir / "audit.jsonl",
            egress=operator_egress(settings, template.path / "rootfs"),
            caps=self._caps(),
            spent_usd=self._spent_before_usd,
        )

    def _caps(self) -> tuple[Cap, ...]:
        services = self._services
        own = repository_cap(self._said.config, self._spent_before_usd)
        with reading(services.engine) as session:
            shared = shared_caps(session, services.settings, self._run, services.clock())
        return (*own, *shared)

    @property
    def _spent_before_usd(self) -> float:
        return spent_before(self._run).cost_usd or 0.0

    def _inspect(self, bundle: Path) -> Passed | Ending:
        withheld = ending_of_tests(self._record, self._said.config)
        if withheld is not None:
            return withheld
        self._journal.enter(RunState.GATE)
        settings = self._services.settings
        with lock_mirror(settings.state_dir, self._mirror_source()) as lock:
            judged = inspect(
                self._services.git,
                lock,
                bundle,
                self._record.base_sha,
                self._folder,
                self._rules(),
                signature_of(settings, self._run),
                canaries_of(settings),
            )
            if isinstance(judged, Passed) and self._said.config.suggest_reviewers:
                self._record.suggested = suggest_reviewers(
                    self._services.git, lock.path, judged, self._record.base_sha, self._run.asked_by
                )
        return self._judged(judged)

    def _rules(self) -> GateRules:
        run, allowances = self._run, self._kept.allowances if self._kept else ()
        asked = "\n".join((run.issue_title, run.instruction, run.brief_text or ""))
        return gate_rules(self._services.settings, self._said.config, allowances, asked)

    def _judged(self, judged: Passed | Refused | NothingChanged) -> Passed | Ending:
        noted = note_judged(self._record, judged)
        if isinstance(noted, Passed):
            report = self._record.report(Ending(RunEvent.PUBLISH))
            self._journal.note(
                head_sha=noted.head_sha,
                base_sha=self._record.base_sha,
                report=as_json(report),
                **self._paid(report),
            )
        return noted

    def _publish(self, passed: Passed) -> Ending:
        # The last moment at which a stop can still be obeyed.
        if not self._beat():
            raise LostRun(self._run.id)
        self._journal.enter(RunState.PUBLISH)
        return self._patiently(
            lambda: publish(
                self._services, self._run, self._gateway, self._journal, self._record, passed
            )
        )

    def _judged_before(self) -> Passed | None:
        """Return what an earlier attempt had judged and recorded, if it lies on this host."""
        git_dir = self._folder / QUARANTINE
        if self._run.head_sha is None or self._run.report is None or not git_dir.is_dir():
            return None
        report = from_json(self._run.report)
        self._record.restore(report)
        return Passed(git_dir, self._run.head_sha, report.commits, report.diffstat, "", ())

    # ---- the end -------------------------------------------------------------------------

    def _mirror_source(self) -> Source:
        """Return what names the mirror; judging fetches nothing, so it needs no token."""
        return Source(self._services.git_url(self._run.repo), self._run.repo_id)

    def _close(self, ending: Ending) -> None:
        self._journal.measure()
        report = self._record.report(ending)
        fields = fields_of(report) | self._paid(report) | self._answers(report)
        self._journal.close(ending.event, fields)
        self._teller.ended(report)
        self._journal.end_attempt(report.outcome)

    def _answers(self, report: RunReport) -> RunFields:
        """Return the answers to a review's comments: what was pushed lies here, and goes now."""
        made = self._folder / QUARANTINE
        git_dir = made if made.is_dir() else None
        return RunFields(remarks=with_answers(self._services.git, git_dir, self._run, report))

    def _paid(self, report: RunReport) -> RunFields:
        """Return what this run paid for: what was kept was paid for by the run that had it made."""
        kept = self._kept is not None
        return fields_of_spending(Spending(cost_usd=0.0) if kept else report.spending)

    def _clean(self, ending: Ending) -> None:
        """Remove what the run needed. A refused run's bundle stays for whoever looks into it."""
        (self._folder / IN_BUNDLE).unlink(missing_ok=True)
        if ending.event is not RunEvent.REFUSE:
            shutil.rmtree(self._folder / QUARANTINE, ignore_errors=True)
            (self._folder / OUT_BUNDLE).unlink(missing_ok=True)


def asked_of(run: Run, services: Services) -> Asked:
    web = services.settings.web_url
    return Asked(
        run_id=run.id,
        repo=run.repo,
        issue_number=run.issue_number,
        issue_title=run.issue_title,
        asked_by=run.asked_by,
        model=run.model or services.settings.model or "",
        instruction=run.instruction,
        run_url=f"{web}/runs/{run.id}" if web else None,
    )


def record_of(run: Run, services: Services) -> Record:
    """Return the record of a run that begins: what is known of it from its row."""
    record = Record(
        asked_of(run, services), undoes=run.undoes or "", spent_before=spent_before(run)
    )
    if run.target is TargetKind.PULL_REQUEST:
        record.continues = run.issue_number
    return record


def cannot_undo(reason: str) -> Ending:
    return Ending(RunEvent.NO_CHANGE, detail=reason, explanation=undo_impossible(reason))


def source_of(services: Services, run: Run) -> Source:
    """Return where the run's repository is, with a token that may only read it."""
    url = services.git_url(run.repo)
    token = services.tokens.contents_token(run.installation_id, run.repo_id)
    return Source(url, run.repo_id, HttpAuth(url, token))


def fields_of(report: RunReport) -> RunFields:
    """Return what the row keeps of a report, beside the report itself."""
    return RunFields(
        failure_kind=report.failure_kind,
        detail=report.detail,
        manifest_sha256=report.manifest_sha256 or None,
        template_digest=report.template_digest or None,
        tier=report.tier or None,
        **fields_of_spending(report.spending),
        refusals=sum(line.count for line in report.refusals),
        test_exit_code=report.test.exit_code if report.test else None,
        report=as_json(report),
    )
