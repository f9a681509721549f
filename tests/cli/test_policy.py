from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli import policy as module
from cli.main import drydock
from cli.policy import decide_url
from egress.policy import Grant, GrantKind, Manifest, Phase, Wire, manifest_hash
from sandbox.provider import Template

PIP = 'PyPI = PackageIndex("https://index.example/", file_storage_domain="files.example")\n'
ROUTE = Grant(
    "openai", GrantKind.MODEL_ROUTE, "https", "api.example", 443, wire=Wire.OPENAI, credential="k"
)
TLS = Grant("pip", GrantKind.TUNNEL, "https", "files.example", 443, phases=frozenset({Phase.SETUP}))
PLAIN = replace(TLS, name="apt", scheme="http", host="deb.example", port=80, path_prefix="/debian")
MANIFEST = Manifest("r", (ROUTE, TLS, PLAIN))


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A baked template with pip, a model, and a provider that needs no probing."""
    pip = tmp_path / "rootfs/usr/lib/python3/dist-packages/pip/_internal/models/index.py"
    pip.parent.mkdir(parents=True)
    pip.write_text(PIP)
    (tmp_path / "prices.json").write_text("{}")
    found = Template("default", "d" * 64, tmp_path)
    monkeypatch.setattr(module, "find_template", lambda *_: found)
    monkeypatch.setattr(module, "system_resolve", lambda *_: ["93.184.215.14"])
    for name, value in {
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": "/dev/null",
        "DRYDOCK_STATE_DIR": str(tmp_path),
        "DRYDOCK_MODEL": "openai/gpt-4o",
        "DRYDOCK_MODEL_API_KEY": "never-shown-anywhere",
        "DRYDOCK_PROVIDER": "bubblewrap",
        "DRYDOCK_BUDGET_REPO_DAY_USD": "20",
    }.items():
        monkeypatch.setenv(name, value)


def show(*arguments: str) -> Any:
    done = CliRunner().invoke(drydock, ["policy", "show", "octo/ship", "--json", *arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_the_whole_manifest_is_shown_without_a_secret() -> None:
    shown = show()
    assert [grant["name"] for grant in shown["grants"]["agent"]] == ["openai"]
    assert {grant["name"] for grant in shown["grants"]["setup"]} == {"pip", "pip.2"}
    assert shown["grants"]["verify"] == []
    assert shown["terms"] == {
        "credentials": "openai",
        "pinned_only": "false",
        "refs": "refs/heads/aider/* refs/heads/aider-*",
        "template": "d" * 64,
        "tier": "bubblewrap",
        "ttl_s": "3600",
        "cap:usd": "5",
        "cap:repo_day_usd": "20",
    }
    assert "never-shown-anywhere" not in str(shown)


def test_the_table_says_the_same() -> None:
    done = CliRunner().invoke(drydock, ["policy", "show", "octo/ship"])
    assert done.exit_code == 0
    assert show()["sha256"] in done.output


def test_a_repository_that_narrows_has_another_hash(tmp_path: Path) -> None:
    config = tmp_path / "drydock.yml"
    config.write_text("egress:\n  registries: []\n")
    narrowed = show("--repo-config", str(config))
    assert narrowed["grants"]["setup"] == []
    assert narrowed["sha256"] != show()["sha256"]


def test_a_repository_that_shortens_a_run_or_makes_it_cheaper_has_another_hash(
    tmp_path: Path,
) -> None:
    config = tmp_path / "drydock.yml"
    config.write_text("ttl: 20m\nbudget_usd: 1.5\n")
    shown = show("--repo-config", str(config))
    assert (shown["terms"]["ttl_s"], shown["terms"]["cap:budget_usd"]) == ("1200", "1.5")
    assert shown["terms"]["cap:usd"] == "5"
    assert shown["sha256"] != show()["sha256"]


def test_a_repository_that_asks_for_more_is_an_error(tmp_path: Path) -> None:
    config = tmp_path / "drydock.yml"
    config.write_text("egress:\n  hosts: [a.example]\n")
    done = CliRunner().invoke(
        drydock, ["policy", "show", "octo/ship", "--repo-config", str(config)]
    )
    assert done.exit_code != 0
    assert "is not open on this host" in done.output


def test_other_terms_are_another_hash() -> None:
    first = Manifest("r", (TLS,), (("ttl_s", "3600"),))
    assert manifest_hash(first) != manifest_hash(replace(first, terms=(("ttl_s", "60"),)))
    assert manifest_hash(first) == manifest_hash(replace(first, run_id="other"))


@pytest.mark.parametrize(
    ("url", "method", "phase", "allowed", "says"),
    [
        ("https://files.example/x", "GET", Phase.SETUP, True, "granted"),
        ("https://files.example/x", "GET", Phase.AGENT, False, "belongs to setup"),
        ("https://files.example:444/x", "GET", Phase.SETUP, False, "on port 443 only"),
        ("http://deb.example/debian/x", "GET", Phase.SETUP, True, "granted"),
        ("http://deb.example/other", "GET", Phase.SETUP, False, "below /debian"),
        ("http://deb.example/debian", "PUT", Phase.SETUP, False, "not PUT"),
        ("https://api.example/v1", "GET", Phase.AGENT, False, "model route 'openai' alone"),
        ("ftp://files.example/", "GET", Phase.SETUP, False, "only http:// and https://"),
        ("https://files.example:x/", "GET", Phase.SETUP, False, "is no address"),
    ],
)
def test_one_address_is_judged_as_the_broker_would(
    url: str, method: str, phase: Phase, allowed: bool, says: str
) -> None:
    decision = decide_url(MANIFEST, phase, url, method)
    assert decision.allowed is allowed
    assert says in decision.reason


def test_an_address_that_leads_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "system_resolve", lambda *_: ["10.0.0.1"])
    assert not decide_url(MANIFEST, Phase.SETUP, "https://files.example/", "GET").allowed


@pytest.mark.parametrize(("url", "status"), [("https://files.example/", 0), ("https://x.test/", 1)])
def test_the_exit_status_says_whether_any_phase_may(url: str, status: int) -> None:
    assert CliRunner().invoke(drydock, ["policy", "check", url]).exit_code == status


def test_an_address_without_its_scheme_is_wrong_use() -> None:
    done = CliRunner().invoke(drydock, ["policy", "check", "x.test"])
    assert done.exit_code == 2
    assert "https://x.test" in done.output


def test_a_wrong_repository_name_is_wrong_use() -> None:
    assert CliRunner().invoke(drydock, ["policy", "show", "ship"]).exit_code == 2
