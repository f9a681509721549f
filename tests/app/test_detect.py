from __future__ import annotations

from collections.abc import Mapping

import pytest

from app.detect import DetectedCommands, detect_commands
from tests.effort import effort


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


@pytest.mark.parametrize("filler", [b"\n", b" ", b"\r\n", b" \n", b"\t"])
def test_no_file_of_a_repository_takes_long_to_look_at(filler: bytes) -> None:
    text = filler * (256 * 1024 // len(filler))
    names = ["test_a.py", "tests/test_b.py"]
    assert effort(lambda: detect_commands(names, lambda _: text), 2) < 2
