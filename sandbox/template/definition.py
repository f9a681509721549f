"""What a template is made from, as values: the definition file, its lock, and their digests (pure).

A template's digest is SHA-256 over the canonical JSON of everything that decides its contents:
the definition, the hash of Aider's lock, the certificates it trusts, the architecture and the
version of the recipe. The base layer's digest covers only what the base layer is built from, so
that a changed Aider lock does not build the operating system again.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

# Raise it when the steps in recipe.py change what they leave behind.
RECIPE_VERSION = 1

_HERE = Path(__file__).parent
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
_SUITE = re.compile(r"[a-z][a-z0-9-]{0,62}\Z")
# https://www.debian.org/doc/debian-policy/ch-controlfields.html#source
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+\Z")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?==[^\s;]+( ;.*)?\Z")
_OPTION = re.compile(r"(?:^|\s)-{1,2}(?!hash=sha256:|-hash=sha256:)[A-Za-z]")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\Z")

_KEYS = frozenset(
    {"name", "description", "suite", "packages", "setup", "aider", "environment", "machine"}
)
_AIDER_KEYS = frozenset({"version", "lock"})
# What a machine may be asked to have, and the most of it that is no mistake.
_MACHINE_KEYS = {"memory_mib": 1024 * 1024, "cpus": 256, "disk_mib": 16 * 1024 * 1024}


class DefinitionError(ValueError):
    """The definition or its lock breaks a rule; the message names the key and what to write."""


@dataclass(frozen=True)
class Definition:
    """One template's recipe card. `aider_lock` is the text of a pip lock with hashes.

    `setup` are lines for a shell, run as root in the new system, with the host's network, when all
    else is installed. `machine` is what a machine of it has at least: memory_mib, cpus, disk_mib.
    """

    name: str
    description: str
    suite: str
    packages: tuple[str, ...]
    aider_version: str
    aider_lock: str
    environment: tuple[tuple[str, str], ...] = ()
    setup: tuple[str, ...] = ()
    machine: tuple[tuple[str, int], ...] = ()


def builtin_names() -> tuple[str, ...]:
    """Names of the definitions that come with Drydock."""
    return tuple(sorted(path.stem for path in (_HERE / "definitions").glob("*.toml")))


def load_builtin(name: str) -> Definition:
    """The built-in definition of that name. `DefinitionError` names the ones there are."""
    if name not in builtin_names():
        raise DefinitionError(
            f"there is no template definition {name!r}; the built-in ones are: "
            + ", ".join(builtin_names())
        )
    return load_definition(_HERE / "definitions" / f"{name}.toml", lock_dir=_HERE)


def load_named(name: str) -> Definition:
    """A built-in definition by its name, or anybody's by the path of its file (*.toml)."""
    return load_definition(Path(name)) if name.endswith(".toml") else load_builtin(name)


def load_definition(path: Path, *, lock_dir: Path | None = None) -> Definition:
    """Read a definition file; its `aider.lock` is looked up next to it, or in `lock_dir`."""
    text = _read(path)
    lock_name = _lock_name(_parse_toml(text, path.name), path.name)
    return parse_definition(text, _read((lock_dir or path.parent) / lock_name), source=path.name)


@lru_cache(maxsize=16)
def parse_definition(text: str, aider_lock: str, *, source: str = "definition") -> Definition:
    """Turn the file's text and the lock's text into a `Definition`; refuse what is not known.

    Remembered: a lock has thousands of hashes, and every run asks for all definitions.
    """
    data = _parse_toml(text, source)
    _refuse_unknown(data, _KEYS, source)
    aider = _table(data, "aider", source)
    _refuse_unknown(aider, _AIDER_KEYS, f"{source} [aider]")
    version = _matching(aider, "version", _VERSION, f"{source} [aider]")
    check_lock(aider_lock, version)
    return Definition(
        name=_matching(data, "name", _NAME, source),
        description=_string(data, "description", source),
        suite=_matching(data, "suite", _SUITE, source),
        packages=_packages(data, source),
        aider_version=version,
        aider_lock=aider_lock,
        environment=_environment(data, source),
        setup=_setup(data, source),
        machine=_machine(data, source),
    )


def check_lock(text: str, aider_version: str) -> None:
    """A lock pins every requirement with a hash, names no address, and pins that Aider."""
    if "://" in text or _OPTION.search(text):
        raise DefinitionError("aider.lock may hold only pinned names and hashes, no options")
    requirements = list(_requirements(text))
    for pin, hashes in requirements:
        if not _PIN.match(pin) or not hashes or not all(map(_HASH.match, hashes)):
            raise DefinitionError(f"aider.lock: {pin!r} is not pinned with sha256 hashes")
    if f"aider-chat=={aider_version}" not in {pin for pin, _ in requirements}:
        raise DefinitionError(
            f"aider.lock does not pin aider-chat=={aider_version}; run `make lock`"
        )


