"""A process that bakes with a recipe that tells what it does and waits for a file to go on.

Usage: baker.py STATE_DIR NAME   (prints one line per step; waits while STATE_DIR/hold exists)
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from sandbox.template.bake import bake
from sandbox.template.definition import Definition
from sandbox.template.recipe import Scratch
from sandbox.template.store import TemplateStore

STATE = Path(sys.argv[1])
DEFINITION = Definition(
    name="default",
    description="for tests",
    suite="bookworm",
    packages=("git",),
    aider_version="1.2.3",
    aider_lock="",
)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class SlowRecipe:
    def build_base(self, definition: Definition, tar: Path, scratch: Scratch) -> None:
        tar.write_text("half")
        self._pause("base")
        tar.write_text("whole")

    def assemble(
        self, definition: Definition, base: Path, into: Path, scratch: Scratch
    ) -> dict[str, Any]:
        (into / "rootfs").mkdir()
        (into / "template.json").write_text("{}")
        self._pause("template")
        (into / "rootfs" / "made-by").write_text(str(os.getpid()))
        (into / "prices.json").write_text(base.read_text())
        return {}

    def _pause(self, step: str) -> None:
        say("in", step)
        while (STATE / f"hold-{step}").exists():
            time.sleep(0.01)


if __name__ == "__main__":
    made = bake(
        DEFINITION, TemplateStore(STATE), lambda step: say("progress", step), cook=SlowRecipe()
    )
    say("made", made.path)
