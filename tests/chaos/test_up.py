"""`drydock up` as in service, with real Redis, Celery, machine and Aider, on a bad day."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from app.store import make_engine, reading, runs
from demo.stage import Stage
from sandbox.providers import make_provider
from sandbox.supervisor import descendants
from tests.harbour.harbour import BODY, CHECKOUT, FILES, TITLE, fix

pytestmark = [pytest.mark.e2e, pytest.mark.machine]


@contextmanager
def drydock_up(stage: Stage, state: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    env = {
        **stage.connection.environment,
        "PATH": os.environ["PATH"],
        "DRYDOCK_STATE_DIR": str(state),
        "DRYDOCK_PROVIDER": "bubblewrap",
        "DRYDOCK_POOL_SIZE": "0",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cli", "up"],
            cwd=CHECKOUT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        below = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()
        # A machine's supervisor notices its worker's end by itself, a moment later.
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(Path(f"/proc/{p}").exists() for p in below):
            time.sleep(0.05)
        left = [pid for pid in below if Path(f"/proc/{pid}").exists()]
        words = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
        assert left == [], f"a process is left: {words}"


def wait_for(condition: Callable[[], bool], what: str, log: Path, timeout: float = 120.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}:\n{log.read_text()}"
        time.sleep(0.05)


def kill_all(up: int, *programs: bytes) -> int:
    """Kill what has one of these words in its command line, below `drydock up`; how many."""
    killed = 0
    for pid in descendants(up):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if any(program in words for program in programs):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        except (FileNotFoundError, ProcessLookupError):
            continue
    return killed


def test_worker_and_redis_are_killed_while_aider_works_and_the_pull_request_still_comes(
    tmp_path: Path,
) -> None:
    state, log = tmp_path / "state", tmp_path / "drydock.log"
    state.mkdir()
    (state / "templates").symlink_to(CHECKOUT / ".drydock/state/templates")
    with Stage(tmp_path / "stage", fix()) as stage, drydock_up(stage, state, log) as up:

        def is_ready() -> bool:
            try:
                return requests.get(f"{stage.web_url}/readyz", timeout=5).status_code == 200
            except requests.RequestException:
                return False

        wait_for(is_ready, "it is ready", log)
        stage.go_live()
        repo, mona = stage.make_repository("widgets", dict(FILES))
        issue = mona.opens_issue(repo, TITLE, BODY)
        mona.labels(issue, "aider")
        engine = make_engine(f"sqlite:///{state / 'drydock.sqlite3'}")

        def is_in(wanted: str) -> bool:
            with reading(engine) as session:
                return any(run.state == wanted for run in runs.recent(session, 1))

        wait_for(lambda: is_in("agent"), "Aider works", log)
        assert kill_all(up.pid, b"redis-server", b"--only\0runs", b"runs@") >= 2
        wait_for(lambda: is_in("published"), "the run is published", log)
        wait_for(
            lambda: bool(issue.comments) and "its tests pass" in issue.comments[0].body, "", log
        )
        with reading(engine) as session:
            (run,) = runs.recent(session, 5)
        engine.dispose()
        assert run.lost_leases == 1
        assert len(repo.pulls) == 1
        assert len(issue.comments) == 1
    assert make_provider("bubblewrap", state).list() == []
