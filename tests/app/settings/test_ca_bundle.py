from __future__ import annotations

from pathlib import Path

from app.settings import load_settings, system_ca_bundle
from tests.app.settings.helpers import problems, write


def test_the_operators_ca_bundle_wins_and_must_exist(tmp_path: Path) -> None:
    bundle = write(tmp_path / "ca.pem", "x")
    assert system_ca_bundle(load_settings(env={"DRYDOCK_CA_BUNDLE": str(bundle)})) == bundle
    assert "file that exists" in problems({"DRYDOCK_CA_BUNDLE": str(tmp_path / "no")})[0]
    found = system_ca_bundle(load_settings(env={}))
    assert found is None or found.is_file()
