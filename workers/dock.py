"""The dock: a bundle goes in, a bundle comes out, and in between one machine does the work.

Knows nothing of GitHub and nothing of the store: `workers.run` and `drydock try` both come here.
The phases are told to a `Listener` as they begin. What cannot be helped here is raised
(`MachineLost`, `GuestMisbehaved`, `ProviderFailed`, `GuestRepoFailed`); how the work ended is a
value.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.report import RefusalLine, Spending, TestResult
from app.states import RunState
from egress.audit import AuditLog
from egress.broker import Broker
from egress.ledger import ModelCall
from egress.meter import Meter, Usage
from egress.policy import Manifest, Phase, Refusal, manifest_hash
from sandbox.provider import (
    ExecResult,
    MachineSpec,
    OutputStream,
    Provider,
    Sandbox,
    Template,
)
from workers import guest_repo
from workers.aider import (
    ANALYTICS_FILE,
    LLM_FILE,
    AiderEvidence,
    AiderJob,
    AiderOutcome,
    ModelCallFact,
    build_argv,
    build_env,
    build_files,
    parse_outcome,
)
from workers.checkout import Bundle
from workers.git import printable
from workers.model import ModelChoice

TAIL_CHARS = 4_000
LOG_CAP = 64 * 1024 * 1024


@dataclass(frozen=True)
class Commands:
    """Command lines for `sh -c` in the machine, from the base branch's config or the operator."""

    setup: tuple[str, ...] = ()
    test: str | None = None
    lint: str | None = None


@dataclass(frozen=True)
class DockLimits:
    """Ceilings of one run: seconds, MiB."""

    memory_mib: int
    cpus: int
    disk_mib: int
    ttl_s: float
    setup_s: float
    agent_s: float
    test_s: float


@dataclass(frozen=True)
class DockJob:
    """Everything that one run needs. `folder` is the run's own on the host; `audit` its log."""

    run_id: str
    bundle: Bundle
    brief: str
    files: tuple[str, ...]
    commands: Commands
    model: ModelChoice
    template: Template
    limits: DockLimits
    folder: Path
    audit: Path


@dataclass(frozen=True)
class SetupFailed:
    """A setup command ended badly; Aider was not started."""

    test: TestResult


@dataclass(frozen=True)
class Worked:
    """Aider ran to an end. `bundle` is None when there is no new commit.

    `leftovers` are files that it changed without committing; they are not in the bundle.
    """

    outcome: AiderOutcome
    test: TestResult | None
    bundle: Path | None
    leftovers: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Account:
    """What a run used and tried, whether or not it came to an end."""

    spending: Spending = field(default_factory=Spending)
    refusals: tuple[RefusalLine, ...] = ()
    refusal_count: int = 0
    manifest_sha256: str = ""
    tier: str = ""


class Listener(Protocol):
    """Hears what a run does. May raise to stop it."""

    def enter(self, phase: RunState) -> None:
        """A phase begins."""

    def opened(self, sandbox: Sandbox) -> None:
        """There is a machine now; it may be killed from another thread to stop the run."""

    def say(self, kind: str, text: str) -> None:
        """A line for the run's log; untrusted text, cleaned for display."""


