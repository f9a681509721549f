from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.settings import Settings, SettingsError, load_settings
from workers.model import choose_model, metadata_of, price_overrides

ENTRY = {
    "input_cost_per_token": 1e-6,
    "output_cost_per_token": 2e-6,
    "max_input_tokens": 1000,
    "litellm_provider": "openai",
    "mode": "chat",
}


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"gpt-4.1": ENTRY}))
    return path


def settings(**given: str) -> Settings:
    env = {"DRYDOCK_MODEL": "openai/gpt-4.1", "DRYDOCK_MODEL_API_KEY": "k-1", **given}
    return load_settings(None, env)


def test_a_model_has_its_route_its_key_and_its_price(prices: Path) -> None:
    choice = choose_model(settings(), prices)
    assert choice.name == "openai/gpt-4.1"
    assert choice.route.provider in choice.credentials
    assert choice.prices
    assert choice.metadata is not None
    assert choice.metadata["max_input_tokens"] == 1000
    assert "k-1" not in repr(choice)


def test_a_command_may_name_another_model_of_the_same_server(prices: Path) -> None:
    choice = choose_model(settings(), prices, "openai/gpt-4.1-mini")
    assert choice.name == "openai/gpt-4.1-mini"
    assert choice.route.model == "openai/gpt-4.1-mini"


def test_a_server_that_wants_no_key_gets_none(prices: Path) -> None:
    env = {"DRYDOCK_MODEL": "openai/x", "DRYDOCK_MODEL_API_BASE": "http://127.0.0.1:8081/v1"}
    assert choose_model(load_settings(None, env), prices).credentials == {}


@pytest.mark.parametrize(
    "given",
    [
        {"DRYDOCK_MODEL": "nosuchvendor/x"},
        {"DRYDOCK_MODEL_API_KEY": "two\nlines"},
        {"DRYDOCK_MODEL_API_BASE": "http://models.example/v1"},
    ],
)
def test_what_cannot_work_is_said_in_words(prices: Path, given: dict[str, str]) -> None:
    with pytest.raises(SettingsError) as caught:
        choose_model(settings(**given), prices)
    assert "two\nlines" not in str(caught.value)


def test_a_price_table_that_is_none_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("[]")
    with pytest.raises(SettingsError):
        choose_model(settings(), tmp_path / "prices.json")


def test_the_operators_prices_win_and_count_for_both_models(prices: Path) -> None:
    given = settings(
        DRYDOCK_MODEL_INPUT_USD_PER_MTOK="3",
        DRYDOCK_MODEL_OUTPUT_USD_PER_MTOK="9",
        DRYDOCK_WEAK_MODEL="openai/small",
    )
    assert price_overrides(given) == {
        name: {"input_cost_per_token": 3e-6, "output_cost_per_token": 9e-6}
        for name in ("openai/gpt-4.1", "openai/small")
    }
    told = metadata_of("openai/gpt-4.1", prices, given)
    assert told is not None
    assert told["input_cost_per_token"] == 3e-6


def test_of_an_unknown_model_aider_is_told_nothing(prices: Path) -> None:
    assert metadata_of("openai/unknown", prices, settings()) is None
    sized = settings(DRYDOCK_MODEL_MAX_INPUT_TOKENS="5000")
    assert metadata_of("openai/unknown", prices, sized) == {"max_input_tokens": 5000}
