"""`drydock worker --ping`: whether both processes of this host's worker answer."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import drydock
from cli.redis import private_redis
from cli.serve import JOBS, node_name, silent_jobs
from demo.stage import Stage

# As `drydock worker` starts one, without our tasks.
NODE = """
import sys
from app.queue import make_queue
make_queue(sys.argv[1]).worker_main(["--quiet", "worker", "--hostname", sys.argv[2],
    "--pool", "solo", "--loglevel", "ERROR", "--without-gossip", "--without-mingle"])
"""


@contextmanager
def running(*argv: str) -> Iterator[None]:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


@pytest.fixture
def redis_url() -> Iterator[str]:
    redis = private_redis(os.environ["PATH"])
    try:
        with running(*redis.part.argv):
            give_up = time.monotonic() + 10
            while not Path(redis.url.removeprefix("unix://")).exists():
                assert time.monotonic() < give_up
                time.sleep(0.01)
            yield redis.url
    finally:
        redis.remove()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an installation that could start."""
    with Stage(tmp_path / "stage", []) as stage:
        environment = stage.connection.environment
    for name, value in {**environment, "DRYDOCK_STATE_DIR": str(tmp_path / "state")}.items():
        monkeypatch.setenv(name, value)


def ping(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(drydock, ["worker", "--ping", *words])
    return done.exit_code, done.output


def test_whoever_does_not_answer_is_named(
    redis_url: str, settings: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYDOCK_REDIS_URL", redis_url)
    monkeypatch.setattr("cli.serve.PING_S", 1.0)
    assert ping() == (1, "Error: no answer from the worker of this host: intake, runs\n")
    with ExitStack() as nodes:
        waiting = list(JOBS)
        while waiting:
            name = node_name(waiting.pop(0), socket.gethostname())
            nodes.enter_context(running(sys.executable, "-c", NODE, redis_url, name))
            give_up = time.monotonic() + 30
            while silent_jobs(redis_url, JOBS) != waiting:
                assert time.monotonic() < give_up
        assert ping() == (0, "answers\n")
        assert ping("--only", "runs") == (0, "answers\n")


def test_the_nodes_are_called_as_their_jobs_on_this_host() -> None:
    assert [node_name(job, "ship") for job in JOBS] == ["intake@ship", "runs@ship"]


def test_without_redis_it_says_so_at_once(
    settings: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRYDOCK_REDIS_URL", f"unix://{tmp_path}/gone.sock")
    began = time.monotonic()
    code, said = ping()
    assert (code, time.monotonic() - began < 10) == (1, True)
    assert said.startswith("Error: Redis does not answer")
    assert len(said.splitlines()) == 1
