"""Reading the audit log."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import drydock
from egress.audit import AuditLog


@pytest.fixture
def state(tmp_path: Path) -> Path:
    with AuditLog(tmp_path / "audit.jsonl") as log:
        log.append({"kind": "allowed", "run": "R1", "target": "POST /v1", "phase": "agent"})
        log.append(
            {"kind": "refused", "run": "R2", "target": "a.example:443", "reason": "no\x1b[2J"}
        )
    return tmp_path


def audit_ls(state: Path, *arguments: str) -> Result:
    env = {"DRYDOCK_STATE_DIR": str(state)}
    return CliRunner(env=env).invoke(drydock, ["audit", "ls", *arguments])


def test_each_decision_is_a_line_that_people_read(state: Path) -> None:
    first, second = audit_ls(state).output.splitlines()
    assert first.split(None, 2)[2] == "R1  allowed  POST /v1  phase=agent"
    assert second.split(None, 2)[2] == "R2  refused  a.example:443  no\\x1b[2J"


@pytest.mark.parametrize(
    ("arguments", "run"),
    [(["--refused"], "R2"), (["--run", "R1"], "R1"), (["--host", "a.example"], "R2")],
)
def test_decisions_are_chosen_by_kind_run_and_host(
    state: Path, arguments: list[str], run: str
) -> None:
    (line,) = audit_ls(state, *arguments).output.splitlines()
    assert run in line


def test_nothing_found_is_said(state: Path) -> None:
    assert audit_ls(state, "--run", "R3").output == "Nothing of that kind is in the log.\n"
