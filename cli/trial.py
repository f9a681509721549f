"""`drydock try`: the same run without GitHub, for a local repository and a text file."""

from __future__ import annotations

import json
import secrets
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from app.branches import names_to_try, slug_branch
from app.brief import BriefInput, freeze_brief
from app.settings import Settings, SettingsError, system_ca_bundle
from app.states import FailureKind, RunEvent, RunState
from cli.errors import fail
from cli.options import config_option, settings_or_fail
from cli.phases import PhaseLines
from cli.present import print_report
from cli.trial_issue import read_issue
from cli.trial_repo import LocalRepository, look_at
from sandbox.provider import Provider, ProviderFailed, Sandbox, Template
from sandbox.providers import AUTO, make_provider
from sandbox.template import bake
from sandbox.template.definition import DefinitionError
from sandbox.template.host import HostError
from workers.checkout import CheckoutFailed, Source, lock_mirror
from workers.dock import Dock, DockJob
from workers.endings import ending_of_error
from workers.git import Git, GitFailed
from workers.grants import operator_egress
from workers.inspection import Passed, inspect
from workers.model import choose_model, reach_model
from workers.policies import author_of, canaries_of, dock_limits, gate_rules
from workers.prepare import Prepared, Wanted, prepare
from workers.push import PushRejected
from workers.record import Asked, Ending, Record
from workers.recreate import Signature
from workers.reports import as_json
from workers.send import by_git, send_new
from workers.steps import cargo_of, note_judged, note_prepared, work_in

# Of these the person at the terminal is told as they are; no run came about.
_NO_RUN = (
    SettingsError,
    GitFailed,
    CheckoutFailed,
    ProviderFailed,
    bake.BakeFailed,
    DefinitionError,
    HostError,
)