class Dock:
    """One run's machine and broker: `with Dock(job, provider) as dock: dock.work(listener)`.

    `account()` may be asked at any time, also after an error.
    """

    def __init__(self, job: DockJob, provider: Provider) -> None:
        self._job = job
        self._provider = provider
        self._manifest = Manifest(run_id=job.run_id, grants=(job.model.route.grant,))
        self._meter = Meter(job.model.prices, job.model.budget_usd)
        self._audit = AuditLog(job.audit)
        self._broker = Broker(
            self._manifest,
            credentials=job.model.credentials,
            meter=self._meter,
            audit=self._audit,
            upstream_ca=job.model.upstream_ca,
            phase=Phase.SETUP,
        )
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Dock:
        return self

    def __exit__(self, *_: object) -> None:
        """Destroy the machine, seal the audit; what was used stays known."""
        try:
            if self._sandbox is not None:
                self._sandbox.kill()
        finally:
            self._broker.close()
            self._audit.close()

    def account(self) -> Account:
        """Return what was used and refused so far."""
        return Account(
            spending=spending_of(self._meter.usage()),
            refusals=fold_refusals(self._broker.refusals()),
            refusal_count=self._broker.refusal_count,
            manifest_sha256=manifest_hash(self._manifest),
            tier=self._sandbox.tier if self._sandbox is not None else "",
        )

    def work(self, listener: Listener) -> Worked | SetupFailed:
        """Do the whole job in one machine and return how it ended."""
        listener.enter(RunState.MACHINE)
        sandbox = self._open(listener)
        listener.enter(RunState.SETUP)
        failed = self._set_up(sandbox, listener)
        if failed is not None:
            return failed
        hidden = guest_repo.prepare_for_agent(sandbox)
        listener.enter(RunState.AGENT)
        outcome = self._run_aider(sandbox, listener)
        if not outcome.commits:
            return Worked(outcome, None, None, outcome.dirty, hidden)
        listener.enter(RunState.VERIFY)
        guest_repo.settle_after_agent(sandbox)
        return Worked(outcome, self._verify(sandbox), self._take(sandbox), outcome.dirty, hidden)

    def _open(self, listener: Listener) -> Sandbox:
        limits = self._job.limits
        spec = MachineSpec(
            run_id=self._job.run_id,
            template=self._job.template,
            memory_mib=limits.memory_mib,
            cpus=limits.cpus,
            disk_mib=limits.disk_mib,
            ttl_s=limits.ttl_s,
        )
        self._sandbox = sandbox = self._provider.create(spec, self._broker.handle)
        listener.opened(sandbox)
        with self._job.bundle.path.open("rb") as data:
            guest_repo.clone(sandbox, self._job.bundle, data)
        return sandbox

    def _set_up(self, sandbox: Sandbox, listener: Listener) -> SetupFailed | None:
        for command in self._job.commands.setup:
            result = self._shell(sandbox, command, self._job.limits.setup_s)
            listener.say("setup", f"{command}: exit status {result.exit_code}")
            if not result.passed:
                return SetupFailed(result)
        return None

    def _run_aider(self, sandbox: Sandbox, listener: Listener) -> AiderOutcome:
        job = self._aider_job()
        for path, data in build_files(job, self._job.brief).items():
            sandbox.write_file(f"{guest_repo.REPO_DIR}/{path}", data)
        self._broker.phase = Phase.AGENT
        done = sandbox.exec(
            build_argv(job),
            env={**template_environment(self._job.template), **build_env(job)},
            cwd=guest_repo.REPO_DIR,
            timeout_s=self._job.limits.agent_s,
            on_output=lambda stream, data: _tell(listener, stream, data),
        )
        self._broker.phase = Phase.VERIFY
        return parse_outcome(self._evidence(sandbox, done))

    def _aider_job(self) -> AiderJob:
        model = self._job.model
        return AiderJob(
            model=model.name,
            edit_format=model.edit_format,
            files=self._job.files,
            test_command=self._job.commands.test,
            lint_command=self._job.commands.lint,
            route_env=model.route.aider_env,
            route_args=model.route.aider_args,
            metadata=model.metadata,
        )

    def _evidence(self, sandbox: Sandbox, done: ExecResult) -> AiderEvidence:
        facts = guest_repo.read_facts(sandbox, self._job.bundle.base_sha)
        return AiderEvidence(
            output=done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace"),
            analytics=_read_log(sandbox, ANALYTICS_FILE),
            git=facts,
            calls=call_facts(self._broker.observations()),
            exit_code=done.exit_code,
            timed_out=done.timed_out,
            llm_history=_read_log(sandbox, LLM_FILE),
        )

    def _verify(self, sandbox: Sandbox) -> TestResult | None:
        command = self._job.commands.test
        if command is None:
            return None
        return self._shell(sandbox, command, self._job.limits.test_s)

    def _take(self, sandbox: Sandbox) -> Path | None:
        path = self._job.folder / "out.bundle"
        with path.open("wb") as into:
            size = guest_repo.take_bundle(sandbox, self._job.bundle.base_sha, into)
        return path if size else None

    def _shell(self, sandbox: Sandbox, command: str, timeout_s: float) -> TestResult:
        started = time.monotonic()
        done = sandbox.exec(
            ["sh", "-c", command],
            env=template_environment(self._job.template),
            cwd=guest_repo.REPO_DIR,
            timeout_s=timeout_s,
        )
        return TestResult(
            command=command,
            exit_code=done.exit_code,
            seconds=time.monotonic() - started,
            tail=tail_of(done),
            timed_out=done.timed_out,
        )


def template_environment(template: Template) -> dict[str, str]:
    """Return what the template says a command's environment needs (where its CA bundle is)."""
    facts = json.loads((template.path / "template.json").read_text(encoding="utf-8"))
    environment: Mapping[str, str] = facts.get("environment", {})
    return dict(environment)


def tail_of(done: ExecResult) -> str:
    """Return the end of a command's output, cleaned for display line by line."""
    data = done.stdout + (b"\n" + done.stderr if done.stderr else b"")
    return _clean_lines(data[-TAIL_CHARS:]).strip()


def _clean_lines(data: bytes) -> str:
    """Return output fit to be shown: its lines stay, control characters within them do not."""
    lines = data.decode("utf-8", "replace").split("\n")
    return "\n".join(printable(line.rstrip("\r"), TAIL_CHARS) for line in lines)


def spending_of(usage: Usage) -> Spending:
    return Spending(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        calls=usage.calls,
        estimated=usage.estimated,
    )


def fold_refusals(refusals: tuple[Refusal, ...]) -> tuple[RefusalLine, ...]:
    """Count equal refusals once each, in the order of their first."""
    counts: dict[tuple[str, str], int] = {}
    for refusal in refusals:
        key = (refusal.target, refusal.reason)
        counts[key] = counts.get(key, 0) + 1
    return tuple(RefusalLine(target, reason, n) for (target, reason), n in counts.items())


def call_facts(calls: tuple[ModelCall, ...]) -> tuple[ModelCallFact, ...]:
    return tuple(ModelCallFact(status=call.status, error=_error_words(call)) for call in calls)


def _error_words(call: ModelCall) -> str | None:
    """Return our word for what went wrong with a call, and the vendor's own sentence."""
    return f"{call.error}: {call.detail}" if call.error is not None else None


def _read_log(sandbox: Sandbox, path: str) -> str:
    try:
        data = sandbox.read_file(f"{guest_repo.REPO_DIR}/{path}", max_bytes=LOG_CAP)
    except FileNotFoundError:
        return ""
    return data.decode("utf-8", "replace")


def _tell(listener: Listener, stream: OutputStream, data: bytes) -> None:
    listener.say(f"aider.{stream}", _clean_lines(data))
