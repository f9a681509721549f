"""`drydock bench`: figures of this machine, each against a floor or a peer in the same run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console

from app.report import RunReport
from app.settings import Settings
from cli.bench_webhook import measure_webhooks
from cli.demo import follow_run, set_up
from cli.errors import fail
from cli.figures import Figure, as_json, as_table, middle
from cli.options import settings_or_fail
from cli.phases import PhaseLines
from demo.github import Repo
from demo.model import ScriptedModel
from demo.stage import BODY, FILES, MODEL, TITLE, Stage, fixing
from sandbox.provider import WORK_DIR, Template
from sandbox.template import bake

GROUPS = ("webhook", "eyes", "run", "label", "egress", "gate", "machine")
RUNS = 3
WAKE_S = 20.0
EYES_ROUNDS = 15
GUEST_TMP = "/tmp"  # noqa: S108 -- a fresh tmpfs inside the namespace
WORK_PHASES = frozenset({"queued", "agent", "verify"})


@dataclass(frozen=True)
class Bench:
    """One run of the benchmarks: a serving Drydock, its stage, and where things are."""

    settings: Settings
    stage: Stage
    folder: Path
    template: Template
    say: Callable[[str], None]


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path(".drydock/bench"),
    show_default=True,
    help="Where the benchmark keeps its files; made anew each time.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path(".drydock/bench.json"),
    show_default=True,
    help="The file for programs.",
)
@click.option("--only", multiple=True, type=click.Choice(GROUPS))
@click.option("--json", "as_json_", is_flag=True, help="Print JSON instead of a table.")
def bench(folder: Path, out: Path, only: tuple[str, ...], as_json_: bool) -> None:
    """Measure, print a table, write bench.json.

    Ratios are of medians within this one run, since machines are shared and noisy; nothing is
    judged by an absolute time alone.
    """
    console = Console(stderr=True)
    chosen = only or tuple(_MEASURES)
    with _ready(folder, console) as ready:
        figures = [figure for name in chosen for figure in _MEASURES[name](ready)]
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(as_json(figures), indent=2) + "\n")
    if as_json_:
        click.echo(json.dumps(as_json(figures), indent=2))
    else:
        Console().print(as_table(figures))


@contextmanager
def _ready(folder: Path, console: Console) -> Iterator[Bench]:
    settings = settings_or_fail(None)
    phases = PhaseLines(console)
    phases.begin("template", "Find or bake the template")
    template = bake.ensure(settings.template, settings.state_dir, ca_bundle=settings.ca_bundle)
    with set_up(folder.absolute(), settings.state_dir, phases) as stage:
        phases.done()
        yield Bench(settings, stage, stage.folder, template, phases.note)


# ---- webhooks --------------------------------------------------------------------------------


def measure_webhooks_at_rest(bench: Bench) -> list[Figure]:
    """Measure once nothing else is being started: a machine that wakes up takes a whole CPU."""
    let_a_machine_wake(bench)
    return measure_webhooks(bench)


# ---- from the label to 👀 ---------------------------------------------------------------------


def measure_eyes(bench: Bench) -> list[Figure]:
    """From a person's label until 👀 stands on the issue; the runs are stopped at once."""
    repo, person = bench.stage.make_repository("eyes")
    seconds = []
    for number in range(EYES_ROUNDS):
        issue = person.opens_issue(repo, f"Look at this ({number})", "")
        begun = time.monotonic()
        person.labels(issue, "aider")
        _wait_until(lambda issue=issue: bool(issue.reactions), "no reaction came")  # type: ignore[misc]
        seconds.append(time.monotonic() - begun)
        person.closes(issue)
    reference = f"one second; p50 of {EYES_ROUNDS}"
    return [Figure("eyes_p50_s", middle(seconds), "s", reference, bar=1.0)]


