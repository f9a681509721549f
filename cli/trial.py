"""`drydock try`: the same run without GitHub, for a local repository and a text file."""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from app.branches import alternative_branch, slug_branch
from app.brief import BriefInput, freeze_brief
from app.repo_config import ConfigError
from app.settings import Settings, SettingsError, load_settings, require_model, system_ca_bundle
from app.states import FailureKind, RunEvent, RunState
from cli.errors import fail
from cli.phases import PhaseLines
from cli.present import print_report
from sandbox.provider import ProviderFailed, Sandbox, Template
from sandbox.providers import make_provider
from sandbox.template import bake
from workers.checkout import EmptyRepository, NoSuchBranch, Source, lock_mirror
from workers.dock import Cargo, Dock, DockJob, SetupFailed
from workers.endings import ending_of_aider, ending_of_base, ending_of_error
from workers.git import Git, GitFailed
from workers.grants import operator_egress
from workers.inspection import NothingChanged, Passed, Refused, inspect
from workers.model import choose_model
from workers.policies import author_of, dock_limits, gate_rules
from workers.prepare import Prepared, Wanted, prepare
from workers.publish import MAX_NAMES, push_new
from workers.push import PushRejected
from workers.record import Asked, Ending, Record
from workers.recreate import Signature
from workers.reports import as_json
from workers.run import config_trouble, note_passed, note_setup, note_work

MAX_ISSUE_BYTES = 256 * 1024


