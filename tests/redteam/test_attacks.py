"""Every attack of the boundary self-test, over every real provider: one line each in the report."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.settings import load_settings
from cli.boundary.selftest import LAST, SCRIPT, Attempt, attack_names, attack_provider
from sandbox.provider import GuestUser
from sandbox.providers import make_provider
from workers.services import find_template

# An emulated machine takes minutes for these: `pytest -m slow` runs them there too.
PROVIDERS = ("bubblewrap", "gvisor", pytest.param("qemu", marks=pytest.mark.slow))
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


def test_the_script_needs_nothing_but_the_standard_library_and_is_one_file() -> None:
    import sys

    tree = ast.parse(Path(SCRIPT).read_text())
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= set(sys.stdlib_module_names)


def test_the_list_of_attacks_is_whole() -> None:
    names = attack_names()
    assert len(names) == len(set(names)) >= 54
    assert names == [name for name, _ in LINES[: 2 * len(names) : 2]]
