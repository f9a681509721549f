"""A definition and a recipe that need neither network nor root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.template.definition import Definition
from sandbox.template.recipe import Scratch
from sandbox.template.store import TemplateStore


class FakeRecipe:
    """Writes small files where the real one writes a Debian; counts, and can be told to fail."""

    def __init__(self) -> None:
        self.bases = 0
        self.templates = 0
        self.fail_in_base: BaseException | None = None
        self.fail_in_template: BaseException | None = None

    def build_base(self, definition: Definition, tar: Path, scratch: Scratch) -> None:
        self.bases += 1
        tar.write_text(definition.suite)
        if self.fail_in_base:
            raise self.fail_in_base

    def assemble(
        self, definition: Definition, base: Path, into: Path, scratch: Scratch
    ) -> dict[str, Any]:
        self.templates += 1
        (into / "rootfs" / "work").mkdir(parents=True)
        (into / "rootfs" / "made-from").write_text(base.read_text())
        (into / "prices.json").write_text("{}")
        if self.fail_in_template:
            raise self.fail_in_template
        return {"work_owner": "work"}


def make_lock(version: str = "1.2.3") -> str:
    return f"aider-chat=={version} \\\n    --hash=sha256:{'a' * 64}\n"


@pytest.fixture
def definition() -> Definition:
    return Definition(
        name="default",
        description="for tests",
        suite="bookworm",
        packages=("git", "python3"),
        aider_version="1.2.3",
        aider_lock=make_lock(),
    )


@pytest.fixture
def store(tmp_path: Path) -> TemplateStore:
    return TemplateStore(tmp_path / "state")


@pytest.fixture
def recipe() -> FakeRecipe:
    return FakeRecipe()
