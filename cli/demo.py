"""`drydock demo`: the main job, end to end, on this machine alone.

Everything is real but GitHub and the model: those are `demo.github` and `demo.model`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import requests
from rich.console import Console, Group
from rich.markdown import Markdown
from rich.panel import Panel
from rich.text import Text

from app.report import RunReport
from app.settings import Settings
from app.store import make_engine, reading, runs
from cli.demo_review import Answered, answer_summary, second_act, show_answer
from cli.errors import fail
from cli.options import settings_or_fail
from cli.phases import PhaseLines
from cli.present import diff_view, money, test_line
from cli.processes import Part, child_environment, end, spawn
from cli.serve import our_argv
from cli.warming import is_virtual, prepare_for
from cli.warmth import Warmth, warmth_of
from cli.watch import POLL_S, RUN_PATIENCE_S, follow
from demo.github import Pull, Repo
from demo.stage import Stage
from sandbox.provider import ProviderFailed
from sandbox.template import bake
from workers.reports import report_of_row

START_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Shown:
    """What the demo came to."""

    report: RunReport
    pull: Pull | None
    seconds: float
    answered: Answered | None = None

    @property
    def opened(self) -> bool:
        tests = self.report.test
        return self.pull is not None and tests is not None and tests.passed

    @property
    def passed(self) -> bool:
        return self.opened and self.answered is not None and self.answered.passed


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(".drydock/demo"),
    show_default=True,
    help="Where the demo keeps its files; what an earlier one left there is thrown away.",
)
@click.option("--keep", is_flag=True, envvar="KEEP", help="Keep serving until Ctrl-C.")
@click.pass_context
def demo(ctx: click.Context, folder: Path, keep: bool) -> None:
    """Turn a labelled issue on a local GitHub into a pull request, and answer its review.

    Needs no account and no key. Exit status 0 only if the pull request is there, the reviewer's
    comment was answered with a commit, and the tests passed both times.
    """
    console = Console()
    settings = settings_or_fail(None)
    phases = PhaseLines(console)
    began = time.monotonic()
    console.print(Text("Drydock demo: from a labelled issue to a pull request", style="bold"))
    _bake(settings, phases)
    with set_up(folder.absolute(), settings.state_dir, phases) as stage:
        folder = stage.folder
        shown = perform(console, stage, folder, phases, began)
        write_summary(folder / "summary.json", shown, phases)
        _end_line(console, shown, folder, keep)
        if keep:
            _keep_serving(console, stage, shown, folder / "state")
    ctx.exit(0 if shown.passed else 1)


def _bake(settings: Settings, phases: PhaseLines) -> None:
    phases.begin("template", "Find or bake the template")
    try:
        bake.ensure(
            settings.template,
            settings.state_dir,
            lambda step: phases.note(str(step)),
            ca_bundle=settings.ca_bundle,
        )
    except bake.BakeFailed as error:
        raise fail(str(error)) from error


@contextmanager
def set_up(folder: Path, state_dir: Path, phases: PhaseLines) -> Iterator[Stage]:
    """Run a local GitHub, a scripted model and Drydock in a folder of their own."""
    with fresh_folder(folder, state_dir), Stage(folder) as stage, serving(stage, folder, phases):
        yield stage


@contextmanager
def fresh_folder(folder: Path, state_dir: Path) -> Iterator[Path]:
    """Empty the demo's folder and hold it. Its state is its own, the templates the installation's.

    ClickException for one that holds anything else, or that another one is at work in: only what
    was made here and is over is thrown away.
    """
    _refuse_what_is_not_ours(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _held(folder):
        for each in folder.iterdir():
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        (folder / "state").mkdir()
        (folder / "state/templates").symlink_to((state_dir / "templates").absolute())
        yield folder


def _refuse_what_is_not_ours(folder: Path) -> None:
    is_empty = folder.is_dir() and next(folder.iterdir(), None) is None
    if folder.exists() and not is_empty and not (folder / "state/templates").is_symlink():
        raise fail(f"{folder} holds something else: name a folder that is empty or not there")


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle, folder)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise fail(f"another one is at work in {folder}: end it, or name a --folder") from error


def environment_of(stage: Stage, folder: Path) -> dict[str, str]:
    """Return what `drydock up` is started with: ours, and what connects it to the stage."""
    extra = {
        **stage.connection.environment,
        "DRYDOCK_STATE_DIR": str(folder / "state"),
        # One run comes: a second process for runs would keep a machine ready for nobody.
        "DRYDOCK_WORKER_CONCURRENCY": "1",
    }
    return child_environment(os.environ, extra)


@contextmanager
def serving(stage: Stage, folder: Path, phases: PhaseLines) -> Iterator[subprocess.Popen[bytes]]:
    """Run `drydock up` until the end of the block; its output goes to `drydock.log`."""
    _prepare_machines(stage, folder, phases)
    phases.begin("start", "Start Redis, web, worker")
    with (folder / "drydock.log").open("wb") as log:
        part = Part("drydock", our_argv("up", config=None), environment_of(stage, folder), 60.0)
        process = spawn(part, stdout=log)
        try:
            _wait_until_ready(stage, process, folder)
            stage.go_live()
            yield process
        except KeyboardInterrupt:
            phases.begin("stop", "Stop, within half a minute")
            end(process, part.stop_s)
            phases.done()
            raise
        finally:
            end(process, part.stop_s)


def _prepare_machines(stage: Stage, folder: Path, phases: PhaseLines) -> None:
    """Where runs get virtual machines, bake the one they start from: minutes, once, and told of."""
    settings = settings_or_fail(None)
    with contextlib.suppress(ProviderFailed):  # the run itself will say so
        if is_virtual(settings):
            phases.begin("machine", "Prepare a virtual machine")
            prepare_for(environment_of(stage, folder), settings.template, phases.note)


def _wait_until_ready(stage: Stage, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_PATIENCE_S
    said = "no answer"
    while time.monotonic() < deadline and process.poll() is None:
        try:
            answer = requests.get(f"{stage.web_url}/readyz", timeout=5)
            if answer.status_code == 200:
                return
            said = answer.text
        except requests.RequestException:
            time.sleep(POLL_S)
    tail = (folder / "drydock.log").read_text(errors="replace")[-2000:]
    raise fail(f"Drydock did not become ready ({said.strip()}):\n{tail}")


def perform(
    console: Console, stage: Stage, folder: Path, phases: PhaseLines, began: float
) -> Shown:
    """Label an issue as a person would; once there is a pull request, review it."""
    phases.begin("issue", "Open and label an issue")
    repo, mona = stage.make_repository()
    issue = stage.open_issue(repo, mona)
    mona.labels(issue, "aider")
    # Measured: to wait for it to be warm first makes the whole no quicker.
    if (warmth := warmth_of(folder / "state")) is not Warmth.NONE:
        phases.note(warmth)
    run = follow(folder, phases)
    report = report_of_row(run)
    shown = Shown(report, _pull_of(repo, report), time.monotonic() - began)
    show(console, shown)
    if not shown.opened or shown.pull is None:
        return shown
    answered = second_act(folder, shown.pull, mona, phases, run.id)
    show_answer(console, answered)
    return replace(shown, answered=answered)


def follow_run(folder: Path, repo: str) -> RunReport:
    """Return the report of the newest run of a repository, once it has ended."""
    engine = make_engine(f"sqlite:///{folder / 'state' / 'drydock.sqlite3'}")
    deadline = time.monotonic() + RUN_PATIENCE_S
    while time.monotonic() < deadline:
        with reading(engine) as session:
            found = next((run for run in runs.recent(session) if run.repo == repo), None)
        if found is not None and found.is_ended:
            return report_of_row(found)
        time.sleep(POLL_S)
    raise fail(f"the run on {repo} did not end; see {folder}/drydock.log")


def _pull_of(repo: Repo, report: RunReport) -> Pull | None:
    return next((p for p in repo.pulls if p.number == report.pull_request_number), None)


def show(console: Console, shown: Shown) -> None:
    """Print what a reviewer would look at."""
    report = shown.report
    if shown.pull is None:
        console.print(Text(f"No pull request: {report.outcome} {report.detail}", style="red"))
        return
    body = Markdown(shown.pull.body or "")
    console.print(Panel(body, title=Text(shown.pull.title), subtitle=Text(report.branch or "")))
    facts = [f"commit  {c.sha[:10]}  {c.subject}" for c in report.commits]
    facts += [
        f"tests   {test_line(report.test)}",
        f"model   {report.model}: {money(report)}",
        f"machine {report.tier}",
        f"refused {sum(line.count for line in report.refusals) or 'nothing'}",
    ]
    diff = shown.pull.repo.git.text("diff", report.base_sha, report.head_sha or "HEAD")
    console.print(Panel(Group(Text("\n".join(facts)), Text(), diff_view(diff)), title="The work"))


def write_summary(path: Path, shown: Shown, phases: PhaseLines) -> None:
    """Write the result for programs."""
    path.write_text(json.dumps(summary(shown, phases.seconds), indent=2) + "\n")


def summary(shown: Shown, seconds: dict[str, float]) -> dict[str, Any]:
    """Return the result as JSON values; the keys are an interface (docs/design.md)."""
    report = shown.report
    provider, _, accel = report.tier.partition("-")
    rounded = {name: round(spent, 2) for name, spent in seconds.items()}
    return {
        "outcome": report.outcome.value,
        "provider": provider,
        "accel": accel or None,
        "pull_request": report.pull_request_url,
        "commits": [commit.sha for commit in report.commits],
        "tests_exit_code": report.test.exit_code if report.test else None,
        "refusals": sum(line.count for line in report.refusals),
        "cost_usd": report.spending.cost_usd,
        "seconds": {**rounded, "total": round(shown.seconds, 2)},
        "review": answer_summary(shown.answered) if shown.answered is not None else None,
    }


def _end_line(console: Console, shown: Shown, folder: Path, keep: bool) -> None:
    report = shown.report
    if shown.passed and shown.answered is not None:
        text = f"✓ {report.pull_request_url} opened in {shown.seconds:.1f} s on {report.tier}"
        text += f", its review answered in {shown.answered.seconds:.1f} s"
        if not keep:
            console.print("The local GitHub ends here; `KEEP=1 make demo` keeps it serving.")
        console.print(Text(text, style="green"), soft_wrap=True)
    else:
        ended = shown.answered.report if shown.answered is not None else report
        text = f"✗ {ended.outcome}: {ended.detail or 'the tests did not pass'}"
        text += f" (see {folder}/drydock.log)"
        console.print(Text(text, style="red"), soft_wrap=True)


def _keep_serving(console: Console, stage: Stage, shown: Shown, state_dir: Path) -> None:
    console.print(f"GitHub     {stage.github.web_url}/acme/widgets/issues/1")
    if shown.pull is not None:
        console.print(f"Pull       {shown.report.pull_request_url}")
    console.print(f"Dashboard  {stage.web_url}/")
    console.print("Serving until Ctrl-C.")
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        while warmth_of(state_dir) is not Warmth.WARM and not stopped.wait(1.0):
            pass
        console.print(f"For the next label {Warmth.WARM}.")
        stopped.wait()
    except KeyboardInterrupt:
        console.print("stopping")
