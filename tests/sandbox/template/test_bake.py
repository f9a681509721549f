from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.template import bake as module
from sandbox.template.bake import BakeFailed, BakeProgress, bake, check_host_tools, ensure
from sandbox.template.definition import Definition
from sandbox.template.recipe import StepFailed
from sandbox.template.store import TemplateStore
from tests.sandbox.template.conftest import FakeRecipe, make_lock

BAKER = Path(__file__).parent / "baker.py"


def leftovers(store: TemplateStore) -> list[str]:
    return [path.name for path in store.root.glob(".tmp-*")]


def test_a_template_is_baked_once_and_then_found(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    made = bake(definition, store, cook=recipe)
    again = bake(definition, store, cook=recipe)
    assert made == again == store.find_definition(definition)
    assert (recipe.bases, recipe.templates) == (1, 1)
    assert made.path == store.root / made.digest
    assert leftovers(store) == []


def test_template_json_says_what_made_it(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    made = bake(definition, store, cook=recipe)
    facts = json.loads((made.path / "template.json").read_text())
    assert facts["digest"] == made.digest
    assert facts["packages"] == ["git", "python3"]
    assert facts["environment"]["SSL_CERT_FILE"].endswith("ca-certificates.crt")
    assert facts["work_owner"] == "work"
    assert (store.layers / f"{facts['base_layer']}.tar").is_file()


def test_a_changed_lock_bakes_a_new_template_from_the_same_base(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    one = bake(definition, store, cook=recipe)
    changed = dataclasses.replace(definition, aider_lock=make_lock() + "# newer\n")
    two = bake(changed, store, cook=recipe)
    assert one.digest != two.digest
    assert (recipe.bases, recipe.templates) == (1, 2)


def test_phases_are_told_with_their_seconds(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    steps: list[BakeProgress] = []
    bake(definition, store, steps.append, cook=recipe)
    assert [step.phase for step in steps] == ["operating system"] * 2 + ["Aider 1.2.3"] * 2
    assert [step.seconds is None for step in steps] == [True, False] * 2
    assert str(BakeProgress("base", 1.25)) in {"base: 1.2 s", "base: 1.3 s"}


@pytest.mark.parametrize("error", [StepFailed("pip ended with status 1", "E: refused"), OSError(5)])
def test_a_failed_bake_leaves_nothing_and_can_be_repeated(
    error: Exception, definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    recipe.fail_in_template = error
    with pytest.raises(BakeFailed, match="the template was not baked"):
        bake(definition, store, cook=recipe)
    assert (leftovers(store), store.list()) == ([], [])
    recipe.fail_in_template = None
    assert bake(definition, store, cook=recipe)
    assert recipe.bases == 1


def test_a_failed_base_is_no_layer(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    recipe.fail_in_base = StepFailed("mmdebstrap ended with status 25", "E: no route to host")
    with pytest.raises(BakeFailed, match="no route to host"):
        bake(definition, store, cook=recipe)
    assert list(store.layers.iterdir()) == []


@pytest.mark.parametrize("place", ["fail_in_base", "fail_in_template"])
def test_an_interrupt_leaves_nothing(
    place: str, definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    setattr(recipe, place, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        bake(definition, store, cook=recipe)
    assert (leftovers(store), store.list()) == ([], [])


@pytest.mark.parametrize(
    "error",
    [
        StepFailed("tar ended with status 2", "tar: ./usr: Cannot write: No space left on device"),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
    ],
)
def test_a_full_disk_is_said_in_words(
    error: Exception, definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    recipe.fail_in_template = error
    with pytest.raises(
        BakeFailed, match=r"the disk of .* is full: .* GiB free, a bake needs 2 GiB"
    ):
        bake(definition, store, cook=recipe)


def test_a_disk_that_is_too_small_is_refused_before_the_work(
    definition: Definition,
    store: TemplateStore,
    recipe: FakeRecipe,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "NEEDED_BYTES", 1 << 80)
    with pytest.raises(BakeFailed, match="is full"):
        bake(definition, store, cook=recipe)
    assert recipe.bases == 0


def test_missing_tools_are_named_with_the_command_that_installs_them() -> None:
    found = {"tar": "/usr/bin/tar", "unshare": "/usr/bin/unshare", "sync": "/usr/bin/sync"}
    with pytest.raises(BakeFailed) as caught:
        check_host_tools(found.get)
    assert "mmdebstrap, bwrap" in str(caught.value)
    assert "apt-get install mmdebstrap bubblewrap" in str(caught.value)


@contextmanager
def baker(state: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(BAKER), str(state)],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], start: str) -> str:
    assert process.stdout
    for line in process.stdout:
        if line.startswith(start):
            return line.strip()
    pytest.fail(f"the baker ended without saying {start!r}")


def test_of_two_bakers_at_once_one_bakes_and_the_other_finds_it_done(tmp_path: Path) -> None:
    hold = tmp_path / "hold-template"
    hold.touch()
    with baker(tmp_path) as first:
        read_until(first, "in template")
        with baker(tmp_path) as second:
            read_until(second, "progress another process is baking")
            hold.unlink()
            ends = [read_until(process, "made") for process in (first, second)]
    assert ends[0] == ends[1]
    made_by = Path(ends[0].removeprefix("made ")) / "rootfs" / "made-by"
    assert made_by.read_text() == str(first.pid)


@pytest.mark.parametrize("step", ["base", "template"])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_baker_killed_in_the_middle_leaves_nothing_that_counts(
    step: str, signum: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / f"hold-{step}").touch()
    with baker(tmp_path) as killed:
        read_until(killed, f"in {step}")
        killed.send_signal(signum)
        killed.wait(timeout=30)
    store = TemplateStore(tmp_path)
    assert store.list() == []
    (tmp_path / f"hold-{step}").unlink()
    with baker(tmp_path) as repeated:
        path = Path(read_until(repeated, "made").removeprefix("made "))
    assert (path / "prices.json").read_text() == "whole"
    assert leftovers(store) == []


def test_a_waiting_baker_takes_over_from_a_killed_one(tmp_path: Path) -> None:
    hold = tmp_path / "hold-base"
    hold.touch()
    with baker(tmp_path) as first:
        read_until(first, "in base")
        with baker(tmp_path) as second:
            read_until(second, "progress another process")
            first.kill()
            read_until(second, "in base")
            hold.unlink()
            assert read_until(second, "made")


@pytest.mark.machine
def test_the_real_default_template_holds_the_pinned_aider(tmp_path: Path) -> None:
    state = Path(__file__).parents[3] / ".drydock" / "state"
    made = ensure("default", state)
    facts = json.loads((made.path / "template.json").read_text())
    assert facts["aider_version"] == "0.86.2"
    site = made.path / "rootfs/opt/aider/lib/python3.11/site-packages"
    assert (site / "aider_chat-0.86.2.dist-info/METADATA").is_file()
    assert (site / "aider/__pycache__/main.cpython-311.pyc").is_file()
    assert "gpt-4o" in json.loads((made.path / "prices.json").read_text())
    passwd = (made.path / "rootfs/etc/passwd").read_text()
    assert "work:x:1000:1000::/home/work:/bin/bash" in passwd
