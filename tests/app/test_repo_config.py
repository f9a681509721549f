from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.repo_config import (
    MAX_BYTES,
    ConfigError,
    DetectedCommands,
    RepoConfig,
    detect_commands,
    json_schema,
    parse_repo_config,
)


def good(text: str) -> RepoConfig:
    found = parse_repo_config(text.encode())
    assert isinstance(found, RepoConfig), found
    return found


def bad(data: str | bytes) -> ConfigError:
    found = parse_repo_config(data.encode() if isinstance(data, str) else data)
    assert isinstance(found, ConfigError), found
    return found


@pytest.mark.parametrize("data", [None, b"", b"# nothing\n", b"---\n", b"\xef\xbb\xbf"])
def test_no_file_and_an_empty_one_give_the_defaults(data: bytes | None) -> None:
    assert parse_repo_config(data) == RepoConfig.model_validate({})


def test_every_key_is_read() -> None:
    config = good("base: dev\ntest: make test\nlint: ruff check\nsetup: [a, b]\ndraft: false\n")
    assert (config.base, config.test, config.lint) == ("dev", "make test", "ruff check")
    assert (config.setup, config.draft) == (("a", "b"), False)


def test_one_setup_command_needs_no_list() -> None:
    assert good("setup: npm ci").setup == ("npm ci",)


def test_a_command_may_have_several_lines() -> None:
    assert good("test: |\n  a\n  b\n").test == "a\nb"


