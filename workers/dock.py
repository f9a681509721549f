"""The dock: a bundle goes in, a bundle comes out, and in between one machine does the work.

Knows nothing of GitHub and nothing of the store: `workers.run` and `drydock try` both come here.
The phases are told to a `Listener` as they begin. What cannot be helped here is raised
(`MachineLost`, `GuestMisbehaved`, `ProviderFailed`, `GuestRepoFailed`); how the work ended is a
value.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from app.pinning import unpinned
from app.repo_config import EgressWish
from app.report import Spending, TestResult
from app.states import RunState
from egress.audit import AuditLog
from egress.broker import Broker
from egress.meter import Cap, Meter
from egress.policy import Phase, manifest_hash
from sandbox.provider import (
    DEFAULT_OUTPUT_CAP,
    ExecResult,
    MachineSpec,
    OutputStream,
    Provider,
    Sandbox,
    Template,
)
from workers import guest_repo, junit
from workers.account import Account, call_facts, could_reach, fold_refusals, spending_of
from workers.aider import (
    ANALYTICS_FILE,
    LLM_FILE,
    AiderJob,
    build_argv,
    build_env,
    build_files,
)
from workers.checkout import Bundle
from workers.grants import Egress, narrow
from workers.manifest import Bounds, make_manifest, run_cap
from workers.model import ModelChoice
from workers.opening import Opening
from workers.outcome import AiderEvidence, AiderOutcome, parse_outcome
from workers.rehearsal import build_warm
from workers.run_folder import OUT_BUNDLE
from workers.shell import Shell, clean_lines, command_environment, template_needs

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
    """What a run's machine is made from; known as soon as the run is claimed.

    `folder` is the run's own on the host; `audit` its log. `spent_usd` went to earlier attempts.
    """

    run_id: str
    model: ModelChoice
    template: Template
    limits: DockLimits
    folder: Path
    audit: Path
    egress: Egress = field(default_factory=Egress)
    caps: tuple[Cap, ...] = ()
    spent_usd: float = 0.0


@dataclass(frozen=True)
class Cargo:
    """What goes into the machine; known after the checkout.

    `test_base` asks for the test command to be run on the base as well, before Aider starts.
    """

    bundle: Bundle
    brief: str
    files: tuple[str, ...]
    commands: Commands
    egress: EgressWish | None = None
    test_base: bool = False
    conventions: str = ""


@dataclass(frozen=True)
class SetupFailed:
    """A setup command ended badly, or was `refused` before it ran; Aider was not started."""

    test: TestResult
    refused: str = ""


@dataclass(frozen=True)
class Worked:
    """Aider ran to an end. `bundle` is None when there is no new commit.

    `leftovers` are files that it changed without committing; they are not in the bundle. `setup`
    holds the set-up commands as they ended, `lint` the lint command after the change.
    """

    outcome: AiderOutcome
    test: TestResult | None
    bundle: Path | None
    leftovers: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    test_before: TestResult | None = None
    setup: tuple[TestResult, ...] = ()
    lint: TestResult | None = None


class Listener(Protocol):
    """Hears what a run does. May raise to stop it."""

    def enter(self, phase: RunState) -> None:
        """A phase begins."""

    def opened(self, sandbox: Sandbox) -> None:
        """There is a machine now; it may be killed from another thread to stop the run."""

    def say(self, kind: str, text: str) -> None:
        """A line for the run's log; untrusted text, cleaned for display."""


class _ModelIsOver(Exception):
    """Raised into Aider's `exec`, which ends it: the model has said its last word."""


class _Heard:
    """Takes Aider's output, and ends Aider when the model's error is final.

    Aider would go on asking for a minute, each time with the same answer. It says so whenever it
    was refused, so its own output is the moment to look.
    """

    def __init__(self, listener: Listener, broker: Broker) -> None:
        self._listener = listener
        self._broker = broker
        self._kept: dict[OutputStream, bytearray] = {each: bytearray() for each in OutputStream}
        self._begun = time.monotonic()
        self.stopped = False

    def __call__(self, stream: OutputStream, data: bytes) -> None:
        room = DEFAULT_OUTPUT_CAP - len(self._kept[stream])
        self._kept[stream] += data[:room]
        _tell(self._listener, stream, data)
        if self._broker.final_error is not None:
            self.stopped = True
            raise _ModelIsOver

    def result(self) -> ExecResult:
        """Return what the ended command had said."""
        return ExecResult(
            exit_code=None,
            stdout=bytes(self._kept[OutputStream.STDOUT]),
            stderr=bytes(self._kept[OutputStream.STDERR]),
            seconds=time.monotonic() - self._begun,
        )


