from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli import template as module
from cli.main import drydock
from sandbox.template.bake import BakeFailed, bake
from sandbox.template.definition import Definition, load_builtin
from sandbox.template.recipe import Scratch
from sandbox.template.store import TemplateStore


class TinyRecipe:
    def build_base(self, definition: Definition, tar: Path, scratch: Scratch) -> None:
        tar.touch()

    def assemble(
        self, definition: Definition, base: Path, into: Path, scratch: Scratch
    ) -> dict[str, Any]:
        (into / "rootfs").mkdir()
        return {}


@pytest.fixture(autouse=True)
def tiny_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(definition: Definition, store: TemplateStore, progress: Any) -> Any:
        return bake(definition, store, progress, cook=TinyRecipe())

    monkeypatch.setattr(module, "bake", tiny)


def drydock_template(state: Path, *args: str) -> Result:
    return CliRunner().invoke(drydock, ["template", "--state-dir", str(state), *args])


def test_bake_says_what_it_made_and_tells_its_phases_on_stderr(tmp_path: Path) -> None:
    result = drydock_template(tmp_path, "bake")
    digest = TemplateStore(tmp_path).digest_of(load_builtin("default"))
    assert result.exit_code == 0
    assert result.stdout == f"default {digest[:12]} {tmp_path}/templates/{digest}\n"
    assert "operating system …" in result.stderr.splitlines()


def test_a_second_bake_does_nothing(tmp_path: Path) -> None:
    first, second = (drydock_template(tmp_path, "bake", "--json") for _ in range(2))
    assert json.loads(first.stdout) == json.loads(second.stdout)
    assert second.stderr == ""


def test_list_and_show_print_facts_as_json(tmp_path: Path) -> None:
    drydock_template(tmp_path, "bake")
    (listed,) = json.loads(drydock_template(tmp_path, "list", "--json").stdout)
    shown = json.loads(drydock_template(tmp_path, "show", "default", "--json").stdout)
    assert listed == shown
    assert (shown["name"], shown["current"]) == ("default", True)
    assert shown["aider_version"] == "0.86.2"


def test_list_and_show_are_readable(tmp_path: Path) -> None:
    assert "`drydock template bake` makes one" in drydock_template(tmp_path, "list").stdout
    drydock_template(tmp_path, "bake")
    assert "default" in drydock_template(tmp_path, "list").stdout
    assert "suite: bookworm\n" in drydock_template(tmp_path, "show").stdout


def test_rm_removes_by_name_and_says_so(tmp_path: Path) -> None:
    drydock_template(tmp_path, "bake")
    result = drydock_template(tmp_path, "rm", "default")
    assert (result.exit_code, result.stdout.split()[:2]) == (0, ["removed", "default"])
    assert TemplateStore(tmp_path).list() == []


def test_rm_stale_keeps_what_is_current(tmp_path: Path) -> None:
    drydock_template(tmp_path, "bake")
    old = Definition(**{**load_builtin("default").__dict__, "description": "older"})
    bake(old, TemplateStore(tmp_path), cook=TinyRecipe())
    drydock_template(tmp_path, "rm", "--stale")
    assert [info.current for info in TemplateStore(tmp_path).list()] == [True]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("bake", "nope"), "'nope' is not one of default, node, nor a .toml file"),
        (("rm",), "name a template, or pass --stale"),
        (("list", "--nope"), "No such option"),
    ],
)
def test_wrong_use_is_exit_status_2(args: tuple[str, ...], says: str, tmp_path: Path) -> None:
    result = drydock_template(tmp_path, *args)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize("args", [("show", "nope"), ("rm", "nope"), ("bake", "absent.toml")])
def test_what_is_not_there_is_exit_status_1_and_one_message(
    args: tuple[str, ...], tmp_path: Path
) -> None:
    result = drydock_template(tmp_path, *args)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_failed_bake_is_exit_status_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise BakeFailed("the disk is full")

    monkeypatch.setattr(module, "bake", fail)
    result = drydock_template(tmp_path, "bake")
    assert (result.exit_code, result.stderr) == (1, "Error: the disk is full\n")


@pytest.mark.parametrize("command", ["", "bake", "list", "show", "rm"])
def test_every_command_has_help(command: str, tmp_path: Path) -> None:
    result = drydock_template(tmp_path, *command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def make_warm_machine(state: Path, digest: str, used_at: float) -> Path:
    path = TemplateStore(state).vm_layer("warm", "0" * 64)
    path.mkdir(parents=True)
    (path / "warm.json").write_text(json.dumps({"template_digest": digest}))
    (path / "memory").write_bytes(bytes(10_000))
    os.utime(path, (used_at, used_at))
    return path


def test_what_virtual_machines_start_from_is_shown_with_its_template(tmp_path: Path) -> None:
    drydock_template(tmp_path, "bake")
    digest = TemplateStore(tmp_path).digest_of(load_builtin("default"))
    path = make_warm_machine(tmp_path, digest, time.time())
    shown = json.loads(drydock_template(tmp_path, "show", "default", "--json").stdout)
    assert [(part["kind"], part["path"]) for part in shown["virtual"]] == [("warm", str(path))]
    assert "1 warm" in drydock_template(tmp_path, "list").stdout


def test_warm_machines_that_nobody_uses_can_be_removed(tmp_path: Path) -> None:
    drydock_template(tmp_path, "bake")
    digest = TemplateStore(tmp_path).digest_of(load_builtin("default"))
    path = make_warm_machine(tmp_path, digest, time.time() - 10 * module.DAY_S)
    kept = drydock_template(tmp_path, "rm", "--idle-days", "11")
    assert (kept.exit_code, kept.stdout, path.exists()) == (0, "", True)
    gone = drydock_template(tmp_path, "rm", "--idle-days", "9")
    assert gone.stdout.startswith("removed a warm machine, ")
    assert not path.exists()
    assert TemplateStore(tmp_path).find("default") is not None
