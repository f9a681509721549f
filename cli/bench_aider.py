"""From a machine, or a label, to Aider's first request of the model, against Aider started cold."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import fail
from cli.figures import Figure, middle
from demo.model import ScriptedModel
from demo.stage import BODY, FILES, fixing
from sandbox.provider import (
    GUEST_PROXY_PORT,
    Duplex,
    MachineLost,
    MachineSpec,
    Provider,
    Sandbox,
    Template,
)
from workers.aider import AiderJob, build_argv, build_env, build_files
from workers.guest_repo import REPO_DIR
from workers.rehearsal import build_warm
from workers.shell import template_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from cli.bench import Bench
    from demo.github import Person, Repo

ROUNDS = 3
PATIENCE_S = 300.0
_GIT = "git init -q -b main && git add -A && git -c user.name=a -c user.email=a@b commit -qm start"


# ---- in a machine ----------------------------------------------------------------------------


class Model:
    """The way out of a machine, on which nothing answers: it only tells when it was asked first."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def handle(self, connection: Duplex) -> None:
        with contextlib.suppress(OSError):
            if connection.recv(65536):
                self._asked.set()

    def await_request(self) -> None:
        """Return at the next first request. ClickException when there is none."""
        if not self._asked.wait(PATIENCE_S):
            raise fail("Aider asked no model")
        self._asked.clear()


def measure_restored(
    provider: Provider, template: Template, say: Callable[[str], None]
) -> list[Figure]:
    """The same command twice in each machine: what waits there becomes it, then it starts cold."""
    job = AiderJob(
        model="openai/scripted-1",
        files=("pricing.py",),
        test_command="python3 -m pytest -q",
        route_env={
            "OPENAI_API_KEY": "none",
            "OPENAI_API_BASE": f"http://127.0.0.1:{GUEST_PROXY_PORT}/v1",
        },
    )
    warm_program = build_warm(job, template_environment(template))
    spec = MachineSpec("bench-aider", template, warm=warm_program)
    say("Aider in a virtual machine: having it wake up, once for all")
    warm, cold = [], []
    for number in range(ROUNDS):
        say(f"Aider in a virtual machine: round {number + 1} of {ROUNDS}")
        model = Model()
        machine = provider.create(spec, model.handle)
        try:
            if not machine.await_warm(PATIENCE_S).ready:
                raise fail("no Aider waits in the machine")
            _lay_out(machine, job)
            warm.append(_to_first_request(machine, job, template, model))
            cold.append(_to_first_request(machine, job, template, model))
        finally:
            machine.kill()
    reference = f"a cold aider in the same machine: {middle(cold):.1f} s, p50 of {ROUNDS}"
    share = middle(warm) / middle(cold)
    return [
        Figure("machine_aider_request_s", middle(warm), "s", "command → first model request"),
        Figure("machine_aider_request_ratio", share, "x", reference, bar=0.1),
    ]


def _lay_out(machine: Sandbox, job: AiderJob) -> None:
    for path, data in {**_encoded(FILES), **build_files(job, BODY)}.items():
        machine.write_file(f"{REPO_DIR}/{path}", data)
    machine.exec(["sh", "-c", _GIT], cwd=REPO_DIR)


def _encoded(files: dict[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


def _to_first_request(machine: Sandbox, job: AiderJob, template: Template, model: Model) -> float:
    """Seconds from the command to its request; all of `work`'s processes are ended then."""
    env = {**template_environment(template), **build_env(job)}

    def command() -> None:
        with contextlib.suppress(MachineLost):
            machine.exec(build_argv(job), env=env, cwd=REPO_DIR, timeout_s=PATIENCE_S)

    thread = threading.Thread(target=command)
    begun = time.monotonic()
    thread.start()
    try:
        model.await_request()
        return time.monotonic() - begun
    finally:
        machine.exec(["sh", "-c", "kill -9 -1"])
        thread.join()


# ---- from the label --------------------------------------------------------------------------


def measure_label(bench: Bench) -> list[Figure]:
    """A label on GitHub, in turn with the same `aider` typed in a clone on the host.

    As there is a clone already where somebody types, the repository is one that had a run before:
    its mirror is there, and what its tests say of the base. What a new one takes is told as well.
    """
    from cli.bench import let_a_machine_wake

    repo, person = bench.stage.make_repository("first-request")
    let_a_machine_wake(bench)
    new = _labelled(bench, repo, person)
    labelled, typed = [], []
    for number in range(ROUNDS):
        let_a_machine_wake(bench)
        typed.append(_typed(bench))
        bench.say(f"label to the first model request: {number + 1} of {ROUNDS}")
        labelled.append(_labelled(bench, repo, person))
    reference = f"aider typed in a clone on the host: {middle(typed):.2f} s, p50 of {ROUNDS}"
    share = middle(labelled) / middle(typed)
    return [
        Figure("label_to_model_new_repo_s", new, "s", "once; its base is tested first"),
        Figure("label_to_model_s", middle(labelled), "s", f"p50 of {ROUNDS}"),
        Figure("label_to_model_ratio", share, "x", reference, bar=0.7),
    ]


def _labelled(bench: Bench, repo: Repo, person: Person) -> float:
    from cli.bench import await_pull

    before = len(repo.pulls)
    issue = bench.stage.open_issue(repo, person)
    with _counting(bench.stage.model) as first:
        person.labels(issue, "aider")
        seconds = first()
    await_pull(repo, before + 1)
    return seconds


def _typed(bench: Bench) -> float:
    from cli.bench import make_clone, plain_argv

    with (
        tempfile.TemporaryDirectory(prefix="drydock-typed-") as place,
        ScriptedModel(fixing()) as model,
    ):
        make_clone(Path(place))
        argv = plain_argv(bench.template, Path(place), model.openai_base)
        with _counting(model) as first, _running(argv):
            return first()


@contextmanager
def _running(argv: list[str]) -> Iterator[None]:
    process = subprocess.Popen(
        argv,
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _counting(model: ScriptedModel) -> Iterator[Callable[[], float]]:
    """Yields what returns the seconds from now to the model's next request."""
    known, begun = len(model.requests), time.monotonic()

    def first() -> float:
        while len(model.requests) == known:
            if time.monotonic() - begun > PATIENCE_S:
                raise fail("Aider asked no model")
            time.sleep(0.005)
        return time.monotonic() - begun

    yield first