class Dock:
    """One run's machine and broker: `with Dock(job, provider) as dock: dock.work(cargo, listener)`.

    The machine is started on entering, so that it is made, and its Aider wakes up, while the
    repository is fetched. `account()` may be asked at any time, also after an error.
    """

    def __init__(self, job: DockJob, provider: Provider) -> None:
        self._job = job
        self._provider = provider
        self._egress = job.egress
        caps = (replace(run_cap(job.model), elsewhere_usd=job.spent_usd), *job.caps)
        self._bounds = Bounds(
            template_digest=job.template.digest,
            tier=provider.name,
            ttl_s=job.limits.ttl_s,
            caps=caps,
        )
        manifest = make_manifest(job.run_id, job.model, job.egress, self._bounds)
        self._meter = Meter(job.model.prices, caps=caps)
        self._audit = AuditLog(job.audit)
        self._broker = Broker(
            manifest,
            credentials=job.model.credentials,
            meter=self._meter,
            audit=self._audit,
            upstream_ca=job.model.upstream_ca,
            phase=Phase.SETUP,
        )
        self._opening: Opening | None = None
        self._sandbox: Sandbox | None = None

    def __enter__(self) -> Dock:
        job = self._job
        spec = machine_spec(job.run_id, job.model, job.template, job.limits, job.egress)
        self._opening = Opening(lambda: self._provider.create(spec, self._broker.handle))
        return self

    def __exit__(self, *_: object) -> None:
        """Destroy the machine, seal the audit; what was used stays known."""
        try:
            if self._opening is not None:
                self._opening.close()
        finally:
            self._broker.close()
            self._audit.close()

    def account(self) -> Account:
        """Return what was used and refused so far."""
        return Account(
            spending=self.spending(),
            refusals=fold_refusals(self._broker.refusals()),
            refusal_count=self._broker.refusal_count,
            manifest_sha256=manifest_hash(self._broker.manifest),
            tier=self._sandbox.tier if self._sandbox is not None else "",
            audit_head=f"{self._audit.head.seq}:{self._audit.head.hash}",
            could_reach=could_reach(self._broker.manifest),
        )

    def spending(self) -> Spending:
        """Return what this attempt's model calls used so far; from any thread."""
        return spending_of(self._meter.usage())

    def work(self, cargo: Cargo, listener: Listener) -> Worked | SetupFailed:
        """Do the whole job in the machine and return how it ended. Only within the `with` block.

        The machine phase is what is left of its start after the checkout, and the clone.
        """
        listener.enter(RunState.MACHINE)
        sandbox = self._open(cargo.bundle, listener)
        listener.enter(RunState.SETUP)
        refused = self._narrow(cargo.egress)
        if refused is not None:
            return refused
        shell = Shell(sandbox, self._job.template, self._egress)
        setup = self._set_up(shell, cargo.commands.setup, listener)
        if isinstance(setup, SetupFailed):
            return setup
        before = self._test_base(shell, cargo)
        hidden = guest_repo.prepare_for_agent(sandbox)
        listener.enter(RunState.AGENT)
        outcome = self._run_aider(sandbox, cargo, listener)
        worked = Worked(outcome, None, None, outcome.dirty, hidden, before, setup)
        if not outcome.commits:
            return worked
        listener.enter(RunState.VERIFY)
        guest_repo.settle_after_agent(sandbox)
        return self._verify(shell, cargo, worked)

    def _open(self, bundle: Bundle, listener: Listener) -> Sandbox:
        if self._opening is None:
            raise RuntimeError("a dock works within its `with` block")
        self._sandbox = sandbox = self._opening.wait()
        listener.opened(sandbox)
        with bundle.path.open("rb") as data:
            guest_repo.clone(sandbox, bundle, data)
        return sandbox

    def _narrow(self, wish: EgressWish | None) -> SetupFailed | None:
        """Close what the repository does not need, before anything of it runs."""
        narrowed = narrow(self._egress, wish)
        if isinstance(narrowed, str):
            return _refused_setup("", narrowed)
        self._egress = narrowed
        job = self._job
        self._broker.narrow(make_manifest(job.run_id, job.model, narrowed, self._bounds))
        return None

    def _set_up(
        self, shell: Shell, commands: tuple[str, ...], listener: Listener
    ) -> tuple[TestResult, ...] | SetupFailed:
        done: list[TestResult] = []
        for command in commands:
            if self._egress.pinned_only and (problem := unpinned(command)) is not None:
                return _refused_setup(command, problem)
            result = shell.run(command, self._job.limits.setup_s, Phase.SETUP)
            listener.say("setup", f"{command}: exit status {result.exit_code}")
            if not result.passed:
                return SetupFailed(result)
            # What it printed is of interest only if it fails.
            done.append(replace(result, tail=""))
        return tuple(done)

    def _run_aider(self, sandbox: Sandbox, cargo: Cargo, listener: Listener) -> AiderOutcome:
        job = aider_job(self._job.model, cargo.files, cargo.commands, cargo.conventions)
        for path, data in build_files(job, cargo.brief).items():
            sandbox.write_file(f"{guest_repo.REPO_DIR}/{path}", data)
        self._broker.phase = Phase.AGENT
        heard = _Heard(listener, self._broker)
        try:
            done = sandbox.exec(
                build_argv(job),
                env={**self._environment(), **build_env(job)},
                cwd=guest_repo.REPO_DIR,
                timeout_s=self._job.limits.agent_s,
                on_output=heard,
            )
        except _ModelIsOver:
            done = heard.result()
        self._broker.phase = Phase.VERIFY
        evidence = self._evidence(sandbox, cargo.bundle.base_sha, done)
        return parse_outcome(replace(evidence, stopped=heard.stopped))

    def _environment(self) -> dict[str, str]:
        return command_environment(self._job.template, self._egress, Phase.AGENT)

    def _evidence(self, sandbox: Sandbox, base_sha: str, done: ExecResult) -> AiderEvidence:
        facts = guest_repo.read_facts(sandbox, base_sha)
        return AiderEvidence(
            output=done.stdout.decode("utf-8", "replace") + done.stderr.decode("utf-8", "replace"),
            analytics=_read_log(sandbox, ANALYTICS_FILE),
            git=facts,
            calls=call_facts(self._broker.observations()),
            exit_code=done.exit_code,
            timed_out=done.timed_out,
            llm_history=_read_log(sandbox, LLM_FILE),
        )

    def _verify(self, shell: Shell, cargo: Cargo, worked: Worked) -> Worked:
        """Check what was made: the tests first, since lint may leave files behind."""
        test, lint = cargo.commands.test, cargo.commands.lint
        return replace(
            worked,
            test=self._test(shell, test) if test is not None else None,
            lint=self._lint(shell, lint) if lint is not None else None,
            bundle=self._take(shell.sandbox, cargo.bundle.base_sha),
        )

    def _test_base(self, shell: Shell, cargo: Cargo) -> TestResult | None:
        """Run the tests before anything of the model's was here: the result may be kept."""
        command = cargo.commands.test
        if command is None or not cargo.test_base:
            return None
        guest_repo.begin_trial(shell.sandbox)
        self._broker.phase = Phase.VERIFY
        try:
            return self._test(shell, command)
        finally:
            self._broker.phase = Phase.SETUP
            guest_repo.end_trial(shell.sandbox)

    def _test(self, shell: Shell, command: str) -> TestResult:
        argv = junit.argv(command)
        result = shell.run(command, self._job.limits.test_s, Phase.VERIFY, argv)
        if argv is None:
            return result
        return replace(result, tally=junit.read_tally(shell.sandbox))

    def _lint(self, shell: Shell, command: str) -> TestResult:
        """Run it as Aider does, on the commits alone: without names of files."""
        return shell.run(command, self._job.limits.test_s, Phase.VERIFY)

    def _take(self, sandbox: Sandbox, base_sha: str) -> Path | None:
        path = self._job.folder / OUT_BUNDLE
        with path.open("wb") as into:
            size = guest_repo.take_bundle(sandbox, base_sha, into)
        return path if size else None


