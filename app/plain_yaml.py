"""Hostile YAML → plain values and the line of each. Pure.

A subset is taken: one mapping, no aliases (nothing in a file of ours needs one, and a bomb does),
no merges and no key twice (either could change a rule unseen), 64 KiB at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

MAX_BYTES = 64 * 1024
_SHOWN = 80
_MAX_BITS = 64
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"

Place = tuple[str | int, ...]


class BadYaml(Exception):
    """The file was refused. `line` is 1-based; None when the whole file is meant."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True)
class PlainFile:
    """The file's values, and the 1-based line of every place in them.

    A place is the keys and list indices that lead to a value; an entry of a mapping is also found
    by its index.
    """

    values: Mapping[str, object]
    lines: Mapping[Place, int]

    def line_of(self, place: Place) -> int | None:
        """Return the line of a place, or of the nearest thing around it that has one."""
        around = (place[:length] for length in range(len(place), 0, -1))
        return next((self.lines[each] for each in around if each in self.lines), None)


class _PlainLoader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            raise BadYaml("aliases (*name) are not allowed", line)
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """No number here is large, and Python cannot even write one of thousands of digits."""
        number = super().construct_yaml_int(node)
        if number.bit_length() > _MAX_BITS:
            raise BadYaml("a number is too large", node.start_mark.line + 1)
        return int(number)


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_yaml_int)


def read_plain(data: bytes) -> PlainFile:
    """Return what the file says; nothing for an empty one. BadYaml says why it was refused."""
    if len(data) > MAX_BYTES:
        raise BadYaml(f"the file is larger than {MAX_BYTES // 1024} KiB")
    try:
        loader = _PlainLoader(data.decode("utf-8-sig"))
        return _mapping(loader, loader.get_single_node())
    except UnicodeDecodeError:
        raise BadYaml("the file is not UTF-8") from None
    except RecursionError:
        raise BadYaml("the file is nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = mark.line + 1 if mark else None
        raise BadYaml(f"not valid YAML: {error.problem or error.context}", line) from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # PyYAML's constructors raise these for explicit tags on text that does not fit them.
        raise BadYaml(f"not valid YAML: {type(error).__name__}") from None


def _mapping(loader: yaml.SafeLoader, root: yaml.Node | None) -> PlainFile:
    if root is None or root.tag == _NULL:
        return PlainFile({}, {})
    if not isinstance(root, yaml.MappingNode):
        raise BadYaml("the file must be a list of `key: value`", root.start_mark.line + 1)
    lines: dict[Place, int] = {}
    _note_lines(root, (), lines)
    values = {
        str(key.value): loader.construct_object(value, deep=True) for key, value in root.value
    }
    return PlainFile(values, lines)


def _note_lines(node: yaml.Node, place: Place, lines: dict[Place, int]) -> None:
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*place, index)] = item.start_mark.line + 1
            _note_lines(item, (*place, index), lines)
    elif isinstance(node, yaml.MappingNode):
        for index, (key, value) in enumerate(node.value):
            name = _checked_key(key, place, lines)
            lines[(*place, index)] = lines[(*place, name)] = key.start_mark.line + 1
            _note_lines(value, (*place, name), lines)


def _checked_key(key: yaml.Node, place: Place, lines: Mapping[Place, int]) -> str:
    name, line = str(key.value), key.start_mark.line + 1
    if key.tag == _MERGE:
        raise BadYaml("merges (<<) are not allowed", line)
    if (*place, name) in lines:
        raise BadYaml(f"the key {name[:_SHOWN]} is already in line {lines[(*place, name)]}", line)
    return name


def shown(value: Any) -> str:
    """Return a value of the file cut short, for a sentence about it."""
    return str(value)[:_SHOWN]
