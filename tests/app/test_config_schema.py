from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from app.config_schema import EXAMPLES, json_schema, key_rows
from app.repo_config import RepoConfig, parse_repo_config


def test_the_schema_lists_exactly_the_keys_and_refuses_others() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == set(RepoConfig.model_fields)
    assert schema["additionalProperties"] is False
    assert all("description" in value for value in schema["properties"].values())
    json.dumps(schema)


def test_every_key_has_a_row_with_an_example_that_is_taken() -> None:
    rows = list(key_rows())
    assert [name for name, *_ in rows] == list(RepoConfig.model_fields)
    assert all(meaning for *_, meaning in rows)
    for name, example in EXAMPLES.items():
        config = parse_repo_config(f"{name}: {example}\n".encode())
        assert isinstance(config, RepoConfig), config
        assert config.model_fields_set == {name}


@pytest.mark.parametrize("name", ["setup", "files", "reviewers", "labels"])
def test_one_may_stand_without_its_list_in_the_schema_too(name: str) -> None:
    one, many = json_schema()["properties"][name]["anyOf"]
    assert (one["type"], many["type"]) == ("string", "array")
    assert many["items"] == one


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


_VALIDATOR = Draft202012Validator(json_schema())
_LIKELY: st.SearchStrategy[object] = st.sampled_from(
    [
        *(None, True, 1, 45, 2.5, "45m", "all", "none", "write", "a/b", "x", ["x"], [], {}),
        *({"x": "warn"}, {"hosts": []}, {"registries": ["pip"]}),
    ]
)


@given(st.dictionaries(st.sampled_from(list(RepoConfig.model_fields)), _LIKELY, max_size=6))
def test_an_editor_complains_of_nothing_that_is_taken(values: dict[str, object]) -> None:
    if isinstance(parse_repo_config(yaml.safe_dump(values).encode()), RepoConfig):
        assert list(_VALIDATOR.iter_errors(values)) == []


@pytest.mark.parametrize(
    "wrong", [{"tset": "x"}, {"draft": "yes"}, {"ttl": "1x"}, {"ttl": ""}, {"allow": 3}]
)
def test_an_editor_complains_of_the_usual_mistakes(wrong: dict[str, object]) -> None:
    assert list(_VALIDATOR.iter_errors(wrong))
