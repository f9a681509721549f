"""What one run did, as values: all that a pull request, a comment or a terminal needs to tell it.

`app.messages` renders these as Markdown and `cli` for a terminal; nothing else is consulted.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.states import FailureKind, RunState


@dataclass(frozen=True)
class CommitSummary:
    """One commit as Drydock re-created it. `subject` is the model's words and stays untrusted."""

    sha: str
    subject: str
    files: tuple[str, ...] = ()
    insertions: int = 0
    deletions: int = 0


@dataclass(frozen=True)
class TestTally:
    """How many tests did what, by the runner's own report; `failing` names some of those that
    failed, as the runner does, sorted. Untrusted: the repository's code can write such a report.
    """

    __test__ = False

    passed: int
    failed: int
    skipped: int = 0
    failing: tuple[str, ...] = ()


@dataclass(frozen=True)
class TestResult:
    """One run of a command (the tests, lint, set-up) by Drydock itself, in a fresh process.

    `exit_code` is None when a signal or the timeout ended it; `tail` is the end of its output.
    `tally` is there where the runner can count for us.
    """

    # pytest would otherwise try to collect this class.
    __test__ = False

    command: str
    exit_code: int | None
    seconds: float
    tail: str = ""
    timed_out: bool = False
    tally: TestTally | None = None

    @property
    def passed(self) -> bool:
        """True only for exit status 0; a timeout or a signal is never a pass."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True)
class Spending:
    """What the model cost, as the broker metered it.

    `cost_usd` is None when no price is known; `estimated` says that some answer came without the
    vendor's own token count.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    calls: int = 0
    estimated: bool = False


@dataclass(frozen=True)
class RefusalLine:
    """What egress refused, `count` times, for one reason. `target` is the guest's word."""

    target: str
    reason: str
    count: int = 1


@dataclass(frozen=True)
class GateFinding:
    """One thing that the gate saw: the file, the rule's name, and the rule in words.

    `level` is `refuse` or `warn`. `allowable` says that a person may let it through for one run.
    """

    path: str
    rule: str
    reason: str
    level: str = "refuse"
    allowable: bool = False


@dataclass(frozen=True)
class Suggestion:
    """Somebody, or a team as `org/team`, who might review, and why; nobody is asked by this."""

    name: str
    why: str


@dataclass(frozen=True)
class RunReport:
    """Everything there is to say about a run that ended.

    `outcome` is a state in `app.states.ENDED`; `failure_kind` is set exactly for `failed`.
    `detail` is one line for a person: why it failed, who cancelled, which limit was hit.
    `answer` is the model's prose when it changed nothing. `log_tail` is the end of the output of
    whatever failed. `explanation` is Drydock's own Markdown, from `app.messages`, for an ending
    that the general words do not fit (a wrong config file, an empty repository). `draft` is how
    the pull request is to be opened, `reviewers` and `labels` what it is given then; `suggested`
    are only named. `test_source` says where the test command came from, `test_before` is the same
    command on the base; `setup` and `lint` are the repository's other commands. `could_reach` names
    what egress would have let through.
    `seconds_by_phase` is in seconds, keyed by `RunState` value, in the order in which the phases
    ran. `signed_commits` says that GitHub is to make the commits, `conventional` that the base's
    history has conventional ones (https://www.conventionalcommits.org). `audit_head` is the last
    record of egress's audit log that the run saw, as `SEQ:HASH`.

    `continues` is the pull request that the run added commits to, None where it opened one. If its
    branch moved on meanwhile, the commits were `rebased` onto the new head after the tests had run,
    or, where that is not clean, lie `aside` on `branch`. `undoes` is the run whose push was
    reverted, "" for none.
    """

    run_id: str
    outcome: RunState
    repo: str
    issue_number: int
    issue_title: str
    asked_by: str
    model: str
    base_ref: str
    base_sha: str
    failure_kind: FailureKind | None = None
    detail: str = ""
    answer: str = ""
    log_tail: str = ""
    explanation: str = ""
    instruction: str = ""
    branch: str | None = None
    head_sha: str | None = None
    commits: tuple[CommitSummary, ...] = ()
    diffstat: str = ""
    draft: bool = True
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
    test_source: str = ""
    setup: tuple[TestResult, ...] = ()
    lint: TestResult | None = None
    could_reach: tuple[str, ...] = ()
    spending: Spending = field(default_factory=Spending)
    tier: str = ""
    template_digest: str = ""
    brief_sha256: str = ""
    manifest_sha256: str = ""
    audit_head: str = ""
    refusals: tuple[RefusalLine, ...] = ()
    findings: tuple[GateFinding, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds_by_phase: Mapping[str, float] = field(default_factory=dict)
    pull_request_url: str | None = None
    pull_request_number: int | None = None
    run_url: str | None = None

    @property
    def seconds(self) -> float:
        """All phases together, in seconds."""
        return sum(self.seconds_by_phase.values())

    @property
    def files(self) -> tuple[str, ...]:
        """Every file that any commit touched, once, sorted."""
        return tuple(sorted({path for commit in self.commits for path in commit.files}))
