"""What is known of a run while it is driven, and the report that comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.report import CommitSummary, GateFinding, RunReport, Spending, Suggestion, TestResult
from app.states import FailureKind, RunEvent, RunState
from workers.account import Account
from workers.expense import together

ENDING_STATES = {
    RunEvent.PUBLISH: RunState.PUBLISHED,
    RunEvent.NO_CHANGE: RunState.NO_CHANGES,
    RunEvent.REFUSE: RunState.REFUSED,
    RunEvent.FAIL: RunState.FAILED,
    RunEvent.TIME_OUT: RunState.TIMED_OUT,
    RunEvent.CANCEL: RunState.CANCELLED,
}


@dataclass(frozen=True)
class Ending:
    """How a run ends. `kind` is set exactly for `fail`; `detail` is one line for a person.

    `explanation` is the whole message, where the ordinary one for such an ending does not fit.
    """

    event: RunEvent
    kind: FailureKind | None = None
    detail: str = ""
    explanation: str = ""


@dataclass(frozen=True)
class Asked:
    """What was asked for, and by whom: the part of a report that is known from the start."""

    run_id: str
    repo: str
    issue_number: int
    issue_title: str
    asked_by: str
    model: str
    instruction: str = ""
    run_url: str | None = None


@dataclass
class Record:
    """Filled in phase by phase; whatever is missing at the end was not reached."""

    asked: Asked
    base_ref: str = ""
    base_sha: str = ""
    brief_sha256: str = ""
    template_digest: str = ""
    test_source: str = ""
    draft: bool | Literal["auto"] = True
    reviewers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    suggested: tuple[Suggestion, ...] = ()
    signed_commits: bool = False
    conventional: bool = False
    continues: int | None = None
    rebased: bool = False
    aside: bool = False
    undoes: str = ""
    test: TestResult | None = None
    test_before: TestResult | None = None
    setup: tuple[TestResult, ...] = ()
    lint: TestResult | None = None
    answer: str = ""
    log_tail: str = ""
    account: Account = field(default_factory=Account)
    spent_before: Spending = field(default_factory=Spending)
    commits: tuple[CommitSummary, ...] = ()
    diffstat: str = ""
    diff: str = ""
    findings: tuple[GateFinding, ...] = ()
    warnings: list[str] = field(default_factory=list)
    branch: str | None = None
    head_sha: str | None = None
    pull_number: int | None = None
    pull_url: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def restore(self, report: RunReport) -> None:
        """Take over what an earlier attempt found out before it was cut off."""
        self.base_ref, self.base_sha = report.base_ref, report.base_sha
        self.brief_sha256, self.template_digest = report.brief_sha256, report.template_digest
        self.test, self.test_source = report.test, report.test_source
        self.setup, self.lint = report.setup, report.lint
        self.draft, self.rebased, self.aside = report.draft, report.rebased, report.aside
        self.reviewers, self.labels = report.reviewers, report.labels
        self.suggested, self.signed_commits = report.suggested, report.signed_commits
        self.findings = report.findings
        self.test_before, self.conventional = report.test_before, report.conventional
        self.commits, self.diffstat = report.commits, report.diffstat
        self.head_sha, self.warnings = report.head_sha, list(report.warnings)
        self.seconds = dict(report.seconds_by_phase)
        # It has what all attempts had spent by then.
        self.spent_before = Spending()
        self.account = Account(
            spending=report.spending,
            refusals=report.refusals,
            refusal_count=sum(line.count for line in report.refusals),
            manifest_sha256=report.manifest_sha256,
            tier=report.tier,
            audit_head=report.audit_head,
            could_reach=report.could_reach,
        )

    def _is_draft(self) -> bool:
        """Failing tests are never shown as ready for review; by `auto`, only passing ones are."""
        if self.test is not None and not self.test.passed:
            return True
        return self.test is None if self.draft == "auto" else self.draft

    def report(self, ending: Ending) -> RunReport:
        """Return everything there is to say, as one value."""
        return RunReport(
            run_id=self.asked.run_id,
            outcome=ENDING_STATES[ending.event],
            failure_kind=ending.kind,
            detail=ending.detail,
            explanation=ending.explanation,
            repo=self.asked.repo,
            issue_number=self.asked.issue_number,
            issue_title=self.asked.issue_title,
            asked_by=self.asked.asked_by,
            instruction=self.asked.instruction,
            model=self.asked.model,
            base_ref=self.base_ref,
            base_sha=self.base_sha,
            answer=self.answer,
            log_tail=self.log_tail,
            draft=self._is_draft(),
            reviewers=self.reviewers,
            labels=self.labels,
            suggested=self.suggested,
            signed_commits=self.signed_commits,
            branch=self.branch,
            head_sha=self.head_sha,
            commits=self.commits,
            diffstat=self.diffstat,
            test=self.test,
            test_before=self.test_before,
            conventional=self.conventional,
            continues=self.continues,
            rebased=self.rebased,
            aside=self.aside,
            undoes=self.undoes,
            test_source=self.test_source,
            setup=self.setup,
            lint=self.lint,
            could_reach=self.account.could_reach,
            spending=together(self.spent_before, self.account.spending),
            tier=self.account.tier,
            template_digest=self.template_digest,
            brief_sha256=self.brief_sha256,
            manifest_sha256=self.account.manifest_sha256,
            audit_head=self.account.audit_head,
            refusals=self.account.refusals,
            findings=self.findings,
            warnings=tuple(self.warnings),
            seconds_by_phase=dict(self.seconds),
            pull_request_url=self.pull_url,
            pull_request_number=self.pull_number,
            run_url=self.asked.run_url,
        )
