"""Where baked templates are, and who may change that.

    <state>/templates/<digest>/{rootfs/, template.json, prices.json}
    <state>/templates/layers/<base digest>.tar
    <state>/templates/vm/<kind>-<digest>/           what virtual machines need besides
    <state>/templates/.lock, .tmp-*

A template or a layer appears by one rename and is complete from then on. `.tmp-*` holds what is
being built or removed; whoever gets the lock removes what a killed process left there. Readers
take no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.provider import Template
from sandbox.template.definition import (
    Definition,
    DefinitionError,
    base_digest,
    builtin_names,
    load_builtin,
    load_named,
    template_digest,
)
from sandbox.template.host import architecture, read_certificates
from sandbox.template.recipe import Scratch

_TMP_PREFIX = ".tmp-"
_MIN_PREFIX = 6


class TemplateNotFound(Exception):
    """No baked template goes by that name or digest; the message says what to run."""


class TemplateInUse(Exception):
    """A machine of this state directory still runs on that template."""


@dataclass(frozen=True)
class TemplateInfo:
    """What `template.json` says. Sizes in bytes, `created_at` in seconds since the epoch.

    `current` is true for the one that `TemplateStore.find` answers for its name.
    """

    name: str
    digest: str
    path: Path
    created_at: float
    bake_seconds: float
    size_bytes: int
    base_layer: str
    aider_version: str
    suite: str
    current: bool
    details: dict[str, Any]


@dataclass(frozen=True)
class VmPart:
    """A disk, or a warm machine. `used_at` is when one was last started from it."""

    kind: str
    path: Path
    used_at: float
    size_bytes: int


class TemplateStore:
    """The templates below one state directory.

    `ca_bundle` is the operator's file of extra certificates: it is part of what a template is.
    """

    def __init__(self, state_dir: Path, *, ca_bundle: Path | None = None) -> None:
        self.state_dir = state_dir
        self.root = state_dir / "templates"
        self.layers = self.root / "layers"
        self.ca_bundle = ca_bundle

    def digest_of(self, definition: Definition) -> str:
        """The digest that baking `definition` here and now gives. `HostError` on a bad bundle."""
        certificates = read_certificates(self.ca_bundle)
        return template_digest(definition, architecture(), certificates.digest)

    def find(self, name: str) -> Template | None:
        """The baked template of a built-in definition, or of a file's, as it stands now, or None.

        `DefinitionError` when there is no such definition.
        """
        return self.find_definition(load_named(name))

    def find_definition(self, definition: Definition) -> Template | None:
        """The baked template of exactly this definition, or None."""
        return self.get(definition.name, self.digest_of(definition))

    def get(self, name: str, digest: str) -> Template | None:
        """The template with that digest, or None."""
        path = self.root / digest
        return Template(name, digest, path) if (path / "template.json").is_file() else None

    def list(self) -> list[TemplateInfo]:
        """All baked templates, the newest first."""
        current = self._current_digests()
        found = [
            _read_info(path, current)
            for path in sorted(self.root.glob("[0-9a-f]*"))
            if (path / "template.json").is_file()
        ]
        return sorted(found, key=lambda info: -info.created_at)

    def lookup(self, reference: str) -> TemplateInfo:
        """By name (the current one, else the newest), digest, or six or more of its digits."""
        infos = self.list()
        named = sorted((i for i in infos if i.name == reference), key=lambda i: not i.current)
        if named:
            return named[0]
        matching = [i for i in infos if i.digest.startswith(reference)]
        if len(matching) == 1 and len(reference) >= _MIN_PREFIX:
            return matching[0]
        raise TemplateNotFound(
            f"no baked template {reference!r}; `drydock template list` shows what is there, "
            "`drydock template bake` makes one"
        )

    def remove(self, reference: str) -> TemplateInfo:
        """Remove one template and the layers that no other one came from.

        `TemplateNotFound`, or `TemplateInUse` while a machine runs on it.
        """
        with self.lock():
            info = self.lookup(reference)
            if info.digest in self._digests_in_use():
                raise TemplateInUse(
                    f"template {info.name} {info.digest[:12]} is in use by a machine; "
                    "end the run first, or `drydock reap`"
                )
            self.discard(info.path)
            self.collect_layers()
            self.collect_vm_layers()
        return info

    def collect_layers(self) -> tuple[str, ...]:
        """Remove base layers that no template came from; the lock must be held."""
        kept = {info.base_layer for info in self.list()}
        dropped = [path for path in self.layers.glob("*.tar") if path.stem not in kept]
        for path in dropped:
            path.unlink()
        return tuple(sorted(path.stem for path in dropped))

    def vm_layer(self, kind: str, digest: str) -> Path:
        """Where a virtual machine's layer of that kind is or will be."""
        return self.root / "vm" / f"{kind}-{digest}"

    def vm_layers(self, kind: str) -> tuple[tuple[Path, dict[str, Any]], ...]:
        """Layers of a kind that belong to one template, with what their `<kind>.json` says."""
        found = sorted((self.root / "vm").glob(f"{kind}-*/{kind}.json"))
        return tuple((path.parent, json.loads(path.read_bytes())) for path in found)

    def vm_parts(self, template_digest: str) -> tuple[VmPart, ...]:
        """What virtual machines of one template start from, the last used first."""
        found = [
            VmPart(kind, path, path.stat().st_mtime, tree_size(path))
            for kind in ("disk", "warm")
            for path, facts in self.vm_layers(kind)
            if facts["template_digest"] == template_digest
        ]
        return tuple(sorted(found, key=lambda part: -part.used_at))

    def prune_machines(self, unused_since: float) -> tuple[VmPart, ...]:
        """Remove the warm machines that nothing was started from since then.

        Machines that were started from them go on: they hold what they need.
        """
        with self.lock():
            parts = [part for info in self.list() for part in self.vm_parts(info.digest)]
            doomed = [p for p in parts if p.kind == "warm" and p.used_at <= unused_since]
            for part in doomed:
                self.discard(part.path)
        return tuple(doomed)

    def collect_vm_layers(self) -> None:
        """Remove disks and warm machines whose template is gone; the lock must be held."""
        kept = {info.digest for info in self.list()}
        for kind in ("warm", "disk"):
            for path, facts in self.vm_layers(kind):
                if facts["template_digest"] not in kept:
                    self.discard(path)

    def layer(self, definition: Definition) -> Path:
        """Where the base layer of this definition is or will be."""
        return self.layers / f"{base_digest(definition, architecture())}.tar"

    @contextlib.contextmanager
    def lock(self, on_wait: Callable[[], None] = lambda: None) -> Iterator[int]:
        """Hold the store alone; `on_wait` is called once if another process has it.

        Yields the descriptor that holds the lock. The kernel drops it when the last process that
        has it ends: a killed bake blocks nobody for longer than its tools take to end.
        """
        self.layers.mkdir(parents=True, exist_ok=True)
        with (self.root / ".lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(file, fcntl.LOCK_EX)
            self._clear_leftovers()
            yield file.fileno()

    @contextlib.contextmanager
    def scratch(self, lock_fd: int) -> Iterator[Scratch]:
        """A folder on the store's own disk, removed at the end whatever happens; lock held."""
        folder = Path(tempfile.mkdtemp(prefix=_TMP_PREFIX, dir=self.root))
        try:
            yield Scratch(folder, lock_fd)
        finally:
            remove_tree(folder)

    def discard(self, path: Path) -> None:
        """Take a template or layer away in one step, then remove its files; lock held."""
        doomed = self.root / f"{_TMP_PREFIX}gone-{path.name}"
        path.rename(doomed)
        remove_tree(doomed)

    def _clear_leftovers(self) -> None:
        for path in self.root.glob(f"{_TMP_PREFIX}*"):
            remove_tree(path)

    def _current_digests(self) -> frozenset[str]:
        found = set()
        for name in builtin_names():
            with contextlib.suppress(DefinitionError):
                found.add(self.digest_of(load_builtin(name)))
        return frozenset(found)

    def _digests_in_use(self) -> frozenset[str]:
        found = set()
        for path in (self.state_dir / "machines").glob("*/machine.json"):
            # A machine that ends meanwhile takes its file along, and uses no template any more.
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                found.add(str(json.loads(path.read_bytes()).get("template_digest")))
        return frozenset(found)


def remove_tree(path: Path) -> None:
    """Remove a tree whose folders may lack the owner's write permission (an image's may)."""

    def retry(function: Callable[..., Any], failed: str, _error: object) -> None:
        Path(failed).parent.chmod(0o700)
        if Path(failed).is_dir() and not Path(failed).is_symlink():
            Path(failed).chmod(0o700)
        function(failed)

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=retry)
    else:
        path.unlink(missing_ok=True)


def tree_size(path: Path) -> int:
    """Bytes on disk of a tree, each hard link counted once."""
    seen: set[int] = set()
    total = 0
    for folder, _dirs, files in os.walk(path):
        for name in files:
            status = (Path(folder) / name).lstat()
            if status.st_ino not in seen:
                seen.add(status.st_ino)
                total += status.st_blocks * 512
    return total


def _read_info(path: Path, current: frozenset[str]) -> TemplateInfo:
    data = json.loads((path / "template.json").read_bytes())
    return TemplateInfo(
        name=data["name"],
        digest=path.name,
        path=path,
        created_at=data["created_at"],
        bake_seconds=data["bake_seconds"],
        size_bytes=data["size_bytes"],
        base_layer=data["base_layer"],
        aider_version=data["aider_version"],
        suite=data["suite"],
        current=path.name in current,
        details=data,
    )
