"""`.github/drydock.yml` → RepoConfig or ConfigError, and a test command found without one. Pure.

The file is read from the default branch only, so what it says was merged by a maintainer; its
text is still parsed as hostile: plain scalars, no aliases, no duplicate keys, 64 KiB at most.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as IniError
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from app.branches import is_valid_branch

CONFIG_PATH = ".github/drydock.yml"
MAX_BYTES = 64 * 1024
_MAX_COMMAND = 4000
_MAX_GLOB = 300
_MAX_GLOBS = 200
_NULL = "tag:yaml.org,2002:null"


def _branch(value: str) -> str:
    if not is_valid_branch(value):
        raise ValueError("is not a name that git takes for a branch")
    return value


def _command(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _listed(value: object) -> object:
    """One command may be written without the list around it."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


ShellCommand = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=_MAX_COMMAND),
    AfterValidator(_command),
]


def _names(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


Names = Annotated[
    tuple[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)], ...],
    BeforeValidator(_names),
]


PathLevel = Literal["refuse", "warn", "allow"]
PathLevels = tuple[tuple[str, PathLevel], ...]


def _path_levels(value: object) -> object:
    """A list of globs means that each refuses; `glob: level` says it for each."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list):
        return tuple((glob, "refuse") for glob in value)
    return tuple(value.items()) if isinstance(value, dict) else value


def _globs(value: PathLevels) -> PathLevels:
    for glob, _ in value:
        if not 0 < len(glob) <= _MAX_GLOB or not glob.isprintable() or glob.startswith("/"):
            raise ValueError("must hold globs of paths from the repository's root, without a /")
    return value


class EgressWish(BaseModel):
    """What a repository needs of what the operator allows; it can only leave things out."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    registries: Names | None = Field(
        None, description="Package tools whose registries are needed; all that are open if not set."
    )
    hosts: Names | None = Field(
        None, description="Other hosts that are needed; all that are open if not set."
    )


class RepoConfig(BaseModel):
    """What a repository may say about runs on it. Commands are given to `sh -c` in the guest."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    base: Annotated[str, AfterValidator(_branch)] | None = Field(
        None, description="Branch to start from and to merge into; the default branch if not set."
    )
    test: ShellCommand | None = Field(
        None, description="Runs the tests; exit status 0 is success. Found by itself if not set."
    )
    lint: ShellCommand | None = Field(
        None, description="Checks the files that were edited, while Aider works."
    )
    setup: Annotated[tuple[ShellCommand, ...], BeforeValidator(_listed)] = Field(
        (), description="Commands that prepare the checkout, in order, before Aider starts."
    )
    draft: bool = Field(True, description="Open pull requests as drafts.")
    protected_paths: Annotated[
        PathLevels,
        Field(max_length=_MAX_GLOBS),
        BeforeValidator(_path_levels),
        AfterValidator(_globs),
    ] = Field(
        (),
        description="Globs of paths that a run may not change, or `glob: refuse|warn|allow`; the "
        "first that fits counts. The operator's own rules hold in any case.",
    )
    egress: EgressWish | None = Field(
        None, description="Narrows what runs may reach; `registries: []` and `hosts: []` close all."
    )


@dataclass(frozen=True)
class ConfigError:
    """Why the file was refused. `reason` may quote the file: render it as code.

    `line` is 1-based; None when the whole file is meant. `nearest` is the right spelling.
    """

    reason: str
    line: int | None = None
    nearest: str | None = None


@dataclass(frozen=True)
class DetectedCommands:
    """A test command found from the repository's files, and by what. None when none was found."""

    test: str | None
    why: str


class _Refused(Exception):
    def __init__(self, reason: str, line: int | None = None, nearest: str | None = None) -> None:
        super().__init__(reason)
        self.error = ConfigError(reason, line, nearest)


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases: nothing in a file of ours needs one, and a bomb does."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise _Refused("aliases (*name) are not allowed", line)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that stands twice, and merges, which could change a rule unseen."""
        seen: set[str] = set()
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if key.tag == "tag:yaml.org,2002:merge":
                raise _Refused("merges (<<) are not allowed", line)
            if name in seen:
                raise _Refused(f"the key {name[:80]} stands twice", line)
            seen.add(name)
        return super().construct_mapping(node, deep)