@click.command("try")
@click.argument("repository", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("issue", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--config", type=click.Path(path_type=Path), help="drydock.toml to read.")
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
    """Work on ISSUE (a Markdown file, title first) in a copy of REPOSITORY.

    Leaves a branch aider/… in REPOSITORY and checks nothing out. Needs DRYDOCK_MODEL and the key
    of its vendor; uncommitted changes in REPOSITORY are not seen. Exit status 1 when no branch was
    left.
    """
    console = Console(stderr=True)
    settings = _settings(config)
    title, body = read_issue(issue)
    job = Trial(settings, repository.resolve(), title, body, base, console)
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
    try:
        settings = load_settings(config)
        require_model(settings)
    except SettingsError as error:
        raise fail(str(error)) from error
    return settings


def read_issue(path: Path) -> tuple[str, str]:
    """Return title and body: the first line with words, without its `#`, and all after it."""
    data = path.read_bytes()
    if len(data) > MAX_ISSUE_BYTES:
        raise fail(f"{path} is longer than {MAX_ISSUE_BYTES // 1024} KiB")
    lines = data.decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines):
        title = line.lstrip("#").strip()
        if title:
            return title, "\n".join(lines[number + 1 :]).strip()
    raise fail(f"{path} says nothing: its first line is the title of the issue")


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
    """One such run."""

    def __init__(
        self,
        settings: Settings,
        repository: Path,
        title: str,
        body: str,
        base: str | None,
        console: Console,
    ) -> None:
        self._settings = settings
        self._repository = repository
        self._title, self._body = title, body
        self._base = base
        self._source = Source(repository.as_uri(), _number_of(repository))
        self._phases = PhaseLines(console)
        # Machines of a worker on this host are not ours to see, nor ours its to reap.
        self._state = settings.state_dir / "try"
        self._git = self._make_git()
        run_id = datetime.now(UTC).strftime("try-%Y%m%d-%H%M%S-") + secrets.token_hex(2)
        self._record = Record(Asked(run_id, repository.name, 0, title, "you", settings.model or ""))

    def run(self) -> tuple[Record, Ending]:
        """Do it; returns what is known and how it ended. Ctrl-C ends the machine and goes on up."""
        with tempfile.TemporaryDirectory(prefix="drydock-try-") as folder:
            try:
                ending = self._work(Path(folder))
            except click.ClickException:
                raise
            except (SettingsError, GitFailed, ProviderFailed) as error:
                raise fail(str(error)) from error
            except Exception as error:  # noqa: BLE001 -- every fault has its ending
                ending = ending_of_error(error)
        self._phases.done()
        self._record.seconds = self._phases.seconds
        return self._record, ending

    def _work(self, folder: Path) -> Ending:
        template = bake.ensure(
            self._settings.template,
            self._settings.state_dir,
            lambda step: self._phases.note(str(step)),
            ca_bundle=self._settings.ca_bundle,
        )
        self._record.template_digest = template.digest
        provider = make_provider(self._settings.provider, self._state, self._settings.qemu_accel)
        with Dock(self._job(template, folder), provider) as dock:
            prepared = self._prepare(folder)
            if isinstance(prepared, Ending):
                return prepared
            bundle = self._dock(dock, prepared)
        if isinstance(bundle, Ending):
            return bundle
        return self._hand_over(bundle, folder)

    def _prepare(self, folder: Path) -> Prepared | Ending:
        self._phases.enter(RunState.CHECKOUT)
        base = self._base or self._checked_out()
        self._record.base_ref = base
        wanted = Wanted(base, base, None, self._title + "\n" + self._body)
        with lock_mirror(self._state, self._source) as lock:
            prepared = prepare(self._git, lock, wanted, folder)
        if isinstance(prepared, EmptyRepository | NoSuchBranch):
            return ending_of_base(prepared)
        if isinstance(prepared, ConfigError):
            return Ending(RunEvent.REFUSE, detail=config_trouble(prepared))
        self._record.base_sha = prepared.bundle.base_sha
        self._record.test_source = prepared.test_source
        return prepared

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

    def _cargo(self, prepared: Prepared) -> Cargo:
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
        return Cargo(
            prepared.bundle, brief.text, prepared.files, prepared.commands, prepared.config.egress
        )

    def _dock(self, dock: Dock, prepared: Prepared) -> Path | Ending:
        try:
            worked = dock.work(self._cargo(prepared), _Lines(self._phases))
        finally:
            self._record.account = dock.account()
        if isinstance(worked, SetupFailed):
            return note_setup(self._record, worked)
        note_work(self._record, worked)
        return ending_of_aider(worked.outcome) or worked.bundle or Ending(RunEvent.NO_CHANGE)

    def _hand_over(self, bundle: Path, folder: Path) -> Ending:
        """Judge what came back and leave it as a branch; nothing is ever checked out."""
        self._phases.enter(RunState.GATE)
        signature = Signature(author=author_of(self._settings), at=int(time.time()))
        with lock_mirror(self._state, self._source) as lock:
            judged = inspect(
                self._git,
                lock,
                bundle,
                self._record.base_sha,
                folder,
                gate_rules(self._settings),
                signature,
            )
        if isinstance(judged, NothingChanged):
            return Ending(RunEvent.NO_CHANGE)
        if isinstance(judged, Refused):
            self._record.findings = judged.findings
            return Ending(RunEvent.REFUSE, detail=judged.findings[0].reason)
        return self._leave_branch(judged)

    def _leave_branch(self, passed: Passed) -> Ending:
        note_passed(self._record, passed)
        pushed = push_new(self._git, passed, self._source.url, None, trial_names(self._title))
        if isinstance(pushed, PushRejected):
            return Ending(RunEvent.FAIL, FailureKind.INTERNAL, pushed.detail)
        self._record.branch = pushed.ref.removeprefix("refs/heads/")
        return Ending(RunEvent.PUBLISH)

    def _checked_out(self) -> str:
        """Return the branch that is checked out. UsageError on a detached head."""
        git_dir = self._git.run(
            ["-C", str(self._repository), "rev-parse", "--absolute-git-dir"]
        ).decode()
        head = self._git.attempt(
            ["symbolic-ref", "--quiet", "--short", "HEAD"], git_dir=Path(git_dir.strip())
        )
        if head.exit_code != 0:
            raise click.UsageError("no branch is checked out there: name one with --base")
        return head.stdout.decode("utf-8", "replace").strip()

    def _make_git(self) -> Git:
        home = self._state / "git-home"
        home.mkdir(parents=True, exist_ok=True)
        return Git(home=home, ca_bundle=system_ca_bundle(self._settings))


def trial_names(title: str) -> Iterator[str]:
    """Yield aider/SLUG, then the same with a number."""
    name = slug_branch(title)
    yield name
    yield from (alternative_branch(name, k) for k in range(1, MAX_NAMES))


def _number_of(repository: Path) -> int:
    """Return a number that stands for this path, as a repository's id does elsewhere."""
    return int.from_bytes(hashlib.sha256(str(repository).encode()).digest()[:6])
