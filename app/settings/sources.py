"""Where settings come from: `drydock.toml`, the environment, files of secrets, vendors' variables.

The only reader of any of them. `load_settings` is called once, at the edge, and its frozen value
is passed in; importing this module reads nothing.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.settings.errors import SettingsError
from app.settings.values import ENV_PREFIX, SECRET_FIELDS, Settings, variable
from app.settings.vendors import base_names, key_names, model_vendor

CONFIG_VARIABLE = "DRYDOCK_CONFIG"
CONFIG_NAME = "drydock.toml"
_MAX_SECRET_BYTES = 64 * 1024
_TYPO_RATIO = 0.8


def load_settings(
    config_path: Path | None = None, env: Mapping[str, str] | None = None
) -> Settings:
    """Read the file and the environment once. SettingsError with every problem found.

    The file is `config_path`, else `$DRYDOCK_CONFIG`, else `drydock.toml` in the working folder
    if there is one. Empty variables count as not set. `env` defaults to the process's.
    """
    given = os.environ if env is None else env
    env = {name: value for name, value in given.items() if value.strip()}
    reader = _Reader()
    reader.read_file(_config_path(config_path, env))
    reader.read_env(env)
    reader.read_vendor(env)
    return reader.build()


def _config_path(config_path: Path | None, env: Mapping[str, str]) -> Path | None:
    if config_path is not None:
        return config_path
    if CONFIG_VARIABLE in env:
        return Path(env[CONFIG_VARIABLE])
    default = Path(CONFIG_NAME)
    return default if default.is_file() else None


class _Reader:
    """Collects values with where each came from, and the problems on the way."""

    def __init__(self) -> None:
        self._values: dict[str, object] = {}
        self._sources: dict[str, str] = {}
        self._problems: list[str] = []

    def read_file(self, path: Path | None) -> None:
        if path is None:
            return
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            self._problems.append(f"{path}: cannot be read ({error.strerror or error})")
        except ValueError as error:
            self._problems.append(f"{path}: not valid TOML ({error})")
        else:
            self._take_table(path, table)

    def _take_table(self, path: Path, table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            field = _field_of(key)
            if field is None:
                self._problems.append(f"{path}: {unknown_key(key, _known_keys())}")
            elif key != field:
                self._take_secret(
                    field, f"{key} in {path}", path.parent / Path(str(value)).expanduser()
                )
            else:
                self._put(field, value, f"{key} in {path}")
        self._refuse_pairs({key: f"{key} in {path}" for key in table})

    def read_env(self, env: Mapping[str, str]) -> None:
        names = [n for n in env if n.startswith(ENV_PREFIX) and n != CONFIG_VARIABLE]
        for name in names:
            key = name.removeprefix(ENV_PREFIX).lower()
            field = _field_of(key)
            if field is None:
                self._suspect(name, key)
            elif key != field:
                self._take_secret(field, name, Path(env[name]).expanduser())
            else:
                self._put(field, env[name], name)
        self._refuse_pairs({n.removeprefix(ENV_PREFIX).lower(): n for n in names})

    def _suspect(self, name: str, key: str) -> None:
        """The environment is shared with other tools: only a likely typing error is refused."""
        near = difflib.get_close_matches(key, _known_keys(), 1, _TYPO_RATIO)
        if near:
            self._problems.append(f"{name} is not a setting; did you mean {variable(near[0])}?")

    def _refuse_pairs(self, given: Mapping[str, str]) -> None:
        for field in sorted(SECRET_FIELDS):
            if field in given and f"{field}_file" in given:
                self._problems.append(
                    f"{given[field]} and {given[f'{field}_file']} are both set: keep one"
                )

    def _put(self, field: str, value: object, source: str) -> None:
        self._values[field] = value
        self._sources[field] = source

    def _take_secret(self, field: str, source: str, path: Path) -> None:
        """Read a secret from a file; a file that cannot be read is a problem, not an absence."""
        try:
            with path.open("rb") as file:
                text = file.read(_MAX_SECRET_BYTES).decode("utf-8").strip()
        except OSError as error:
            self._problems.append(f"{source}: cannot read {path} ({error.strerror or error})")
        except ValueError:
            self._problems.append(f"{source}: {path} is not text")
        else:
            if not text:
                self._problems.append(f"{source}: {path} is empty")
            self._put(field, text, source)

    def read_vendor(self, env: Mapping[str, str]) -> None:
        """The vendor's own variables fill what Drydock's left open, for the model's vendor only."""
        vendor = model_vendor(str(self._values.get("model") or ""))
        if vendor is None:
            return
        for field, names in (
            ("model_api_key", key_names(vendor)),
            ("model_api_base", base_names(vendor)),
        ):
            name = next((n for n in names if n in env), None)
            if field not in self._values and name is not None:
                self._put(field, env[name], name)

    def build(self) -> Settings:
        try:
            settings = Settings.model_validate(self._values)
        except ValidationError as error:
            self._problems.extend(self._explain(dict(e)) for e in error.errors())
        if self._problems:
            raise SettingsError(tuple(self._problems))
        return settings

    def _explain(self, error: Mapping[str, Any]) -> str:
        """One sentence for one pydantic error; the given value is never repeated."""
        message = str(error["msg"]).removeprefix("Value error, ")
        field = str(error["loc"][0]) if error["loc"] else None
        if field is None:
            return message
        return f"{self._sources.get(field, variable(field))}: {message}"


def _known_keys() -> tuple[str, ...]:
    return (*Settings.model_fields, *(f"{field}_file" for field in sorted(SECRET_FIELDS)))


def _field_of(key: str) -> str | None:
    if key in Settings.model_fields:
        return key
    field = key.removesuffix("_file")
    return field if field in SECRET_FIELDS and field != key else None


def unknown_key(key: str, known: tuple[str, ...]) -> str:
    """Say that a key is unknown, and the nearest right one if any is near."""
    bare = key.lower().removeprefix("drydock_")  # as the environment calls it
    near = [bare] if bare in known else difflib.get_close_matches(bare, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown key {key!r}{hint}"
