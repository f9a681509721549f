"""Command lines that Drydock itself runs in a machine, each in a fresh process."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.report import TestResult
from egress.policy import Phase
from sandbox.provider import ExecResult, GuestUser, Sandbox, Template
from workers import guest_repo
from workers.git import printable
from workers.grants import Egress

TAIL_CHARS = 4_000


@dataclass(frozen=True)
class Shell:
    """Where command lines run: in the repository of one machine."""

    sandbox: Sandbox
    template: Template
    egress: Egress

    def run(
        self, command: str, timeout_s: float, phase: Phase, argv: Sequence[str] | None = None
    ) -> TestResult:
        """Run a command line, or `argv` in its place, and return how it ended."""
        started = time.monotonic()
        as_root = phase is Phase.SETUP and wants_root(command)
        done = self.sandbox.exec(
            argv or ["sh", "-c", command],
            env=command_environment(self.template, self.egress, phase),
            cwd=guest_repo.REPO_DIR,
            user=GuestUser.ROOT if as_root else GuestUser.WORK,
            timeout_s=timeout_s,
        )
        return TestResult(
            command=command,
            exit_code=done.exit_code,
            seconds=time.monotonic() - started,
            tail=tail_of(done),
            timed_out=done.timed_out,
        )


def command_environment(template: Template, egress: Egress, phase: Phase) -> dict[str, str]:
    """What a command of this phase needs beside PATH and HOME: certificates, the way out."""
    return {**template_environment(template), **egress.environment(phase)}


def template_environment(template: Template) -> dict[str, str]:
    """Return what the template says a command's environment needs (where its CA bundle is)."""
    environment: Mapping[str, str] = _facts_of(template).get("environment", {})
    return dict(environment)


def template_needs(template: Template) -> dict[str, int]:
    """Return what a machine of it has at least, by the names of `MachineSpec`."""
    needs: Mapping[str, int] = _facts_of(template).get("machine", {})
    return dict(needs)


def _facts_of(template: Template) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((template.path / "template.json").read_bytes())
    return facts


def wants_root(command: str) -> bool:
    """Say whether a set-up command is apt's, which works only as the machine's own root."""
    return command.split(maxsplit=1)[:1] in (["apt-get"], ["apt"])


def tail_of(done: ExecResult) -> str:
    """Return the end of a command's output, cleaned for display line by line."""
    data = done.stdout + (b"\n" + done.stderr if done.stderr else b"")
    return clean_lines(data[-TAIL_CHARS:]).strip()


def clean_lines(data: bytes) -> str:
    """Return output fit to be shown: its lines stay, control characters within them do not."""
    lines = data.decode("utf-8", "replace").split("\n")
    return "\n".join(printable(line.rstrip("\r"), TAIL_CHARS) for line in lines)
