"""What the warm process keeps and puts back, apart from any machine."""

from __future__ import annotations

import http.client
import json
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox.guest.warm_aider import CannedModel, Request, State, misfit, remembering


@pytest.fixture
def package() -> Iterator[types.ModuleType]:
    """A package that is imported, with some of each kind of state."""
    module: Any = types.ModuleType("pretended")
    module.Coder = type("Coder", (), {"__module__": "pretended", "warned": set(), "limit": 3})
    module.settings = [{"name": "a", "extra": {"x": 1}}]
    module.aliases = {"short": "long"}
    module.timeout = 10
    module.lazy = None
    module.manager = type("Manager", (), {"__module__": "pretended"})()
    module.manager.known = {}
    sys.modules["pretended"] = module
    yield module
    del sys.modules["pretended"]


def spoil(module: Any) -> None:
    module.settings[0]["extra"]["x"] = 2
    module.settings.append({"name": "b"})
    module.aliases.clear()
    module.timeout = 600
    module.cached_name = "rehearsal"
    module.Coder.warned.add("rehearsal")
    module.Coder.limit = 4
    module.manager.known["model"] = {}
    module.manager.client = json  # an attribute, not a late import


def test_what_a_rehearsal_changed_is_put_back_in_place(package: Any) -> None:
    state = State(deep=frozenset({"pretended"}), shallow=frozenset())
    settings, aliases = package.settings, package.aliases
    spoil(package)
    state.put_back()
    assert package.settings is settings
    assert package.settings == [{"name": "a", "extra": {"x": 1}}]
    assert package.aliases is aliases
    assert package.aliases == {"short": "long"}
    assert package.timeout == 10
    assert not hasattr(package, "cached_name")
    assert (package.Coder.warned, package.Coder.limit) == (set(), 3)
    assert vars(package.manager) == {"known": {}}


def test_a_late_import_stays(package: Any) -> None:
    state = State(deep=frozenset({"pretended"}), shallow=frozenset())
    package.lazy = json
    package.late = json
    state.put_back()
    assert package.lazy is json
    assert package.late is json


def test_of_a_shallow_package_only_the_containers_own_contents_are_kept(package: Any) -> None:
    inner = package.settings[0]["extra"]
    state = State(deep=frozenset(), shallow=frozenset({"pretended"}))
    package.settings.clear()
    package.manager.known["model"] = {}
    state.put_back()
    assert package.settings[0]["extra"] is inner
    assert package.manager.known == {}


def test_equal_texts_are_parsed_once_and_each_caller_gets_objects_of_its_own() -> None:
    parsed = []

    def loads(text: str) -> Any:
        parsed.append(text)
        return json.loads(text)

    once = remembering(loads)
    text = '{"a": [1, 2.5, null, true, "é"]}'
    first, second = once(text), once(text)
    assert first == second == json.loads(text)
    first["a"].append(3)
    assert once(text) == json.loads(text)
    assert once("[]") == []
    assert parsed == [text, "[]"]


def test_a_parse_with_options_is_not_remembered() -> None:
    assert remembering(json.loads)("1.5", parse_float=str) == "1.5"
    assert remembering(json.loads)("1.5") == 1.5


def test_a_text_that_cannot_be_parsed_is_an_error_each_time() -> None:
    once = remembering(json.loads)
    for _ in range(2):
        with pytest.raises(ValueError, match="line 1 column 2"):
            once("{")


@pytest.mark.parametrize(
    ("argv", "env", "reason"),
    [
        (["/bin/aider"], {"A": "1", "KEY": "x"}, ""),
        (["/bin/aider"], {"A": "1"}, ""),
        (["/bin/other"], {"A": "1"}, "another program"),
        (["/bin/aider"], {"A": "2"}, "environment: A"),
        (["/bin/aider"], {}, "environment: A"),
        (["/bin/aider"], {"A": "1", "B": "", "C": ""}, "environment: B C"),
    ],
)
def test_a_command_fits_when_only_what_may_come_late_differs(
    argv: list[str], env: dict[str, str], reason: str
) -> None:
    fields = [
        *(("argv", item) for item in argv),
        *(("env", f"{k}={v}") for k, v in env.items()),
    ]
    folder = os.open("/", os.O_RDONLY)
    request = Request(fields, [-1, -1, -1, folder])
    assert misfit("/bin/aider", {"A": "1"}, frozenset({"KEY"}), request) == reason
    os.close(folder)


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/v1/chat/completions", ("choices", 0, "message", "content")),
        ("/v1/messages", ("content", 0, "text")),
    ],
)
def test_the_canned_model_says_its_lines_in_either_vendors_words(
    path: str, where: tuple[Any, ...]
) -> None:
    with CannedModel(["one", "two"]) as model:
        said = []
        for _ in range(3):
            connection = http.client.HTTPConnection(model.address)
            connection.request("POST", path, b"{}")
            answer: Any = json.loads(connection.getresponse().read())
            for step in where:
                answer = answer[step]
            said.append(answer)
            connection.close()
    assert said == ["one", "two", "two"]
    assert model.answered == 3