def _wait_until(condition: Callable[[], bool], failure: str, patience_s: float = 30.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise fail(failure)
        time.sleep(0.005)


# ---- whole runs ------------------------------------------------------------------------------


def measure_runs(bench: Bench) -> list[Figure]:
    """Whole runs, in turn with plain Aider on the host: the same script, the same repository."""
    whole: list[float] = []
    outside: list[float] = []
    plain: list[float] = []
    for number in range(RUNS):
        bench.say(f"whole runs: {number + 1} of {RUNS}")
        let_a_machine_wake(bench)
        plain.append(_plain_aider(bench))
        seconds, report = _one_run(bench, number)
        whole.append(seconds)
        spent = report.seconds_by_phase
        outside.append(sum(spent[phase] for phase in spent if phase not in WORK_PHASES))
    return [
        Figure("run_s", middle(whole), "s", "label → pull request", None),
        Figure("plain_aider_s", middle(plain), "s", "aider on the host, same script", None),
        Figure("run_ratio", middle(whole) / middle(plain), "x", "plain aider on the host", bar=1.6),
        Figure(
            "run_outside_aider_and_tests_s", middle(outside), "s", "all phases but those", bar=5.0
        ),
    ]


def let_a_machine_wake(bench: Bench) -> None:
    """Wait until the worker's next machine has had the time to wake: that is its ordinary state.

    Right after a run it is being made, and would take CPUs from what is measured.
    """
    bench.say("letting the next machine wake")
    time.sleep(WAKE_S)


def _one_run(bench: Bench, number: int) -> tuple[float, RunReport]:
    repo, person = bench.stage.make_repository(f"bench-{number}")
    issue = bench.stage.open_issue(repo, person)
    begun = time.monotonic()
    person.labels(issue, "aider")
    await_pull(repo)
    seconds = time.monotonic() - begun
    return seconds, follow_run(bench.folder, repo.full_name)


def await_pull(repo: Repo, count: int = 1) -> None:
    _wait_until(lambda: len(repo.pulls) >= count, "no pull request came", 300)


def _plain_aider(bench: Bench) -> float:
    """Return the seconds of plain Aider in a clone on this host, as a person would type it."""
    with (
        tempfile.TemporaryDirectory(prefix="drydock-plain-") as place,
        ScriptedModel(fixing()) as model,
    ):
        clone = Path(place)
        make_clone(clone)
        begun = time.monotonic()
        done = subprocess.run(
            plain_argv(bench.template, clone, model.openai_base),
            env={"PATH": os.environ.get("PATH", os.defpath)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        seconds = time.monotonic() - begun
    if b"4 passed" not in done.stdout:
        raise fail(f"plain aider did not fix it:\n{done.stdout.decode(errors='replace')[-2000:]}")
    return seconds


def make_clone(clone: Path) -> None:
    for name, text in FILES.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(text)
    git = ("git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@localhost")
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(clone)}
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Initial commit")):
        subprocess.run([*git, *words], env=env, check=True)
    (clone / ".git" / "message").write_text(f"Please fix this.\n\n{TITLE}\n\n{BODY}")


def plain_argv(template: Template, clone: Path, base: str) -> list[str]:
    """Return Aider's command line with the template's own Aider, at the host's full speed.

    bubblewrap only shows the template's files as the root: same kernel, same network.
    """
    aider = [
        *("/opt/aider/bin/aider", "--model", MODEL, "--openai-api-base", base),
        *("--edit-format", "diff", "--yes-always", "--no-check-update", "--no-show-release-notes"),
        *("--no-show-model-warnings", "--no-analytics", "--no-gitignore", "--no-pretty"),
        *("--no-stream", "--no-detect-urls", "--auto-test", "--test-cmd", "python3 -m pytest -q"),
        *("--message-file", ".git/message", "pricing.py", "test_pricing.py"),
    ]
    bwrap = shutil.which("bwrap") or "bwrap"
    return [
        *(bwrap, "--ro-bind", str(template.path / "rootfs"), "/", "--dev", "/dev"),
        *("--proc", "/proc", "--tmpfs", GUEST_TMP, "--tmpfs", "/home/work"),
        *("--bind", str(clone), WORK_DIR, "--chdir", WORK_DIR, "--clearenv"),
        *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/home/work"),
        *("--setenv", "OPENAI_API_KEY", "placeholder"),
        *("--setenv", "LITELLM_LOCAL_MODEL_COST_MAP", "True", "--", *aider),
    ]


def measure_broker(bench: Bench) -> list[Figure]:
    from cli.bench_egress import measure_egress
    from cli.bench_tunnel import measure_tunnel

    return [*measure_egress(bench), *measure_tunnel(bench)]


def measure_judging(bench: Bench) -> list[Figure]:
    from cli.bench_gate import measure_gate

    return measure_gate(bench)


def measure_first_request(bench: Bench) -> list[Figure]:
    from cli.bench_aider import measure_label

    return measure_label(bench)


def measure_virtual_machines(bench: Bench) -> list[Figure]:
    from cli.bench_machine import measure_machines

    return measure_machines(bench)


_MEASURES: Mapping[str, Callable[[Bench], list[Figure]]] = {
    "webhook": measure_webhooks_at_rest,
    "eyes": measure_eyes,
    "run": measure_runs,
    "label": measure_first_request,
    "egress": measure_broker,
    "gate": measure_judging,
    "machine": measure_virtual_machines,
}
