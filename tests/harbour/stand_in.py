"""The fake provider, with the stand-in where Aider would be."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sandbox.launch import Identity, Launch
from sandbox.provider import (
    DEFAULT_OUTPUT_CAP,
    WORK_DIR,
    EgressHandler,
    ExecResult,
    GuestUser,
    MachineSpec,
    OnOutput,
    Sandbox,
)
from sandbox.providers.fake import FakeMachine, FakeProvider
from tests.harbour import aider
from workers.aider import AIDER

PROGRAM = (sys.executable, "-I", "-S", str(aider.__file__))


class StandInProvider(FakeProvider):
    """`on_made` is called with each new machine before anybody else hears of it."""

    def __init__(self, state_dir: Path, on_made: Callable[[Sandbox], None] | None = None) -> None:
        super().__init__(state_dir)
        self._on_made = on_made

    def machine(
        self,
        launch: Launch,
        identity: Identity,
        directory: Path,
        spec: MachineSpec,
        egress: EgressHandler,
    ) -> Sandbox:
        made = StandInMachine(launch, identity, directory, self.tier(), spec, egress)
        if self._on_made is not None:
            self._on_made(made)
        return made


class StandInMachine(FakeMachine):
    def place(self, text: str) -> str:
        # A checkout below a folder named /work is no place in the guest.
        return text if text in PROGRAM else super().place(text)

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = WORK_DIR,
        user: GuestUser = GuestUser.WORK,
        stdin: bytes = b"",
        timeout_s: float = 600.0,
        output_cap: int = DEFAULT_OUTPUT_CAP,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        if argv[0] == AIDER:
            argv = [*PROGRAM, *argv[1:]]
        return super().exec(
            argv,
            env=env,
            cwd=cwd,
            user=user,
            stdin=stdin,
            timeout_s=timeout_s,
            output_cap=output_cap,
            on_output=on_output,
        )


def hold(_machine: Sandbox) -> None:
    """For `on_made`: stay there for ever, as a host that hangs."""
    threading.Event().wait()
