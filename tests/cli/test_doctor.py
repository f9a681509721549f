from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from app.settings import Settings
from cli import checks
from cli import doctor as module
from cli.boundary.selftest import Attempt
from cli.checks import Finding, Level, check_host, judge_permissions
from cli.main import drydock

JUST_RIGHT = {
    "metadata": "read",
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "checks": "write",
    "members": "read",
    "actions": "read",
}


def levels(granted: dict[str, str]) -> list[tuple[Level, str]]:
    return [(each.level, each.text) for each in judge_permissions(granted)]


def test_just_the_right_permissions_are_fine() -> None:
    assert levels(JUST_RIGHT) == [(Level.OK, "just what is needed")]


def test_missing_and_weaker_permissions_are_named() -> None:
    granted = {**JUST_RIGHT, "contents": "read"}
    del granted["checks"]
    assert levels(granted) == [(Level.FAIL, "missing checks: write, contents: write")]


def test_what_only_teams_need_may_be_missing() -> None:
    granted = {name: level for name, level in JUST_RIGHT.items() if name != "members"}
    assert levels(granted) == [
        (Level.OK, "just what is needed"),
        (Level.NOTE, "without members: read: a repository's config cannot name teams"),
    ]


def test_so_may_what_only_the_logs_of_failed_checks_need() -> None:
    granted = {name: level for name, level in JUST_RIGHT.items() if name != "actions"}
    assert levels(granted) == [
        (Level.OK, "just what is needed"),
        (Level.NOTE, "without actions: read: fix_ci does without the logs of failed checks"),
    ]


def test_permissions_that_nobody_needs_are_named() -> None:
    granted = {**JUST_RIGHT, "administration": "write", "secrets": "read"}
    wide = "wider than needed: administration: write, secrets: read"
    assert levels(granted) == [(Level.FAIL, wide)]


def test_a_full_disk_is_a_failure_with_its_mending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "NEEDED_DISK_GIB", 10**9)
    (found,) = checks.disk(Settings(state_dir=tmp_path))
    assert found.level is Level.FAIL
    assert "DRYDOCK_STATE_DIR" in found.mend


def test_what_accelerates_virtual_machines_is_told_with_the_reason(tmp_path: Path) -> None:
    (found,) = checks.acceleration(Settings(state_dir=tmp_path, qemu_accel="tcg"))
    assert (found.level, found.text) == (Level.NOTE, "emulated, as configured")
    assert "virtualisation" in found.mend or "usermod" in found.mend
    (found,) = checks.acceleration(Settings(state_dir=tmp_path, qemu_accel="kvm"))
    assert (found.level, found.text, found.mend) == (Level.OK, "KVM, as configured", "")


def test_a_host_without_qemu_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox.providers.common.PROGRAM_PATH", str(tmp_path))
    (found,) = checks.acceleration(Settings(state_dir=tmp_path))
    assert found.level is Level.NOTE
    assert "apt-get install qemu-system-x86" in found.text


def test_a_template_that_is_not_baked_is_told_with_the_command(tmp_path: Path) -> None:
    (found,) = checks.template(Settings(state_dir=tmp_path))
    assert (found.level, found.mend) == (Level.FAIL, "drydock template bake default")


def test_a_redis_that_does_not_answer_is_a_failure() -> None:
    (found,) = checks.queue(Settings(redis_url="redis://127.0.0.1:1/0"))
    assert (found.level, found.mend) == (Level.FAIL, "check DRYDOCK_REDIS_URL")


def test_a_check_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_settings: Settings) -> Any:
        raise OSError("no such thing")

    monkeypatch.setattr(checks, "CHECKS", (broken,))
    assert list(check_host(Settings())) == [Finding("broken", Level.FAIL, "no such thing")]


@pytest.mark.parametrize(
    ("level", "held", "status"),
    [(Level.NOTE, True, 0), (Level.FAIL, True, 1), (Level.OK, False, 1)],
)
def test_the_exit_status_is_1_for_a_failure_or_an_open_boundary(
    monkeypatch: pytest.MonkeyPatch, level: Level, held: bool, status: int
) -> None:
    attempt = Attempt("dns_by_udp", "work", held, "an answer\x1b[2J came")

    def attack(_provider: object, _template: object, say: Any) -> tuple[Attempt, ...]:
        say(attempt)
        return (attempt,)

    class Provider:
        name = "gvisor"

    monkeypatch.setattr(module, "check_host", lambda _: iter([Finding("disk", level, "text", "x")]))
    monkeypatch.setattr(module, "make_provider", lambda *_: Provider())
    monkeypatch.setattr(module, "find_template", lambda _: None)
    monkeypatch.setattr(module, "attack_provider", attack)
    shown = CliRunner().invoke(drydock, ["doctor"])
    assert shown.exit_code == status
    assert "→ x" in shown.output
    assert ("held  " if held else "OPEN  ") + "dns by udp (as work)" in shown.output
    assert "\x1b[2J" not in shown.output
    told = json.loads(CliRunner().invoke(drydock, ["doctor", "--json"]).output)
    assert told["open"] == ([] if held else ["dns by udp (as work)"])
    assert told["boundary"][0]["name"] == "dns_by_udp"
    assert told["tier"] == "gvisor"
