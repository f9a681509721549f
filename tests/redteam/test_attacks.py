"""Every attack of the boundary self-test, over every real provider: one line each in the report."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.settings import load_settings
from cli.boundary.selftest import LAST, SCRIPT, Attempt, attack_names, attack_provider
from sandbox.provider import GuestUser
from sandbox.providers import make_provider
from workers.services import find_template

PROVIDERS = ("bubblewrap", "gvisor", "qemu")
ROOT, WORK = GuestUser.ROOT.value, GuestUser.WORK.value
LINES = [
    *((name, user) for name in attack_names() for user in (WORK, ROOT)),
    *((name, ROOT) for name in LAST),
    ("the_audit_chain", "host"),
]
Attempts = Mapping[tuple[str, str], Attempt]


@pytest.fixture(scope="module", params=PROVIDERS)
def attempts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    """Attack one provider, once; a machine that cannot be had is a failure, never a skip."""
    settings = load_settings()
    provider = make_provider(request.param, tmp_path_factory.mktemp("state"))
    found = attack_provider(provider, find_template(settings))
    assert provider.list() == [], "the attack left a machine behind"
    return {(each.name, each.user): each for each in found}


@pytest.mark.machine
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "user"), LINES, ids=[f"{n}-as-{u}" for n, u in LINES])
def test_the_boundary_holds(attempts: Attempts, name: str, user: str) -> None:
    attempt = attempts[name, user]
    assert attempt.held, attempt.detail


@pytest.mark.parametrize("path", sorted(SCRIPT.glob("*.py")), ids=lambda path: path.name)
def test_the_script_needs_nothing_but_the_standard_library_and_its_own_folder(path: Path) -> None:
    named = {
        name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in imported(node)
    }
    strange = {each for each in named if each.partition(".")[0] not in sys.stdlib_module_names}
    assert all(each.startswith("cli.boundary.inside") for each in strange)


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [each.name for each in node.names] if isinstance(node, ast.Import) else []


def test_the_folder_runs_where_nothing_else_of_ours_is(tmp_path: Path) -> None:
    name = "secrets_on_the_kernel_command_line"
    shutil.copytree(SCRIPT, tmp_path / "cli" / "boundary" / "inside")
    (tmp_path / "facts.json").write_text('{"canaries": []}')
    done = subprocess.run(
        [sys.executable, "-B", "-m", "cli.boundary.inside", "facts.json", name],
        cwd=tmp_path,
        env={},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"name": name, "held": True, "detail": "searched"}


def test_the_list_of_attacks_is_whole() -> None:
    names = attack_names()
    assert len(names) == len(set(names)) >= 54
    assert names == [name for name, _ in LINES[: 2 * len(names) : 2]]
