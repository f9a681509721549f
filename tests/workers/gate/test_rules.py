"""From the operator's settings and the repository's config to what the gate is given."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from app.repo_config import RepoConfig, parse_repo_config
from app.settings import SettingsError, load_settings
from workers.gate import Level, PathRule, Rule, asks_for_fewer_tests
from workers.gate.contents import look_at
from workers.gate.judge import _is_meant
from workers.gate.values import Allowance
from workers.policies import canaries_of, gate_rules


def test_the_repositorys_choice_comes_on_top_of_the_operators_floor() -> None:
    settings = load_settings(env={"DRYDOCK_PROTECTED_PATHS": "warn:docs/**, deploy/**"})
    config = parse_repo_config(b"protected_paths:\n  '*.lock': warn\n  src/**: allow\n")
    assert isinstance(config, RepoConfig)
    rules = gate_rules(settings, config)
    assert rules.floor == (PathRule("docs/**", Level.WARN), PathRule("deploy/**", Level.REFUSE))
    assert rules.paths == (PathRule("*.lock", Level.WARN), PathRule("src/**", Level.ALLOW))


def test_the_floor_protects_workflows_where_the_operator_says_nothing() -> None:
    floor = gate_rules(load_settings(env={})).floor
    assert PathRule(".github/workflows/**") in floor


def test_the_settings_file_takes_tables(tmp_path: Path) -> None:
    path = tmp_path / "drydock.toml"
    path.write_text(
        '[protected_paths]\n"a/**" = "warn"\n[gate_levels]\nbinary = "refuse"\n', encoding="utf-8"
    )
    rules = gate_rules(load_settings(path, env={}))
    assert rules.floor == (PathRule("a/**", Level.WARN),)
    assert rules.level_of(Rule.BINARY) is Level.REFUSE


@pytest.mark.parametrize("name", ["nope", "fsck", "canary"])
def test_a_level_for_a_rule_that_has_none_is_refused(name: str) -> None:
    settings = load_settings(env={"DRYDOCK_GATE_LEVELS": f"{name}=allow"})
    with pytest.raises(SettingsError, match=f"{name} is not one of"):
        gate_rules(settings)


def test_the_operators_secrets_are_canaries() -> None:
    settings = load_settings(env={"DRYDOCK_WEBHOOK_SECRET": "hush-hush-hush"})
    assert "hush-hush-hush" in canaries_of(settings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Remove the obsolete tests of the old parser", True),
        ("The test test_io is outdated", True),
        ("skip this spec on Windows", True),
        ("add() subtracts; add a test for it", False),
        ("Change or add tests where the behaviour changes.", False),
        ("", False),
    ],
)
def test_what_was_asked_for_may_be_fewer_tests(text: str, expected: bool) -> None:
    assert asks_for_fewer_tests(text) is expected


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_a_byte_order_mark_hides_no_secret_and_no_filter(mark: bytes) -> None:
    key = b"AKIA" + b"Z7VQ3XKJ5N2PWL4T"
    seen = look_at("c", b"a.txt", b"", mark + b'\naws = "' + key + b'"\n')
    assert seen is not None
    assert seen.secrets
    attributes = look_at("c", b".gitattributes", b"", mark + b"\n* filter=evil -diff\n")
    assert attributes is not None
    assert attributes.filters
    assert attributes.hidings


def test_what_was_shown_stands_for_that_file_even_if_it_is_named_like_a_glob() -> None:
    allowance = Allowance("**", "boss")
    shown = frozenset({"**", ".github/workflows/x.yml"})
    assert _is_meant(allowance, "**", shown)
    assert not _is_meant(allowance, ".github/workflows/x.yml", shown)
    assert _is_meant(allowance, "a/b", frozenset({"a/b"})), "a glob that a person wrote"