@pytest.mark.parametrize(
    ("text", "line", "words", "nearest"),
    [
        ("base: x\ntset: y\n", 2, "unknown key tset", "test"),
        ("Test: y\n", 1, "unknown key Test", "test"),
        ("zzzzz: y\n", 1, "unknown key zzzzz", None),
        ("test: a\ntest: b\n", 2, "the key test is already in line 1", None),
        ("base: main\n\ndraft: 'yes'\n", 3, "draft must be true or false", None),
        ("test: 5\n", 1, "test must be text", None),
        ("test: yes\n", 1, "test must be text", None),
        ("test: ''\n", 1, "test must not be empty", None),
        ("test:\n  a: b\n", 1, "test must be text", None),
        ("setup: {a: b}\n", 1, "setup must be a command or a list of commands", None),
        ("setup: [1]\n", 1, "setup must be text", None),
        ("base: 'a..b'\n", 1, "base is not a name that git takes", None),
        ("- a\n- b\n", 1, "list of `key: value`", None),
        ("just text", 1, "list of `key: value`", None),
        ("test: &a x\nlint: *a\n", 2, "aliases", None),
        ("test: [\n", 2, "not valid YAML", None),
        ("a: b\n---\nc: d\n", 2, "not valid YAML", None),
        ("test: !!python/object/apply:os.system [x]\n", 1, "not valid YAML", None),
        ("test: \x07\n", None, "not valid YAML", None),
        ("draft: 2024-99-99\n", None, "not valid YAML", None),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_nearest_key(
    text: str, line: int | None, words: str, nearest: str | None
) -> None:
    error = bad(text)
    assert words in error.reason
    assert (error.line, error.nearest) == (line, nearest)


def test_a_file_that_is_too_large_too_deep_or_no_text_is_refused() -> None:
    assert "larger than 64 KiB" in bad(b"#" * (MAX_BYTES + 1)).reason
    assert "nested too deeply" in bad("test: " + "[" * 5000).reason
    assert "not UTF-8" in bad(b"\xff\xfe").reason


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{b}: &{b} [*{a},*{a},*{a},*{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    assert "aliases" in bad("\n".join(lines)).reason


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_parser(data: bytes) -> None:
    parse_repo_config(data)


@given(st.text(alphabet="abtes:-[]{}&*!|>'\"\n #%@`,?\t", max_size=60))
def test_no_yaml_crashes_the_parser(text: str) -> None:
    parse_repo_config(text.encode())


def test_the_schema_lists_exactly_the_keys_and_refuses_others() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(RepoConfig.model_fields)
    assert schema["additionalProperties"] is False
    assert all("description" in value for value in schema["properties"].values())
    json.dumps(schema)


def detect(files: Mapping[str, str]) -> DetectedCommands:
    return detect_commands(files, lambda p: files[p].encode() if p in files else None)


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({}, None),
        ({"README.md": ""}, None),
        ({"pytest.ini": ""}, "python3 -m pytest -q"),
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, "python3 -m pytest -q"),
        ({"pyproject.toml": "= broken"}, None),
        ({"pyproject.toml": "tool = 3"}, None),
        ({"setup.cfg": "[tool:pytest]\n"}, "python3 -m pytest -q"),
        ({"tox.ini": "[pytest]\n"}, "python3 -m pytest -q"),
        ({"tox.ini": "broken"}, None),
        ({"tests/conftest.py": ""}, "python3 -m pytest -q"),
        ({"tests/test_a.py": "def test_x():\n    pass"}, "python3 -m pytest -q"),
        ({"a_test.py": "import pytest"}, "python3 -m pytest -q"),
        ({"test_a.py": "import unittest"}, "python3 -m unittest discover"),
        ({"tests/test_a.py": "import unittest"}, "python3 -m unittest discover -s tests"),
        (
            {"tests/__init__.py": "", "tests/test_a.py": "from unittest import TestCase"},
            "python3 -m unittest discover -s tests -t .",
        ),
        ({"$(x)/test_a.py": "import unittest"}, None),
        ({"package.json": '{"scripts": {"test": "node --test"}}'}, "npm test"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'}, None),
        ({"package.json": "[]"}, None),
        ({"package.json": '{"scripts": []}'}, None),
        ({"package.json": "broken"}, None),
        ({"go.mod": "", "a_test.go": ""}, "go test ./..."),
        ({"go.mod": ""}, None),
        ({"Cargo.toml": ""}, "cargo test"),
        ({"Makefile": "all:\n\ntest: all\n\t./t"}, "make test"),
        ({"Makefile": "tests:\n\ntest := 5\n"}, None),
        ({"pytest.ini": "", "Makefile": "test:\n"}, "python3 -m pytest -q"),
    ],
)
def test_a_test_command_is_found_from_the_repository(
    files: Mapping[str, str], command: str | None
) -> None:
    found = detect(files)
    assert found.test == command
    assert found.why


def test_a_listed_file_that_cannot_be_read_is_no_error() -> None:
    names = ["package.json", "Makefile", "pyproject.toml", "setup.cfg", "test_a.py"]
    assert detect_commands(names, lambda _: None).test is None


def test_egress_may_be_narrowed() -> None:
    config = parse_repo_config(b"egress:\n  registries: [pip]\n  hosts: []\n")
    assert isinstance(config, RepoConfig)
    assert config.egress is not None
    assert (config.egress.registries, config.egress.hosts) == (("pip",), ())


@pytest.mark.parametrize(
    ("text", "reason", "nearest"),
    [
        ("egress:\n  registry: [pip]\n", "unknown key registry in egress", "registries"),
        ("egress:\n  hosts: a.example\n", "egress: hosts must be a list of names", None),
        ("egress:\n  hosts: [5]\n", "egress: hosts must be a list of names", None),
        ("egress: all\n", "egress must be a list of `key: value`", None),
    ],
)
def test_wrong_egress_is_explained(text: str, reason: str, nearest: str | None) -> None:
    assert parse_repo_config(text.encode()) == ConfigError(reason, 1, nearest)


@pytest.mark.parametrize(
    "text",
    [
        "test: !!bool maybe",
        'test: !!int ""',
        'test: !!float ""',
        'test: !!int "-"',
        "test: !!timestamp foo",
        "protected_paths:\n  x/**: refuse\n  x/**: allow\n",
        "egress:\n  hosts: [a]\n  hosts: []\n",
        "egress:\n  <<: {hosts: [a]}\n",
    ],
)
def test_tags_that_do_not_fit_and_nested_duplicates_are_refused(text: str) -> None:
    assert isinstance(parse_repo_config(text.encode()), ConfigError)