def machine_spec(
    run_id: str, model: ModelChoice, template: Template, limits: DockLimits, egress: Egress
) -> MachineSpec:
    """Return the machine that a run of this model needs, with an Aider that wakes up in it.

    It has what the operator gives each machine, or more where its template needs more.
    """
    needs = template_needs(template)
    return MachineSpec(
        run_id=run_id,
        template=template,
        memory_mib=max(limits.memory_mib, needs.get("memory_mib", 0)),
        cpus=max(limits.cpus, needs.get("cpus", 0)),
        disk_mib=max(limits.disk_mib, needs.get("disk_mib", 0)),
        ttl_s=limits.ttl_s,
        warm=build_warm(aider_job(model), command_environment(template, egress, Phase.AGENT)),
    )


def aider_job(
    model: ModelChoice,
    files: tuple[str, ...] = (),
    commands: Commands | None = None,
    conventions: str = "",
) -> AiderJob:
    commands = commands or Commands()
    return AiderJob(
        model=model.route.aider_model,
        edit_format=model.edit_format,
        files=files,
        test_command=commands.test,
        lint_command=commands.lint,
        route_env=model.route.aider_env,
        route_args=model.route.aider_args,
        metadata=model.metadata,
        conventions=conventions,
    )


def _refused_setup(command: str, why: str) -> SetupFailed:
    return SetupFailed(TestResult(command=command, exit_code=None, seconds=0.0, tail=why), why)


def _read_log(sandbox: Sandbox, path: str) -> str:
    try:
        data = sandbox.read_file(f"{guest_repo.REPO_DIR}/{path}", max_bytes=LOG_CAP)
    except FileNotFoundError:
        return ""
    return data.decode("utf-8", "replace")


def _tell(listener: Listener, stream: OutputStream, data: bytes) -> None:
    listener.say(f"aider.{stream}", clean_lines(data))
