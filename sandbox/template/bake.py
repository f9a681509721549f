"""Bake a template: once, under the store's lock, visible only when it is complete.

A bake may be interrupted at any instruction, SIGKILL included, and repeated: what it was building
lies in a `.tmp-*` folder that the next holder of the lock removes. A second process that wants the
same template waits, and then finds it done.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.provider import Template
from sandbox.template import host, recipe
from sandbox.template.definition import (
    RECIPE_VERSION,
    Definition,
    load_definition,
    load_named,
    lock_digest,
)
from sandbox.template.recipe import DebianRecipe, Recipe, StepFailed
from sandbox.template.store import TemplateStore, tree_size

__all__ = ["BakeFailed", "BakeProgress", "Progress", "bake", "ensure", "load_definition"]

# A bake's own peak: layer, unpacked tree and pip's downloads. Measured: 1.2 GB.
NEEDED_BYTES = 2 * 1024**3
_FULL = ("No space left on device", "Disk quota exceeded")


class BakeFailed(Exception):
    """No template was made; the message says what the operator can do about it."""


@dataclass(frozen=True)
class BakeProgress:
    """One phase of a bake that begins (`seconds` is None) or has ended, with its seconds."""

    phase: str
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.phase} …" if self.seconds is None else f"{self.phase}: {self.seconds:.1f} s"


Progress = Callable[[BakeProgress], None]


@contextlib.contextmanager
def phase(progress: Progress, name: str) -> Iterator[None]:
    """Tell of a phase when it begins, and of its seconds when it has ended."""
    begun = time.monotonic()
    progress(BakeProgress(name))
    yield
    progress(BakeProgress(name, time.monotonic() - begun))


def ensure(
    name: str,
    state_dir: Path,
    progress: Progress = lambda _step: None,
    *,
    ca_bundle: Path | None = None,
) -> Template:
    """The current template of a built-in definition, or a file's, baked now if it is not there.

    Errors: `DefinitionError`, `HostError`, `BakeFailed`.
    """
    store = TemplateStore(state_dir, ca_bundle=ca_bundle)
    return bake(load_named(name), store, progress)


def bake(
    definition: Definition,
    store: TemplateStore,
    progress: Progress = lambda _step: None,
    *,
    cook: Recipe | None = None,
) -> Template:
    """Find or make the template of `definition`. Errors: `BakeFailed`, `HostError`."""
    found = store.find_definition(definition)
    if found:
        return found
    chosen = cook or _debian_recipe(definition, store)
    waiting = BakeProgress("another process is baking; waiting for it")
    with clear_errors(store), store.lock(lambda: progress(waiting)) as lock_fd:
        found = store.find_definition(definition)
        return found or _Bake(definition, store, progress, chosen, lock_fd).run()


def _debian_recipe(definition: Definition, store: TemplateStore) -> Recipe:
    check_host_tools()
    return DebianRecipe(host.collect(definition.suite), host.read_certificates(store.ca_bundle))


def check_host_tools(
    find: Callable[[str], str | None] = host.find_tool,
    tools: Mapping[str, str] = recipe.HOST_TOOLS,
) -> None:
    """`BakeFailed` names every missing program and the one command that installs them."""
    missing = [tool for tool in tools if find(tool) is None]
    if missing:
        packages = " ".join(dict.fromkeys(tools[tool] for tool in missing))
        raise BakeFailed(
            f"baking a template needs {', '.join(missing)}, not found on this host; "
            f"on Debian or Ubuntu: apt-get install {packages}"
        )


@dataclass(frozen=True)
class _Bake:
    """One bake, with the lock held."""

    definition: Definition
    store: TemplateStore
    progress: Progress
    cook: Recipe
    lock_fd: int

    def run(self) -> Template:
        _check_space(self.store.root)
        begun = time.monotonic()
        base = self.store.layer(self.definition)
        if not base.exists():
            with phase(self.progress, "operating system"):
                self._make_base(base)
        with phase(self.progress, f"Aider {self.definition.aider_version}"):
            return self._make_template(base, begun)

    def _make_base(self, base: Path) -> None:
        with self.store.scratch(self.lock_fd) as scratch:
            tar = scratch.path / "base.tar"
            self.cook.build_base(self.definition, tar, scratch)
            _flush(tar)
            tar.rename(base)

    def _make_template(self, base: Path, begun: float) -> Template:
        with self.store.scratch(self.lock_fd) as scratch:
            made = scratch.path / "template"
            made.mkdir(mode=0o755)
            facts = self.cook.assemble(self.definition, base, made, scratch)
            digest = self.store.digest_of(self.definition)
            facts["bake_seconds"] = round(time.monotonic() - begun, 3)
            _write_facts(made / "template.json", self.definition, self.store, facts)
            made.rename(self.store.root / digest)
        return Template(self.definition.name, digest, self.store.root / digest)


def _write_facts(
    path: Path, definition: Definition, store: TemplateStore, facts: dict[str, Any]
) -> None:
    """template.json is written last: a folder without it is no template."""
    data = {
        "format": 1,
        "name": definition.name,
        "description": definition.description,
        "digest": store.digest_of(definition),
        "recipe": RECIPE_VERSION,
        "architecture": host.architecture(),
        "suite": definition.suite,
        "packages": sorted(definition.packages),
        "aider_version": definition.aider_version,
        "aider_lock": lock_digest(definition),
        "base_layer": store.layer(definition).stem,
        "ca": host.read_certificates(store.ca_bundle).digest,
        "environment": recipe.guest_environment(definition),
        "setup": definition.setup,
        "machine": dict(definition.machine),
        "created_at": time.time(),
        "size_bytes": tree_size(path.parent),
        **facts,
    }
    with path.open("w", encoding="utf-8") as file:
        json.dump(data, file, indent=2, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def _flush(path: Path) -> None:
    """Have the bytes on the disk before the name says that they are there."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _check_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise OSError(errno.ENOSPC, "too little space to begin", str(folder))


@contextlib.contextmanager
def clear_errors(store: TemplateStore) -> Iterator[None]:
    """Say a full disk and a failed tool in the operator's words."""
    try:
        yield
    except StepFailed as error:
        if any(sign in error.tail for sign in _FULL):
            raise BakeFailed(_disk_full(store)) from error
        raise BakeFailed(f"the template was not baked: {error}") from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise BakeFailed(_disk_full(store)) from error
        raise BakeFailed(f"the template was not baked: {error}") from error


def _disk_full(store: TemplateStore) -> str:
    free = shutil.disk_usage(store.state_dir).free / 1024**3
    return (
        f"the disk of {store.root} is full: {free:.1f} GiB free, a bake needs "
        f"{NEEDED_BYTES / 1024**3:.0f} GiB; make room (`drydock template list` and `rm`), "
        "or name another state directory"
    )
