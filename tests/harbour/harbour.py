"""A whole installation in this process: local GitHub, scripted model, the web application over
HTTP, the store, and the workers' own code on an in-process queue.

    with Harbour(folder) as harbour:
        harbour.mona.labels(harbour.issue, "aider")
        harbour.settle()
        assert "its tests pass" in harbour.status_of(harbour.issue)

Deliveries and runs are worked on in threads, as by the processes of a real installation; each kind
has its own services. Waiting for GitHub takes no time: the clock is put forward instead.
"""

from __future__ import annotations

import queue
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import structlog
from kombu.exceptions import OperationalError
from sqlalchemy import Engine
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from app.github.auth import TokenSource
from app.queue import TAKE_DELIVERY, TAKE_RUN, enqueue_delivery
from app.settings import Settings, load_settings
from app.store import DeliveryState, Run, deliveries, make_engine, reading, runs, upgrade
from app.web.app import create_app
from demo.github import Comment, Issue, Person, Pull, Repo
from demo.github.world import make_key
from demo.scenario import Edit, Message, Reply, Scenario, Script
from demo.stage import Stage
from sandbox.provider import Provider
from sandbox.providers import make_provider
from tests.harbour.stand_in import StandInProvider
from workers.intake import take_delivery
from workers.reconcile import Plan, reconcile
from workers.run import take_run
from workers.run_folder import run_folder
from workers.services import Services, build_services

CHECKOUT = Path(__file__).parents[2]
STAND_IN = "stand-in"
TITLE = "add() subtracts"
BODY = "`add(2, 2)` in `calc.py` gives 0. It should be 4."
WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
# Runs the same on the host and in a machine, and needs nothing but Python.
CHECK = "from calc import add\n\nassert add(2, 2) == 4, f'2 + 2 is {add(2, 2)}'\n"
CONFIG = "test: python3 -B check.py\n"
FILES = {"calc.py": WRONG, "check.py": CHECK, ".github/drydock.yml": CONFIG}


def fix(path: str = "calc.py", old: str = WRONG, new: str = RIGHT, when: str = "") -> Scenario:
    """One edit, and it is right."""
    return Scenario("fix", (Edit(path, old, new, commit=f"fix: Correct {path}"),), when)


@cache
def _empty_database() -> bytes:
    """Return a database without a row, made once: its migrations take as long as a delivery."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite3"
        engine = make_engine(f"sqlite:///{path}")
        upgrade(engine)
        engine.dispose()
        return path.read_bytes()


_APP_KEY = cache(make_key)


class Pausing:
    """A model that, asked for the first time, waits until it is let go on."""

    def __init__(self, then: Scenario | None = None) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self._then = (then or fix()).replies[0]

    def __call__(self, _: Sequence[Message]) -> Reply:
        self.asked.set()
        assert self.may_answer.wait(60), "the test never let the model answer"
        return self._then


class PausingFollowUp(Pausing):
    """Resolves the issue at once; asked to continue its pull request, waits to be let go on."""

    def __call__(self, messages: Sequence[Message]) -> Reply:
        if any("Resolve issue" in message.text for message in messages):
            return fix().replies[0]
        return super().__call__(messages)


class Hurry:
    """A clock that waiting puts forward."""

    def __init__(self) -> None:
        self._ahead = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        return time.time() + self._ahead

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._ahead += seconds

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.sleep(seconds)
        # A moment, so that whoever is to set it has a chance.
        return event.wait(0.01)


class InProcessQueue:
    """What Celery's application is to those who enqueue. `is_down` is Redis being away."""

    def __init__(self) -> None:
        self.is_down = False
        self.deliveries: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.runs: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.changed = threading.Condition()
        self.unfinished = 0

    def send_task(self, name: str, args: Sequence[str] = ()) -> None:
        if self.is_down:
            raise OperationalError("Redis is away")
        with self.changed:
            self.unfinished += 1
        {TAKE_DELIVERY: self.deliveries, TAKE_RUN: self.runs}[name].put(args[0])

    def finished(self) -> None:
        with self.changed:
            self.unfinished -= 1
            self.changed.notify_all()

    def is_idle(self, timeout: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.unfinished == 0, timeout)


