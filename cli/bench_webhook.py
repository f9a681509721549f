"""Webhooks, measured: what GitHub waits for, against the same gunicorn answering a bare 202.

Every delivery here is one that a worker has to take up: stored, committed to the disk, enqueued.
Most of what GitHub sends costs less, since the web application passes it over by itself.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import requests

from app.events import SIGNATURE_HEADER, sign
from app.store import deliveries, make_engine, reading
from cli.errors import fail
from cli.figures import Figure, middle, percentile
from cli.load import post_at_rate
from cli.processes import Part, child_environment, end, spawn
from cli.serve import gunicorn_argv
from demo.stage import free_port

if TYPE_CHECKING:
    from cli.bench import Bench

RATE = 100.0
LOAD_S = 5.0
ROUNDS = 5
P99_BAR = 5.0

# To whom a worker has to ask GitHub who we are: somebody else, so nothing starts. As long as
# GitHub's own are.
ASSIGNED: Mapping[str, object] = {
    "action": "assigned",
    "assignee": {"login": "ada", "id": 1, "type": "User"},
    "issue": {
        "number": 1,
        "title": "The pump leaks",
        "body": "It does. " * 1000,
        "user": {"login": "ada", "id": 1, "type": "User"},
        "state": "open",
        "locked": False,
        "labels": [],
        "assignees": [],
    },
    "repository": {"id": 42, "name": "ship", "owner": {"login": "octo"}, "default_branch": "main"},
    "sender": {"login": "ada", "id": 1, "type": "User"},
    "installation": {"id": 7},
}


def measure_webhooks(bench: Bench) -> list[Figure]:
    """Delivery stored and answered; medians of rounds. RuntimeError for any answer but 202."""
    url = f"{bench.stage.web_url}/webhooks/github"
    ours: list[list[float]] = []
    floor: list[list[float]] = []
    sent: list[str] = []
    with _bare_server(bench) as bare:
        for number in range(ROUNDS):
            bench.say(f"webhooks: {RATE:.0f} a second, round {number + 1} of {ROUNDS}")
            make = _maker(bench, sent)
            floor.append(post_at_rate(bare, _maker(bench, []), rate=RATE, seconds=LOAD_S))
            ours.append(post_at_rate(url, make, rate=RATE, seconds=LOAD_S))
    return [
        *_against_floor("p50", 0.5, ours, floor, None),
        *_against_floor("p99", 0.99, ours, floor, P99_BAR),
        Figure("webhook_lost", _lost(bench, sent), "", "answered and not stored", bar=0),
    ]


def _against_floor(
    name: str, share: float, ours: list[list[float]], floor: list[list[float]], bar: float | None
) -> list[Figure]:
    """Return the median of the rounds' percentiles, and of their ratios within each round."""
    times = [percentile(each, share) for each in ours]
    floors = [percentile(each, share) for each in floor]
    ratio = middle(mine / bare for mine, bare in zip(times, floors, strict=True))
    reference = f"the same server answering a bare 202, both at {RATE:.0f} a second"
    held = f"{middle(floors) * 1000:.2f} ms: {reference}"
    return [
        Figure(f"webhook_{name}_ms", middle(times) * 1000, "ms", held),
        Figure(f"webhook_{name}_ratio", ratio, "x", reference, bar=bar),
    ]


def _lost(bench: Bench, sent: list[str]) -> int:
    """Count what was answered with 202 and is not in the store."""
    engine = make_engine(f"sqlite:///{bench.folder / 'state' / 'drydock.sqlite3'}")
    try:
        with reading(engine) as session:
            return sum(deliveries.get(session, each) is None for each in sent)
    finally:
        engine.dispose()


@contextmanager
def _bare_server(bench: Bench) -> Iterator[str]:
    port = free_port()
    argv = gunicorn_argv(bench.settings.model_copy(update={"bind": f"127.0.0.1:{port}"}), None)
    part = Part("bare", (*argv[:-1], "demo.bare:make_app()"), child_environment(os.environ, {}))
    process = spawn(part)
    try:
        _wait_for(f"http://127.0.0.1:{port}/healthz")
        yield f"http://127.0.0.1:{port}/webhooks/github"
    finally:
        end(process, part.stop_s)


def _wait_for(url: str, patience_s: float = 20.0) -> None:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            if requests.get(url, timeout=2).ok:
                return
        except requests.RequestException:
            time.sleep(0.05)
    raise fail(f"{url} did not answer")


def _maker(bench: Bench, sent: list[str]) -> Callable[[int], tuple[bytes, Mapping[str, str]]]:
    """Return a maker of signed deliveries, which notes their ids in `sent`."""
    body = json.dumps(ASSIGNED).encode()
    signature = sign(bench.stage.webhook_secret, body)

    def make(_number: int) -> tuple[bytes, Mapping[str, str]]:
        sent.append(str(uuid.uuid4()))
        return body, {
            "Content-Type": "application/json",
            "X-GitHub-Event": "issues",
            "X-GitHub-Delivery": sent[-1],
            SIGNATURE_HEADER: signature,
        }

    return make