def base_digest(definition: Definition, architecture: str) -> str:
    """Names the base layer: the operating system without certificates and Aider."""
    return sha256_json(
        {
            "recipe": RECIPE_VERSION,
            "architecture": architecture,
            "suite": definition.suite,
            "packages": sorted(definition.packages),
        }
    )


def template_digest(definition: Definition, architecture: str, ca_digest: str) -> str:
    """Names the whole template; `ca_digest` stands for the certificates that it trusts."""
    described = asdict(definition)
    described["packages"] = sorted(definition.packages)
    described["environment"] = dict(definition.environment)
    described["aider_lock"] = lock_digest(definition)
    for key in ("setup", "machine"):  # a template that has none is named as before there were any
        if not described[key]:
            del described[key]
    return sha256_json(
        {
            "recipe": RECIPE_VERSION,
            "architecture": architecture,
            "definition": described,
            "ca": ca_digest,
        }
    )


def lock_digest(definition: Definition) -> str:
    """SHA-256 of Aider's lock."""
    return hashlib.sha256(definition.aider_lock.encode()).hexdigest()


def sha256_json(value: object) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"cannot read {path}: {error}") from error


def _parse_toml(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"{source} is not TOML: {error}") from error


def _lock_name(data: Mapping[str, Any], source: str) -> str:
    name = _string(_table(data, "aider", source), "lock", f"{source} [aider]")
    if "/" in name or name in {".", ".."}:
        raise DefinitionError(f"{source} [aider]: lock is a file name next to the definition")
    return name


def _refuse_unknown(data: Mapping[str, Any], known: frozenset[str], source: str) -> None:
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, sorted(known), n=1)
            hint = (
                f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(sorted(known))}"
            )
            raise DefinitionError(f"{source}: unknown key {key!r}{hint}")


def _table(data: Mapping[str, Any], key: str, source: str) -> Mapping[str, Any]:
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise DefinitionError(f"{source}: {key} is a table")
    return value


def _string(data: Mapping[str, Any], key: str, source: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise DefinitionError(f"{source}: {key} is missing or not a text")
    return value


def _matching(data: Mapping[str, Any], key: str, pattern: re.Pattern[str], source: str) -> str:
    value = _string(data, key, source)
    if not pattern.match(value):
        raise DefinitionError(f"{source}: {key} = {value!r} is not a valid {key}")
    return value


def _packages(data: Mapping[str, Any], source: str) -> tuple[str, ...]:
    value = data.get("packages")
    if not isinstance(value, list) or not value:
        raise DefinitionError(f"{source}: packages is a list of Debian package names")
    for item in value:
        if not isinstance(item, str) or not _PACKAGE.match(item):
            raise DefinitionError(f"{source}: packages: {item!r} is not a Debian package name")
    return tuple(dict.fromkeys(value))


def _setup(data: Mapping[str, Any], source: str) -> tuple[str, ...]:
    value = data.get("setup", [])
    if not isinstance(value, list):
        raise DefinitionError(f"{source}: setup is a list of shell commands")
    for line in value:
        if not isinstance(line, str) or not line.strip() or "\0" in line:
            raise DefinitionError(f"{source}: setup: {line!r} is not a shell command")
    return tuple(value)


def _machine(data: Mapping[str, Any], source: str) -> tuple[tuple[str, int], ...]:
    table = _table(data, "machine", source)
    _refuse_unknown(table, frozenset(_MACHINE_KEYS), f"{source} [machine]")
    for key, value in table.items():
        most = _MACHINE_KEYS[key]
        if type(value) is not int or not 1 <= value <= most:
            raise DefinitionError(f"{source} [machine]: {key} is a whole number from 1 to {most}")
    return tuple(sorted(table.items()))


def _environment(data: Mapping[str, Any], source: str) -> tuple[tuple[str, str], ...]:
    table = _table(data, "environment", source)
    for key, value in table.items():
        if not _VARIABLE.match(key) or not isinstance(value, str) or "\0" in value:
            raise DefinitionError(f"{source} [environment]: {key} needs a text as its value")
    return tuple(sorted(table.items()))


def _requirements(text: str) -> Iterable[tuple[str, list[str]]]:
    """Yield (pin, hashes) of each requirement, continuation lines joined."""
    for line in text.replace("\\\n", " ").splitlines():
        head, *hashes = re.split(r"\s+(?=--hash=)", line.strip())
        if head and not head.startswith("#"):
            yield head.strip(), [item.strip() for item in hashes]