def parse_repo_config(data: bytes | None) -> RepoConfig | ConfigError:
    """Return the config; the defaults for None or an empty file. Total: wrong files are values."""
    if data is None:
        return RepoConfig.model_validate({})
    try:
        values, lines = _read(data)
    except _Refused as refused:
        return refused.error
    try:
        return RepoConfig.model_validate(values)
    except ValidationError as error:
        return _explain(dict(error.errors()[0]), lines)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors."""
    schema = RepoConfig.model_json_schema()
    one_or_many = schema["properties"]["setup"]
    item = one_or_many["items"]
    one_or_many["anyOf"] = [item, {"type": "array", "items": item}]
    del one_or_many["type"], one_or_many["items"]
    paths = schema["properties"]["protected_paths"]
    levels = {"type": "string", "enum": list(get_args(PathLevel))}
    paths["anyOf"] = [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object", "additionalProperties": levels},
    ]
    del paths["type"], paths["items"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _read(data: bytes) -> tuple[Mapping[str, object], Mapping[str, int]]:
    if len(data) > MAX_BYTES:
        raise _Refused(f"the file is larger than {MAX_BYTES // 1024} KiB")
    try:
        loader = _PlainLoader(data.decode("utf-8-sig"))
        return _mapping(loader, loader.get_single_node())
    except UnicodeDecodeError:
        raise _Refused("the file is not UTF-8") from None
    except RecursionError:
        raise _Refused("the file is nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else None
        raise _Refused(f"not valid YAML: {error.problem or error.context}", line) from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # PyYAML's constructors raise these for explicit tags on text that does not fit them.
        raise _Refused(f"not valid YAML: {type(error).__name__}") from None


def _mapping(
    loader: yaml.SafeLoader, root: yaml.Node | None
) -> tuple[Mapping[str, object], Mapping[str, int]]:
    if root is None or root.tag == _NULL:
        return {}, {}
    if not isinstance(root, yaml.MappingNode):
        raise _Refused("the file must be a list of `key: value`", root.start_mark.line + 1)
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for key, value in root.value:
        name, line = str(key.value), key.start_mark.line + 1
        _check_key(name, line, lines)
        lines[name] = line
        values[name] = loader.construct_object(value, deep=True)
    return values, lines


def _check_key(name: str, line: int, seen: Mapping[str, int]) -> None:
    if name in seen:
        raise _Refused(f"the key {name} is already in line {seen[name]}", line)
    if name not in RepoConfig.model_fields:
        near = difflib.get_close_matches(name.lower(), RepoConfig.model_fields, 1)
        raise _Refused(f"unknown key {name[:80]}", line, near[0] if near else None)


_WANTED = {
    "bool_type": "must be true or false",
    "string_type": "must be text (put it in quotes)",
    "string_too_short": "must not be empty",
    "string_too_long": f"must not be longer than {_MAX_COMMAND} characters",
    "tuple_type": "must be a command or a list of commands",
    "literal_error": "must say refuse, warn or allow for each glob",
    "model_type": "must be a list of `key: value`",
}


def _explain(error: Mapping[str, Any], lines: Mapping[str, int]) -> ConfigError:
    key = str(error["loc"][0])
    if key == "egress" and len(error["loc"]) > 1:
        return _explain_egress(str(error["loc"][1])[:80], str(error["type"]), lines.get(key))
    said = str(error["msg"]).removeprefix("Value error, ")
    return ConfigError(f"{key} {_WANTED.get(error['type'], said)}", lines.get(key))


def _explain_egress(key: str, kind: str, line: int | None) -> ConfigError:
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(key.lower(), EgressWish.model_fields, 1)
        return ConfigError(f"unknown key {key} in egress", line, near[0] if near else None)
    return ConfigError(f"egress: {key} must be a list of names", line)


# --- a test command where the file names none -------------------------------------------------

Read = Callable[[str], bytes | None]
_MAX_TEST_FILES = 50
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test)\.py$")
_PYTEST_USE = re.compile(rb"^\s*(?:import pytest|from pytest)|^(?:async )?def test_", re.MULTILINE)
_UNITTEST_USE = re.compile(rb"^\s*(?:import unittest|from unittest)", re.MULTILINE)
_MAKE_TEST = re.compile(rb"^test\s*:(?!=)", re.MULTILINE)
_NPM_PLACEHOLDER = "no test specified"


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
