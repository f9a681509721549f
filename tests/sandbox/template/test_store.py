from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from sandbox.template.bake import bake
from sandbox.template.definition import Definition, DefinitionError, load_builtin
from sandbox.template.store import (
    TemplateInUse,
    TemplateNotFound,
    TemplateStore,
    remove_tree,
    tree_size,
)
from tests.sandbox.template.conftest import FakeRecipe


def test_an_empty_state_directory_has_no_templates(store: TemplateStore) -> None:
    assert store.list() == []
    assert store.find("default") is None


def test_an_unknown_definition_is_an_error_and_not_just_absent(store: TemplateStore) -> None:
    with pytest.raises(DefinitionError, match="no template definition 'nope'"):
        store.find("nope")


def test_a_folder_without_template_json_is_no_template(store: TemplateStore) -> None:
    (store.root / store.digest_of(load_builtin("default"))).mkdir(parents=True)
    assert store.find("default") is None
    assert store.list() == []


def test_a_template_is_listed_with_its_size_and_age(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    made = bake(definition, store, cook=recipe)
    (info,) = store.list()
    assert (info.name, info.digest, info.path) == ("default", made.digest, made.path)
    assert info.size_bytes > 0
    assert info.created_at > 0
    assert not info.current


@pytest.mark.parametrize("length", [6, 12, 64])
def test_a_template_is_found_by_the_first_digits_of_its_digest(
    length: int, definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    made = bake(definition, store, cook=recipe)
    assert store.lookup(made.digest[:length]).digest == made.digest
    assert store.lookup("default").digest == made.digest


@pytest.mark.parametrize("reference", ["", "abc", "nope", "../layers", "f" * 64])
def test_what_is_not_there_is_not_removed(reference: str, store: TemplateStore) -> None:
    with pytest.raises(TemplateNotFound, match="drydock template list"):
        store.remove(reference)


def test_removing_the_last_template_of_a_layer_removes_the_layer(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    made = bake(definition, store, cook=recipe)
    store.remove("default")
    assert not made.path.exists()
    assert list(store.layers.iterdir()) == []
    assert not list(store.root.glob(".tmp-*"))


def test_a_layer_that_another_template_came_from_stays(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    one = bake(definition, store, cook=recipe)
    bake(Definition(**{**definition.__dict__, "description": "other"}), store, cook=recipe)
    store.remove(one.digest)
    assert store.layer(definition).is_file()


def test_a_template_that_a_machine_runs_on_is_not_removed(
    definition: Definition, store: TemplateStore, recipe: FakeRecipe
) -> None:
    made = bake(definition, store, cook=recipe)
    machine = store.state_dir / "machines" / "m1" / "machine.json"
    machine.parent.mkdir(parents=True)
    machine.write_text(json.dumps({"template_digest": made.digest}))
    with pytest.raises(TemplateInUse, match="in use by a machine"):
        store.remove("default")
    assert made.path.is_dir()


def test_a_tree_with_read_only_folders_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "doomed" / "a" / "b"
    folder.mkdir(parents=True)
    (folder / "file").touch()
    (folder / "link").symlink_to(tmp_path)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    folder.parent.chmod(0)
    remove_tree(tmp_path / "doomed")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    remove_tree(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_hard_link_counts_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 10_000)
    before = tree_size(tmp_path)
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    assert tree_size(tmp_path) == before
