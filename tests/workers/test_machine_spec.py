"""What machine a run asks for: the operator's sizes, or the template's where it needs more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.settings import SettingsError, load_settings
from sandbox.provider import Template
from workers.services import probable_machine

GIVEN = {
    "DRYDOCK_MODEL": "openai/x",
    "DRYDOCK_MODEL_API_BASE": "http://127.0.0.1:8081/v1",
    "DRYDOCK_MEMORY_MIB": "1024",
    "DRYDOCK_CPUS": "3",
}


def make_template(folder: Path, **facts: object) -> Template:
    (folder / "rootfs").mkdir()
    (folder / "template.json").write_text(json.dumps(facts))
    (folder / "prices.json").write_text("{}")
    return Template("mine", "0" * 64, folder)


def test_a_template_that_needs_more_gets_more_and_never_less(tmp_path: Path) -> None:
    template = make_template(tmp_path, machine={"memory_mib": 4096, "cpus": 2, "disk_mib": 65536})
    spec = probable_machine(load_settings(None, GIVEN), template)
    assert (spec.memory_mib, spec.cpus, spec.disk_mib) == (4096, 3, 65536)


def test_a_template_that_says_nothing_gets_what_the_operator_gives(tmp_path: Path) -> None:
    settings = load_settings(None, GIVEN)
    spec = probable_machine(settings, make_template(tmp_path))
    assert (spec.memory_mib, spec.cpus, spec.disk_mib) == (1024, 3, settings.disk_mib)
    assert spec.warm is not None


def test_without_a_model_nobody_knows_which_aider_is_to_wake_up(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="DRYDOCK_MODEL"):
        probable_machine(load_settings(None, {}), make_template(tmp_path))
