"""What is wrong with the host: told to the operator where an operator looks, and on the issue."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.settings import SettingsError, load_settings
from tests.harbour.fixtures import MakeHarbour
from tests.harbour.harbour import CHECKOUT, FILES, Harbour, Pausing
from tests.harbour.worker import Orders, run_on_full_disk
from workers.services import build_services

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def drydock(*words: str, env: dict[str, str], before: Sequence[str] = ()) -> tuple[int, str]:
    done = subprocess.run(
        [*before, sys.executable, "-m", "cli", *words],
        cwd=CHECKOUT,
        env={"PATH": PATH, "LC_ALL": "C.UTF-8", **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


# --- secrets and settings ---------------------------------------------------------------------


@pytest.mark.parametrize("part", ["web", "worker"])
def test_a_private_key_that_cannot_be_read_is_named_at_the_start(
    harbour: Harbour, part: str
) -> None:
    missing = str(harbour.folder / "no-such.pem")
    env = {**harbour.environment(), "DRYDOCK_PRIVATE_KEY_FILE": missing}
    status, said = drydock(part, env=env)
    assert status == 1
    assert f"DRYDOCK_PRIVATE_KEY_FILE: cannot read {missing} (No such file or directory)" in said
    assert "Traceback" not in said


def test_a_template_that_is_missing_is_told_with_the_command_that_bakes_it(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(templates=False)
    harbour.labels()
    said = harbour.status_of()
    assert "**The host that Drydock runs on needs its operator.**" in said
    assert "drydock template bake default" in said
    assert "This is not about the issue." in said
    run = harbour.run_of()
    assert (run.state, run.failure_kind) == ("failed", "internal")

    (harbour.state_dir / "templates").symlink_to(CHECKOUT / ".drydock/state/templates")
    harbour.mona.comments(harbour.issue, "/aider retry")
    harbour.settle()
    assert "its tests pass" in harbour.status_of()


# --- the database -----------------------------------------------------------------------------


def test_a_database_that_is_away_at_the_start_is_said_without_its_password(
    harbour: Harbour,
) -> None:
    pytest.importorskip("psycopg")
    url = "postgresql://drydock:hunter2@127.0.0.1:1/drydock"
    settings = load_settings(None, {**harbour.environment(), "DRYDOCK_DATABASE_URL": url})
    with pytest.raises(SettingsError) as caught:
        build_services(settings)
    assert "the database does not answer" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_database_that_cannot_be_opened_stops_a_worker_in_words(harbour: Harbour) -> None:
    path = harbour.folder / "not-a-database"
    path.write_bytes(b"This is no SQLite file at all. " * 100)
    env = {**harbour.environment(), "DRYDOCK_DATABASE_URL": f"sqlite:///{path}"}
    status, said = drydock("worker", "--only", "runs", env=env)
    assert status == 1
    assert "file is not a database" in said
    assert "Traceback" not in said


@contextmanager
def taken(path: Path) -> Iterator[None]:
    """Hold the whole database, as a backup or a stuck process would."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    yield
    other.execute("ROLLBACK")
    other.close()


def test_a_database_that_goes_away_while_aider_works_is_waited_for(
    make_harbour: MakeHarbour,
) -> None:
    model = Pausing()
    harbour = make_harbour(model, busy_timeout_s=0.1)
    harbour.mona.labels(harbour.issue, "aider")
    assert model.asked.wait(30)
    # The run is begun before its delivery is marked; that is for the reconciler to mend.
    harbour.settle_deliveries()
    with taken(harbour.state_dir / "drydock.sqlite3"):
        model.may_answer.set()
        waited = "database.waited_for"
        harbour.waits_for(lambda: waited in harbour.log_path.read_text(), "a phase cannot be noted")
    harbour.settle()
    assert "its tests pass" in harbour.status_of()
    assert harbour.run_of().lost_leases == 0


def test_a_webhook_that_comes_while_the_database_is_away_is_refused_and_can_be_redelivered(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(busy_timeout_s=0.1)
    issue = harbour.issue
    harbour.settle()
    with taken(harbour.state_dir / "drydock.sqlite3"):
        harbour.mona.labels(issue, "aider")
        harbour.github.wait_for_deliveries()
    labelled = next(d for d in harbour.github.deliveries if d.action == "labeled")
    assert labelled.status_code == 503
    assert "the database does not answer" in (labelled.response_body or "")
    harbour.github.redeliver(labelled)
    harbour.settle()
    assert "its tests pass" in harbour.status_of()


# --- Redis ------------------------------------------------------------------------------------


def test_a_webhook_that_comes_while_redis_is_away_is_kept_and_worked_on_later(
    harbour: Harbour,
) -> None:
    harbour.tasks.is_down = True
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    assert {d.status_code for d in harbour.github.deliveries} == {202}
    assert harbour.runs_of(harbour.issue) == []
    harbour.tasks.is_down = False
    harbour.looks_again(later=60)
    assert "its tests pass" in harbour.status_of()


def test_redis_going_away_before_the_run_is_enqueued_leaves_it_queued(
    harbour: Harbour,
) -> None:
    def goes_away() -> None:
        harbour.tasks.is_down = True

    harbour.github.faults.add("GET", "/permission$", delay=goes_away)
    harbour.mona.labels(harbour.issue, "aider")
    harbour.settle()
    assert harbour.run_of().state == "queued"
    assert "the run starts as soon as a worker is free" in harbour.status_of()
    assert harbour.reactions_on(harbour.issue) == ["eyes"]
    harbour.tasks.is_down = False
    harbour.looks_again(later=60)
    assert "its tests pass" in harbour.status_of()
    assert harbour.reactions_on(harbour.issue) == ["eyes", "rocket"]


# --- the disk ---------------------------------------------------------------------------------


def test_a_disk_that_is_full_at_checkout_is_told_and_the_next_run_goes_on(
    make_harbour: MakeHarbour,
) -> None:
    harbour = make_harbour(drivers=0)
    big = "".join(f"{number:x}\n" for number in range(10**6, 10**6 + 90_000))
    repo = harbour.makes_repo("big", {**FILES, "data.txt": big})
    issue = harbour.opens(repo)
    harbour.mona.labels(issue, "aider")
    harbour.github.wait_for_deliveries()
    harbour.waits_for(lambda: harbour.is_in("queued", issue), "the run is queued")
    orders = Orders(harbour.environment(), full=("mirrors", 100))
    log = harbour.folder / "worker.log"
    assert run_on_full_disk(orders, log) == 0, log.read_text()
    said = harbour.status_of(issue)
    assert "**The host that Drydock runs on needs its operator.** Its disk is full." in said
    assert harbour.run_of(issue).failure_kind == "internal"

    harbour.work_with(1)
    harbour.mona.comments(issue, "/aider retry")
    harbour.settle()
    assert "its tests pass" in harbour.status_of(issue)


def test_a_disk_that_is_too_small_for_a_bake_is_said_before_anything_is_fetched(
    tmp_path: Path,
) -> None:
    small = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    script = 'mount -t tmpfs -o size=8m none "$0" && exec "$@"'
    status, said = drydock(
        *("template", "--state-dir", str(tmp_path), "bake", "default"),
        env={},
        before=[*small, script, str(tmp_path)],
    )
    assert status == 1
    assert "is full" in said
    assert "a bake needs" in said
    assert list(tmp_path.iterdir()) == []