@dataclass(frozen=True)
class HarbourServices(Services):
    """Services with the harbour's queue and provider."""

    tasks: InProcessQueue = field(default_factory=InProcessQueue)
    make: Callable[[], Provider] | None = None

    @cached_property
    def queue(self) -> Any:
        return self.tasks

    @cached_property
    def provider(self) -> Provider:
        return self.make() if self.make is not None else super().provider


class Harbour:
    """See the module. `provider` is a name, or `stand-in`: no machine, no Aider, but quick."""

    def __init__(
        self,
        folder: Path,
        script: Scenario | Sequence[Scenario] | Script | None = None,
        *,
        provider: str = STAND_IN,
        drivers: int = 1,
        templates: bool = True,
        busy_timeout_s: float = 15.0,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        # Bound from the start: a port that is only chosen may be somebody else's by then.
        self._socket = socket.create_server(("127.0.0.1", 0))
        port = self._socket.getsockname()[1]
        self.stage = Stage(folder / "stage", script or fix(), web_port=port)
        self.github, self.model = self.stage.github, self.stage.model
        self.hurry = Hurry()
        self.github.world.clock = self.hurry.now
        # Making a key is slow, and worlds never see each other's.
        self.github.world.make_key = _APP_KEY
        self.tasks = InProcessQueue()
        self.accidents: list[BaseException] = []
        self._script = script
        self.log_path = folder / "drydock.log"
        self._provider_name = provider
        self._drivers = drivers
        self._templates = templates
        self._busy_timeout_s = busy_timeout_s
        self._extra = settings or {}
        self._threads: list[threading.Thread] = []
        self._web: BaseWSGIServer | None = None
        self._engines: list[Engine] = []

    # --- its life -----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.state_dir.mkdir(parents=True)
        self._log = self.log_path.open("w")
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
            logger_factory=structlog.WriteLoggerFactory(file=self._log),
            cache_logger_on_first_use=False,
        )
        (self.state_dir / "drydock.sqlite3").write_bytes(_empty_database())
        if self._templates:
            (self.state_dir / "templates").symlink_to(CHECKOUT / ".drydock/state/templates")
        self.stage.__enter__()
        self.settings = load_settings(None, self.environment())
        self.services = self.make_services()
        self._serve()
        self.stage.go_live()
        self._start("intake", self.tasks.deliveries, self._take_delivery)
        self.work()
        return self

    def __exit__(self, *_: object) -> None:
        self.github.faults.clear()
        if isinstance(self._script, Pausing):
            self._script.may_answer.set()
        self.model.stopping.set()
        for thread in self._threads:
            (self.tasks.deliveries if thread.name == "intake" else self.tasks.runs).put(None)
        for thread in self._threads:
            thread.join(60)
        # A web server that closes during a delivery keeps its sender waiting.
        self.github.world.courier.stop()
        if self._web is not None:
            self._web.shutdown()
            self._web.server_close()
        for engine in self._engines:
            engine.dispose()
        self.stage.__exit__()
        self._socket.close()
        structlog.reset_defaults()
        self._log.close()
        left = self.provider().list()
        assert left == [], "a test left a machine behind"
        assert not any(thread.is_alive() for thread in self._threads), "a task did not end"

    def environment(self) -> dict[str, str]:
        """Return what connects Drydock to the stage, as an operator would set it."""
        name = "fake" if self._provider_name == STAND_IN else self._provider_name
        return {
            **self.stage.connection.environment,
            "DRYDOCK_STATE_DIR": str(self.state_dir),
            "DRYDOCK_PROVIDER": name,
            "DRYDOCK_REDIS_URL": "unix:///nonexistent/redis.sock",
            **self._extra,
        }

    def make_services(self) -> HarbourServices:
        """Return services as one process of its own would have them."""
        built = build_services(self.settings)
        built.engine.dispose()
        engine = make_engine(self.settings.effective_database_url, self._busy_timeout_s)
        self._engines.append(engine)
        return harbour_services(
            replace(built, engine=engine), self.tasks, self.provider, self.hurry
        )

    def provider(self) -> Provider:
        if self._provider_name == STAND_IN:
            return StandInProvider(self.state_dir)
        return make_provider(self._provider_name, self.state_dir)

    def work(self) -> None:
        """Have runs driven from now on (with `drivers=0` none are before)."""
        for number in range(self._drivers):
            services = self.make_services()
            self._start(
                f"driver-{number}", self.tasks.runs, lambda id_, s=services: take_run(s, id_)
            )

    def work_with(self, drivers: int) -> None:
        self._drivers = drivers
        self.work()

    def _serve(self) -> None:
        engine = make_engine(self.settings.effective_database_url, min(5.0, self._busy_timeout_s))
        self._engines.append(engine)
        app = create_app(self.settings, engine, lambda id_: enqueue_delivery(self.tasks, id_))  # type: ignore[arg-type]
        self._web = make_server(
            "127.0.0.1",
            self.stage.web_port,
            app,
            threaded=True,
            request_handler=_Quiet,
            fd=self._socket.fileno(),
        )
        threading.Thread(target=self._web.serve_forever, args=(0.05,), daemon=True).start()

    def _take_delivery(self, delivery_id: str) -> None:
        take_delivery(self.services, delivery_id)

    def _start(
        self, name: str, source: queue.SimpleQueue[str | None], task: Callable[[str], None]
    ) -> None:
        def take_all() -> None:
            while (id_ := source.get()) is not None:
                try:
                    task(id_)
                except BaseException as error:  # noqa: BLE001 -- shown by `settle`
                    self.accidents.append(error)
                finally:
                    self.tasks.finished()

        thread = threading.Thread(target=take_all, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    # --- what a test does ---------------------------------------------------------------------

    @cached_property
    def repo(self) -> Repo:
        return self.makes_repo("ship")

    @cached_property
    def mona(self) -> Person:
        """Somebody who may write to every repository here."""
        return self.github.create_user("mona")

    @cached_property
    def issue(self) -> Issue:
        return self.opens(self.repo)

    def makes_repo(self, name: str, files: Any = FILES, **more: Any) -> Repo:
        """Create a repository that the App is installed on."""
        repo = self.github.create_repo("acme", name, files, **more)
        repo.grant(self.mona, "write")
        self.github.install(self.stage.connection.app, repo)
        return repo

    def opens(self, repo: Repo, title: str = TITLE, body: str | None = BODY) -> Issue:
        return self.mona.opens_issue(repo, title, body)

    def labels(self, issue: Issue | None = None) -> Issue:
        """Label an issue (or the usual one) as Mona would, and wait for the end of what follows."""
        chosen = issue or self.issue
        self.mona.labels(chosen, "aider")
        self.settle()
        return chosen

    def settle(self, timeout: float = 90.0, *, accidents: bool = False) -> None:
        """Return when GitHub, the web application and the workers have nothing left to do."""
        deadline = time.monotonic() + timeout
        seen = -1
        while seen != len(self.github.deliveries):
            seen = len(self.github.deliveries)
            self.github.wait_for_deliveries(timeout)
            assert self.tasks.is_idle(deadline - time.monotonic()), "it does not come to rest"
        if self.accidents and not accidents:
            raise self.accidents[0]

    def settle_deliveries(self) -> None:
        """Return when every webhook was taken, whatever becomes of the runs (with `drivers=0`)."""
        self.github.wait_for_deliveries()
        waiting = (DeliveryState.RECEIVED, DeliveryState.FAILED)

        def all_taken() -> bool:
            with reading(self.engine) as session:
                counts = deliveries.counts(session)
            return not any(counts[state] for state in waiting)

        self.waits_for(all_taken, "the deliveries are taken")

    def looks_again(self, later: float = 0.0) -> Plan:
        """Reconcile, as if so many seconds had passed, and let what follows come to rest."""
        made = self.plans(later)
        self.settle()
        return made

    def plans(self, later: float = 0.0) -> Plan:
        ahead = timedelta(seconds=later)
        return reconcile(replace(self.services, clock=lambda: datetime.now(UTC) + ahead))

    def waits_for(self, condition: Callable[[], bool], what: str, timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain until {what}"
            time.sleep(0.01)

    # --- what a test sees ---------------------------------------------------------------------

    @property
    def engine(self) -> Engine:
        return self.services.engine

    def runs_of(self, issue: Issue) -> list[Run]:
        with reading(self.engine) as session:
            found = runs.recent(session, 100, issue.repo.id)
        return [run for run in found if run.issue_number == issue.number]

    def run_of(self, issue: Issue | None = None) -> Run:
        """Return the newest run of an issue."""
        return self.runs_of(issue or self.issue)[0]

    def is_in(self, state: str, issue: Issue | None = None) -> bool:
        found = self.runs_of(issue or self.issue)
        return bool(found) and found[0].state == state

    def said_on(self, issue: Issue) -> list[Comment]:
        """Return what the bot said on an issue."""
        return [c for c in issue.comments if c.author.login == "drydock[bot]"]

    def status_of(self, issue: Issue | None = None) -> str:
        """Return the status comment; there is exactly one for each run."""
        chosen = issue or self.issue
        shown = [c.body for c in self.said_on(chosen) if "<!-- drydock:status" in c.body]
        assert len(shown) == len(self.runs_of(chosen)), shown
        return shown[-1]

    def replies_on(self, issue: Issue) -> list[str]:
        return [c.body for c in self.said_on(issue) if "<!-- drydock:reply" in c.body]

    def pull_of(self, issue: Issue | None = None) -> Pull:
        """Return the pull request of an issue; there is exactly one."""
        chosen = issue or self.issue
        pulls = chosen.repo.pulls
        ends = [f"{run.state} {run.failure_kind}: {run.detail}" for run in self.runs_of(chosen)]
        assert len(pulls) == 1, f"{len(pulls)} pull requests of {ends}"
        return pulls[0]

    def reactions_on(self, what: Issue | Comment) -> list[str]:
        return [r.content for r in what.reactions if r.user.login == "drydock[bot]"]

    def delivery_of(self, guid: str) -> Any:
        with reading(self.engine) as session:
            return deliveries.get(session, guid)

    def folder_of(self, run: Run) -> Path:
        return run_folder(self.state_dir, run.id)

    def page_of(self, run: Run) -> str:
        """Return the run's page, as an operator's browser on this host gets it."""
        import requests

        answer = requests.get(f"{self.stage.web_url}/runs/{run.id}", timeout=10)
        return answer.text


def harbour_services(
    built: Services,
    tasks: InProcessQueue,
    make: Callable[[], Provider],
    hurry: Hurry | None = None,
) -> HarbourServices:
    """Return the services of an installation with another queue and another provider."""
    hurried: dict[str, Any] = {}
    tokens = built.tokens
    if hurry is not None:
        tokens = TokenSource(
            api_url=built.github.api_url,
            app_id=built.github.app_id,
            private_key=built.github.private_key.get_secret_value(),
            clock=hurry.now,
            sleep=hurry.sleep,
        )
        hurried = {"wait": hurry.wait}
    return HarbourServices(
        settings=built.settings,
        github=built.github,
        engine=built.engine,
        tokens=tokens,
        git=built.git,
        tasks=tasks,
        make=make,
        **hurried,
    )


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 -- werkzeug's name
        """Nobody reads the access log of a test."""


def load(environment: Mapping[str, str]) -> Settings:
    return load_settings(None, environment)
