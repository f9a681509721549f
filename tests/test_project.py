"""Locks, Makefile and scripts: what a fresh clone relies on."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON_LOCKS = (
    "requirements-build.lock",
    "requirements.lock",
    "requirements-dev.lock",
    "sandbox/template/aider.lock",
)
SCRIPTS = ("scripts/setup", "scripts/lock", ".ci/run")
TARGETS = {"help", "setup", "demo", "test", "bench", "up", "lint", "lock", "clean"}
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", (ROOT / lock).read_text(), re.MULTILINE))


@pytest.mark.parametrize("lock", [*PYTHON_LOCKS, "package-lock.json"])
def test_a_lock_names_no_address(lock: str) -> None:
    assert "://" not in (ROOT / lock).read_text()


@pytest.mark.parametrize("lock", PYTHON_LOCKS)
def test_every_python_package_is_pinned_with_a_hash(lock: str) -> None:
    joined = (ROOT / lock).read_text().replace("\\\n", " ")
    for line in joined.splitlines():
        assert re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+ ", line)
        assert "--hash=sha256:" in line


def test_every_npm_package_is_pinned_with_its_integrity() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    for name, package in packages.items():
        if name:
            assert package["integrity"].startswith("sha512-"), name
            assert "resolved" not in package, name


def test_the_tests_run_what_a_run_runs() -> None:
    assert pins("requirements.lock").items() <= pins("requirements-dev.lock").items()


# Everything that serves, and what Celery loads by name when it meets Redis.
SERVING = ("app.web.wsgi", "workers.tasks", "cli.main", "cli.demo", "cli.serve", "cli.known_errors")
BY_NAME = ("kombu.transport.redis", "celery.app.amqp", "celery.worker.worker", "celery.beat")
ONLY_THESE = """
import importlib, re, sys
from importlib.metadata import packages_distributions
given, names = sys.argv[1].split(","), sys.argv[2:]
known = packages_distributions()

class Hide:
    def find_spec(self, name, path=None, target=None):
        of = {re.sub("[-_.]+", "-", each).lower() for each in known.get(name, given)}
        if not of & set(given):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
for name in names:
    importlib.import_module(name)
"""


def test_the_lock_of_what_runs_is_enough_to_serve() -> None:
    """The tests' own environment would hide what a package imports without asking for it."""
    given = ",".join(["drydock", *(name.lower() for name in pins("requirements.lock"))])
    argv = [sys.executable, "-c", ONLY_THESE, given, *SERVING, *BY_NAME]
    done = subprocess.run(argv, cwd=ROOT, env=ENV, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_target_is_explained() -> None:
    done = subprocess.run(
        ["make", "help"], cwd=ROOT, env=ENV, capture_output=True, text=True, check=True
    )
    explained = {line.split()[1] for line in done.stdout.splitlines()}
    assert explained >= TARGETS


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_executable_and_parses(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    assert "set -euo pipefail" in path.read_text()
    subprocess.run(["bash", "-n", str(path)], env=ENV, check=True)


def test_a_wrong_profile_is_refused_before_anything_is_done() -> None:
    done = subprocess.run(
        ["scripts/setup", "nope"], cwd=ROOT, env=ENV, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "usage: scripts/setup [run|test]\n")


def test_continuous_integration_calls_what_a_person_calls() -> None:
    assert re.search(r"^exec make test </dev/null$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