@click.command("try")
@click.argument("repository", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument(
    "issue", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
@config_option
@click.option("--base", help="Branch to start from; the one that is checked out if not set.")
@click.option("--json", "as_json_", is_flag=True, help="Print the report as JSON.")
@click.pass_context
def trial(
    ctx: click.Context,
    repository: Path,
    issue: Path,
    config: Path | None,
    base: str | None,
    as_json_: bool,
) -> None:
    """Work on ISSUE (a Markdown file, title first; - is standard input) in a copy of REPOSITORY.

    Leaves a branch aider/… in REPOSITORY and checks nothing out. Needs DRYDOCK_MODEL and the key
    of its vendor; uncommitted changes in REPOSITORY are not seen. Exit status 1 when no branch was
    left.
    """
    settings = _settings(config)
    git = _make_git(settings)
    try:
        found = look_at(git, repository, base)
    except GitFailed as error:
        raise fail(str(error)) from error
    job = Trial(settings, git, found, *read_issue(issue), Console(stderr=True))
    record, ending = job.run()
    report = record.report(ending)
    if as_json_:
        click.echo(json.dumps(as_json(report), indent=2))
    else:
        print_report(Console(), report, record.diff)
        _say_next(record)
    ctx.exit(0 if ending.event is RunEvent.PUBLISH else 1)


def _say_next(record: Record) -> None:
    if record.branch is not None:
        click.echo(f"Look at it: git diff {record.base_ref}...{record.branch}")


def _settings(config: Path | None) -> Settings:
    settings = settings_or_fail(config)
    try:
        reach_model(settings)
    except SettingsError as error:
        raise fail(str(error)) from error
    return settings


def _make_git(settings: Settings) -> Git:
    return Git(home=settings.state_dir / "try" / "git-home", ca_bundle=system_ca_bundle(settings))


@dataclass(frozen=True)
class _Lines:
    """The `Listener` of a run on a terminal."""

    phases: PhaseLines

    def enter(self, phase: RunState) -> None:
        self.phases.enter(phase)

    def opened(self, sandbox: Sandbox) -> None:
        """Nothing is kept of the machine here: it ends with this process."""

    def say(self, kind: str, text: str) -> None:
        if not kind.startswith("aider."):
            self.phases.note(text)


class Trial:
    """One such run. What can be judged without a template or a machine is judged first."""

    def __init__(
        self,
        settings: Settings,
        git: Git,
        repository: LocalRepository,
        title: str,
        body: str,
        console: Console,
    ) -> None:
        self._settings = settings
        self._git = git
        self._repository = repository
        self._title, self._body = title, body
        self._source = Source(repository.url, repository.number)
        self._phases = PhaseLines(console)
        # Machines of a worker on this host are not ours to see, nor ours its to reap.
        self._state = settings.state_dir / "try"
        run_id = datetime.now(UTC).strftime("try-%Y%m%d-%H%M%S-") + secrets.token_hex(2)
        asked = Asked(run_id, repository.name, 0, title, "you", settings.model or "")
        self._record = Record(asked, base_ref=repository.base)

    def run(self) -> tuple[Record, Ending]:
        """Do it; returns what is known and how it ended. Ctrl-C ends the machine and goes on up."""
        for note in self._repository.notes:
            self._phases.note(note)
        with tempfile.TemporaryDirectory(prefix="drydock-try-") as folder:
            try:
                ending = self._work(Path(folder))
            except _NO_RUN as error:
                raise fail(str(error)) from error
            except Exception as error:  # noqa: BLE001 -- every fault has its ending
                ending = ending_of_error(error)
            finally:
                self._phases.done()
        self._record.seconds = self._phases.seconds
        return self._record, ending

    def _work(self, folder: Path) -> Ending:
        provider = self._provider()
        prepared = self._prepare(folder)
        if isinstance(prepared, Ending):
            return prepared
        template = self._template()
        with Dock(self._job(template, folder), provider) as dock:
            bundle = self._dock(dock, prepared)
        if isinstance(bundle, Ending):
            return bundle
        passed = self._inspect(bundle, folder, prepared)
        return passed if isinstance(passed, Ending) else self._leave_branch(passed)

    def _provider(self) -> Provider:
        """ProviderFailed where no machine can be had. `auto` has tried what it takes."""
        name = self._settings.provider
        provider = make_provider(name, self._state, self._settings.qemu_accel)
        if name != AUTO and not (probe := provider.probe()).ok:
            raise ProviderFailed(f"{name} does not work on this host: {probe.reason}")
        return provider

    def _prepare(self, folder: Path) -> Prepared | Ending:
        self._phases.enter(RunState.CHECKOUT)
        base = self._repository.base
        wanted = Wanted(base, base, None, self._title + "\n" + self._body)
        with lock_mirror(self._state, self._source) as lock:
            return note_prepared(self._record, prepare(self._git, lock, wanted, folder))

    def _template(self) -> Template:
        self._phases.begin("template", "Find or bake the template")
        template = bake.ensure(
            self._settings.template,
            self._settings.state_dir,
            lambda step: self._phases.note(str(step)),
            ca_bundle=self._settings.ca_bundle,
        )
        self._record.template_digest = template.digest
        return template

    def _job(self, template: Template, folder: Path) -> DockJob:
        return DockJob(
            run_id=self._record.asked.run_id,
            model=choose_model(self._settings, template.path / "prices.json"),
            template=template,
            limits=dock_limits(self._settings),
            folder=folder,
            audit=self._settings.state_dir / "audit.jsonl",
            egress=operator_egress(self._settings, template.path / "rootfs"),
        )

    def _brief(self) -> str:
        brief = freeze_brief(
            BriefInput(
                repo=self._repository.name,
                issue_number=0,
                title=self._title,
                body=self._body,
                author="you",
                asked_by="you",
                base_ref=self._record.base_ref,
                base_sha=self._record.base_sha,
            )
        )
        self._record.brief_sha256 = brief.sha256
        return brief.text

    def _dock(self, dock: Dock, prepared: Prepared) -> Path | Ending:
        cargo = cargo_of(prepared, self._brief())
        number = self._source.repo_id
        return work_in(dock, cargo, _Lines(self._phases), self._record, self._settings, number)

    def _inspect(self, bundle: Path, folder: Path, prepared: Prepared) -> Passed | Ending:
        self._phases.enter(RunState.GATE)
        asked = f"{self._title}\n{self._body}"
        with lock_mirror(self._state, self._source) as lock:
            judged = inspect(
                self._git,
                lock,
                bundle,
                self._record.base_sha,
                folder,
                gate_rules(self._settings, prepared.config, asked=asked),
                self._signature(),
                canaries_of(self._settings),
            )
        return note_judged(self._record, judged)

    def _signature(self) -> Signature:
        """Two trials are two, even if they make the same within one second."""
        trailers = {"Drydock-Run": self._record.asked.run_id}
        return Signature(author_of(self._settings), int(time.time()), trailers=trailers)

    def _leave_branch(self, passed: Passed) -> Ending:
        """Nothing is ever checked out: the branch is pushed into the repository."""
        names = names_to_try(slug_branch(self._title))
        pushed = send_new(by_git(self._git, self._source.url, None), passed, names)
        if isinstance(pushed, PushRejected):
            return Ending(RunEvent.FAIL, FailureKind.INTERNAL, pushed.detail)
        self._record.branch = pushed.ref.removeprefix("refs/heads/")
        return Ending(RunEvent.PUBLISH)
