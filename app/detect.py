"""A test command found from a repository's files, where its config names none. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

Read = Callable[[str], bytes | None]
_MAX_TEST_FILES = 50
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
_PYTEST_USE = re.compile(
    rb"^[ \t\r\f]*+(?:import pytest|from pytest)|^(?:async )?def test_", re.MULTILINE
)
_UNITTEST_USE = re.compile(rb"^[ \t\r\f]*+(?:import unittest|from unittest)", re.MULTILINE)
_MAKE_TEST = re.compile(rb"^test\s*:(?!=)", re.MULTILINE)
_NPM_PLACEHOLDER = "no test specified"


@dataclass(frozen=True)
class DetectedCommands:
    """A test command found from the repository's files, and by what. None when none was found."""

    test: str | None
    why: str


def detect_commands(paths: Iterable[str], read: Read) -> DetectedCommands:
    """Find how a repository's tests are run, from its tree at the base.

    `paths` are all files; `read` returns one file's bytes, None when there is none. Order:
    pytest, unittest, npm, Go, Cargo, make; the first one found wins.
    """
    tree = frozenset(paths)
    for find in (_pytest, _unittest, _npm, _go, _cargo, _make):
        found = find(tree, read)
        if found is not None:
            return found
    return DetectedCommands(None, "no tests were found in the repository")


def _pytest(tree: frozenset[str], read: Read) -> DetectedCommands | None:
    command = "python3 -m pytest -q"
    why = _pytest_configured(tree, read)
    if why is None:
        why = next((p for p, text in _test_files(tree, read) if _PYTEST_USE.search(text)), None)
    return DetectedCommands(command, f"found {why}") if why else None


def _pytest_configured(tree: frozenset[str], read: Read) -> str | None:
    if "pytest.ini" in tree:
        return "pytest.ini"
    tool = _toml(read, "pyproject.toml", tree).get("tool")
    if isinstance(tool, dict) and "pytest" in tool:
        return "[tool.pytest] in pyproject.toml"
    for name, section in (("setup.cfg", "tool:pytest"), ("tox.ini", "pytest")):
        if name in tree and _has_section(read(name), section):
            return f"[{section}] in {name}"
    return next((p for p in sorted(tree) if PurePosixPath(p).name == "conftest.py"), None)


def _unittest(tree: frozenset[str], read: Read) -> DetectedCommands | None:
    path = next((p for p, text in _test_files(tree, read) if _UNITTEST_USE.search(text)), None)
    if path is None:
        return None
    folder = PurePosixPath(path).parent
    if str(folder) == ".":
        return DetectedCommands("python3 -m unittest discover", f"found {path}")
    top = PurePosixPath(path).parts[0]
    # Discovery imports test files by name: from the root if the folder is a package.
    root = " -t ." if f"{top}/__init__.py" in tree else ""
    start = top if _plain_name(top) else None
    if start is None:
        return None
    return DetectedCommands(f"python3 -m unittest discover -s {start}{root}", f"found {path}")


def _plain_name(name: str) -> bool:
    """Only such names go into a command line unquoted."""
    return bool(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name))


def _npm(tree: frozenset[str], read: Read) -> DetectedCommands | None:
    if "package.json" not in tree:
        return None
    try:
        package = json.loads(read("package.json") or b"")
        script = package["scripts"]["test"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not isinstance(script, str) or _NPM_PLACEHOLDER in script:
        return None
    return DetectedCommands("npm test", "found a test script in package.json")


def _go(tree: frozenset[str], _read: Read) -> DetectedCommands | None:
    if "go.mod" in tree and any(path.endswith("_test.go") for path in tree):
        return DetectedCommands("go test ./...", "found go.mod and *_test.go")
    return None


def _cargo(tree: frozenset[str], _read: Read) -> DetectedCommands | None:
    return DetectedCommands("cargo test", "found Cargo.toml") if "Cargo.toml" in tree else None


def _make(tree: frozenset[str], read: Read) -> DetectedCommands | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        if name in tree and _MAKE_TEST.search(read(name) or b""):
            return DetectedCommands("make test", f"found the target test in {name}")
    return None


def _test_files(tree: frozenset[str], read: Read) -> Sequence[tuple[str, bytes]]:
    """The first test files by depth and name: a few tell which runner the project uses."""
    names = sorted((p for p in tree if _TEST_FILE.search(p)), key=lambda p: (p.count("/"), p))
    return [(name, read(name) or b"") for name in names[:_MAX_TEST_FILES]]


def _toml(read: Read, name: str, tree: frozenset[str]) -> Mapping[str, Any]:
    if name not in tree:
        return {}
    try:
        return tomllib.loads((read(name) or b"").decode())
    except (ValueError, RecursionError):
        return {}


def _has_section(data: bytes | None, section: str) -> bool:
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string((data or b"").decode())
    except (IniError, ValueError):
        return False
    return parser.has_section(section)
